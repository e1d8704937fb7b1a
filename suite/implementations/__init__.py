"""The implementations in the tree, each behind the contract in ``suite/implementation.py``."""
