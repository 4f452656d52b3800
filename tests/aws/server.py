"""The embedded AWS with EKS's list of updates: ``python -m tests.aws.server``."""

from __future__ import annotations

from rehearsal.aws.server import serve
from tests.aws import updates

if __name__ == "__main__":
    updates.mend()
    serve()
