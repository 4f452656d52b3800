"""Kubernetes: the charts of an experiment, and the names that others know its objects by."""
