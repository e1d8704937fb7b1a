"""Benchmarks of the suite itself. Not shipped and never asserted on: a person reads the figures."""
