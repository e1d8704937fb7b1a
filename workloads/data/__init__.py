"""Data sources (see ``suite.data`` for the contract)."""
