"""``make microbench``: the small pieces, timed by pytest-benchmark, each kept and compared with the last."""
