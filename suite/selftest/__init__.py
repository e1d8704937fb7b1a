"""What a user runs first on a new machine: are the implementations right here, and do faults end well?"""
