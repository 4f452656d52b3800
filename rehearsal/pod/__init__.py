"""The benchmark pod, read from its manifest and run as a process."""
