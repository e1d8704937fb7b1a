"""The command line: one file a verb; everything that prints is here."""
