"""Pods, read from their manifests, and the benchmark's run as a process."""
