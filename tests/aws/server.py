"""The embedded AWS with what the tests of commands need beside: ``python -m tests.aws.server``."""

from __future__ import annotations

from rehearsal.aws.server import serve
from tests.aws import updates
from tests.aws.calls import Calls

if __name__ == "__main__":
    updates.mend()
    serve(Calls)
