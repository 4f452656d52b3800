"""A cell against that of its baseline: what can be claimed, and how it is said."""
