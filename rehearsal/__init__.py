"""The experiment on one machine, with stand-ins for AWS and for the vLLM services."""


class RehearsalError(Exception):
    """The rehearsal cannot continue, or a check failed. One line."""
