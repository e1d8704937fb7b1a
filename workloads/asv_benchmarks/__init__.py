"""What asv runs: a file a family of metrics, a class in it for each workload of the chosen size.

asv imports every module in this folder (and never torch): what the benchmarks share is in ``support``.
docs/asv.md says how to run them and what they mean.
"""
