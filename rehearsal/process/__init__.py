"""Child processes and their ports."""
