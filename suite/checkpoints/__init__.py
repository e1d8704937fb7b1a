"""Training states on disk: a checkpoint's folder (folder.py) and its tensors (tensors.py)."""
