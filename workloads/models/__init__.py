"""Models that workloads name as ``model.factory``, beside those of ``reference_impl``."""
