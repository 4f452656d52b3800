"""Every error the benchmark reports to its user: one tree, so that callers catch a family.

The text of each is one line, or a line for each thing that is wrong.
"""

from __future__ import annotations


class BenchmarkError(Exception):
    """The benchmark cannot do what it was asked to."""


class ConfigError(BenchmarkError):
    """The configuration cannot be used. It names the file, the field and what is allowed."""


class JournalError(BenchmarkError):
    """A line of a ledger, or of another journal, cannot be read.

    It names the file, the line number and the reason.
    """


class TapError(BenchmarkError):
    """The tap cannot listen."""


class EndpointError(BenchmarkError):
    """An endpoint does not serve, or not what is needed. It names the endpoint and the reason."""


class RunError(BenchmarkError):
    """The run cannot start or continue."""


class MergeError(BenchmarkError):
    """The variants of a sweep cannot be put into one run. It names the file and the reason."""


class LoadError(BenchmarkError):
    """The load generator could not be run to its end, or left no results."""


class ShippingError(BenchmarkError):
    """Results could not leave this machine. They are kept, and can be sent later."""


class BucketError(ShippingError):
    """The bucket cannot be written to. It names the bucket, the reason and what to check."""


class SecretError(BenchmarkError):
    """The endpoints' key cannot be read. It names the secret, the reason and what to check."""


class StopError(BenchmarkError):
    """The nodes cannot be told to end. It names the state machine, the reason and what to check."""


class PublishError(ShippingError):
    """CloudWatch takes no metrics now."""
