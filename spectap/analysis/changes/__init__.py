"""Two runs against each other: what changed, and whether the difference is real."""
