"""Runs at several load points, made up for the tests of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from benchmark.analysis.summary import Case, Cell, Claim, Crossover, Ladder
from benchmark.report import results
from benchmark.report.results import Results
from tests.benchmark import generated_runs as generated
from tests.benchmark.generated_runs import Line

CONCURRENCIES: Mapping[float, float] = {1: 0.8, 2: 1.0, 4: 1.7, 8: 4.0}
"""How many times slower SD is than its own cost model says, by concurrency."""
RATES: Mapping[float, float] = {0.5: 0.9}
"""The same by requests a second."""


def configuration(
    concurrencies: Mapping[float, float] = CONCURRENCIES, rates: Mapping[float, float] = RATES
) -> Line:
    """The content of a ``config.json`` with these load points."""
    content = generated.config()
    load = {name: content["load"][name] for name in content["load"] if name != "concurrency"}
    requests = load.pop("requests")
    points = [
        *({"concurrency": int(one), "requests": requests} for one in concurrencies),
        *({"rate": one, "requests": requests} for one in rates),
    ]
    return content | {"load": load | {"points": points}}


def ledger(
    concurrencies: Mapping[float, float] = CONCURRENCIES,
    rates: Mapping[float, float] = RATES,
    variants: tuple[Line, ...] = generated.ARTICLE,
) -> Iterator[Line]:
    """The requests of all load points, one after the other."""
    points = [
        *((f"concurrency-{one:g}", factor) for one, factor in concurrencies.items()),
        *((f"rate-{one:g}", factor) for one, factor in rates.items()),
    ]
    for number, (name, factor) in enumerate(points):
        for line in generated.ledger(generated.config(variants=variants), seed=number):
            own = generated.slowed(line, factor) if line["variant"] != "Base" else line
            due = {"due": line["sent"] - 0.002} if name.startswith("rate") else {}
            yield (
                own
                | due
                | {
                    "load": name,
                    "request": f"{name}-{line['request']}",
                    "sent": line["sent"] + 600 * number,
                }
            )


def run(folder: Path) -> Results:
    """A run at four concurrencies and one rate."""
    return results.read(generated.write(folder, configuration(), ledger()))


def with_ladders(run: Results) -> Results:
    """With ladders that say what the cells say."""
    cases = tuple(replace(case, ladders=tuple(_ladders(case))) for case in run.summary.cases)
    return replace(run, summary=replace(run.summary, cases=cases))


def _ladders(case: Case) -> Iterator[Ladder]:
    found = [(cell, one) for cell, one in case.compared if cell.load and not cell.load.open]
    points = tuple(cell.load for cell, _ in found if cell.load)
    speed = _crossover([(cell, one.speed) for cell, one in found])
    cost = _crossover([(cell, one.cost) for cell, one in found])
    sentence = f"SD over concurrency in {case.name}."
    yield Ladder("SD", "Base", False, points, speed, cost, sentence)


def _crossover(claims: list[tuple[Cell, Claim | None]]) -> Crossover:
    better = [_at(cell) for cell, one in claims if one and one.interval.low > 1]
    worse = [_at(cell) for cell, one in claims if one and one.interval.high < 1]
    low, high = max(better, default=None), min(worse, default=None)
    point = (low * high) ** 0.5 if low and high else None
    return Crossover(point, low, high)


def _at(cell: Cell) -> float:
    assert cell.load is not None
    return float(cell.load.concurrency or 0)
