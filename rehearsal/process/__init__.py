"""Child processes: start, wait, end, and a signal in between."""
