"""docs/cost.md shows what `make cost` prints, and says the durations that it counts with."""

from __future__ import annotations

import re
from typing import Final

import pytest

from experiment import load
from experiment.cost import Standing, cost
from experiment.cost.page import page
from experiment.cost.stages import (
    CPU_NODE_SECONDS,
    DEPLOY_SECONDS,
    DOWNLOAD_MIBPS,
    FIRST_START_USUAL_SECONDS,
    STOP_SECONDS,
    TRAINIUM_NODE_SECONDS,
)
from experiment.estimate import (
    COMPILE_SECONDS,
    DRIVER_SECONDS,
    FIRST_START_SECONDS,
    START_SECONDS,
    TOKEN_SECONDS,
)
from tests.experiment.files import ARTICLE, ROOT

COST: Final = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
WIDTH: Final = 110


def test_its_example_is_what_the_command_prints() -> None:
    """If it is not: COLUMNS=110 python -m experiment cost experiments/article.yaml"""
    printed = "\n".join(page(load(ARTICLE), str(ARTICLE.relative_to(ROOT)), WIDTH))
    assert f"```\n{printed}\n```" in COST


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


def test_the_readme_says_what_each_file_costs() -> None:
    """Of two-cores.yaml nothing: it is rehearsed."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(experiments/\S+)`.*\| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", readme)
    assert len(rows) > 5
    for file, hours, usd, usd_to_pay in rows:
        if hours == "none":
            continue
        experiment = load(ROOT / file)
        found, rounds = cost(experiment), experiment.benchmark.rounds
        most = "" if rounds.at_least == rounds.at_most else "at most "
        node_hours = experiment.capacity.nodes * found.hours_of(Standing.TRAINIUM)
        assert (hours, usd, usd_to_pay) == (
            f"{most}{node_hours:.1f}",
            f"{most}{found.usd:.0f}",
            f"{most}{found.usd_to_pay:.0f}",
        ), file
