"""A sweep on this machine: its Job's pods, one process each, and what the Job controller does."""
