"""docs/cost.md says the durations that `make cost` counts with."""

from __future__ import annotations

from typing import Final

import pytest

from experiment.cost.durations import (
    COMPILE_SECONDS,
    CPU_NODE_SECONDS,
    DEPLOY_SECONDS,
    DOWNLOAD_MIBPS,
    DRIVER_SECONDS,
    FIRST_START_SECONDS,
    FIRST_START_USUAL_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    TOKEN_SECONDS,
    TRAINIUM_NODE_SECONDS,
)
from tests.experiment.files import ROOT

COST: Final = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("duration", "value"),
    [
        ("all stacks", f"{DEPLOY_SECONDS // 60} min"),
        ("download", f"{DOWNLOAD_MIBPS} MiB/s"),
        ("a CPU node", f"{CPU_NODE_SECONDS // 60} min"),
        ("one compile", f"{COMPILE_SECONDS // 60} min"),
        ("a Trainium node", f"{TRAINIUM_NODE_SECONDS // 60} min"),
        ("start of a server", f"{START_SECONDS // 60} min"),
        ("first start", f"{FIRST_START_USUAL_SECONDS // 60} min"),
        ("one output token", f"{TOKEN_SECONDS * 1000:g} ms"),
        ("start of a load generator", f"{DRIVER_SECONDS} s a turn"),
        ("end of a node", f"{STOP_SECONDS // 60} min"),
    ],
)
def test_it_says_each_duration(duration: str, value: str) -> None:
    assert f"\n| {duration} | {value} | " in COST


def test_it_says_what_the_probe_of_a_first_start_allows() -> None:
    assert f"the probe allows {FIRST_START_SECONDS // 3600} hours" in COST
