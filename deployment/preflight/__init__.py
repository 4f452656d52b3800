"""Read-only: what would stand in the way of an experiment in this account."""

from deployment.preflight.command import checks, run
from deployment.preflight.finding import Finding, Status

__all__ = ["Finding", "Status", "checks", "run"]
