"""The oracle: DLRM and 2D sparse parallelism in plain PyTorch, one process, whole tables, no TorchRec.

It is written from the formulae (docs of the method, DLRM's paper), not from ``reference_impl``, and
shares no code with it: an error would have to be made twice to go unseen. float64 throughout, so that
what a comparison shows is the rounding of the implementation alone.
"""
