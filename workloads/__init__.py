"""What is run: workload specs (one file each in ``specs/``) and the data sources they name."""
