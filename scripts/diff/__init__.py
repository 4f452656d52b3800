"""What a change of an experiment, or of the code, would do: without an AWS account."""
