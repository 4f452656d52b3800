"""What only a deployment knows, because it depends on the account."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Deployed:
    """What manifests say of an account."""

    bucket: str
    benchmark_image: str
    stopper: str | None = None
    """ARN of the state machine that ends the Trainium nodes; None for manifests without one."""
    prompts_bucket: str | None = None
    """Where a deploy puts the user's files of prompts."""
