"""Named workloads: ``<name>.py`` holds one function ``<name>()`` that returns a full, frozen WorkloadSpec."""
