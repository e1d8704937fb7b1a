"""Starting ranks, watching them, and saying which one was to blame when a launch fails."""
