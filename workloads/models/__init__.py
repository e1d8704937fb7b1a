"""Models that workloads name as ``model.factory``, beside TorchRec's DLRM and DLRM_DCN of ``reference_impl``."""
