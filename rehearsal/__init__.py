"""The experiment on one machine: what stands in for AWS and for vLLM."""
