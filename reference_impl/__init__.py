"""2D sparse parallelism on TorchRec and FBGEMM, written to be read in an hour.

Start with README.md in this folder, then ``train_step.py`` and follow the imports. This package knows
no clock, no file and no command line; importing it does not import torch.
"""
