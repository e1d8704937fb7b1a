"""The harness: it runs workloads on implementations, keeps records, and judges them."""
