"""AWS: one stack a concern, each given typed values and nothing else."""
