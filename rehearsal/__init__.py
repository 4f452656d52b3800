"""The experiment on one machine, with stand-ins for AWS and for the vLLM services."""
