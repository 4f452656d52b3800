"""AWS: one stack for each concern. A stack gets typed values and reads nothing else."""
