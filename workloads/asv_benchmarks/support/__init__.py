"""What the asv benchmarks share: what to run, one launch for all metrics of a configuration, directions."""
