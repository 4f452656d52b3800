"""Runs made up for the tests of the report: over several loads, and of several windows."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spectap.analysis.summary import Correctness
from spectap.inputs.prompt import LeftOut, UsedSet
from spectap.report import results
from spectap.report.results import Results
from tests import generated_runs as generated
from tests.generated_runs import Line

Slower = Mapping[float, float]
"""How many times slower variants are than their own cost model says, by load."""

CONCURRENCIES: Slower = {1: 0.8, 2: 1.0, 4: 1.7, 8: 4.0}
RATES: Slower = {0.5: 0.9}
TWO_DRAFTS: Sequence[Line] = (
    generated.ARTICLE[0],
    *({**generated.ARTICLE[1], "name": f"k{window}", "window": window} for window in (3, 5, 7, 11)),
    {**generated.ARTICLE[1], "name": "small", "draft": "Qwen/Qwen3-0.6B"},
)


CONFIG = generated.config()
LINES = generated.ledger(CONFIG)


def read(folder: Path, configuration: Line, lines: Iterable[Line] | None = None) -> Results:
    """The run of a configuration, with every request unless it is given ``lines``."""
    if lines is None:
        lines = generated.ledger(configuration)
    return results.read(generated.write(folder, configuration, lines))


def ladder_config(concurrencies: Slower = CONCURRENCIES, rates: Slower = RATES) -> Line:
    """The content of a ``config.json`` with these load points."""
    content = generated.config()
    points = [
        *({"concurrency": int(number), "requests": 4} for number in concurrencies),
        *({"rate": rate, "requests": 4} for rate in rates),
    ]
    return content | {
        "load": content["load"] | {"points": points},
        "objectives": {"ttft_p90_ms": 600, "tpot_p90_ms": 30},
    }


def ladder_lines(
    configuration: Line, concurrencies: Slower = CONCURRENCIES, rates: Slower = RATES
) -> Iterator[Line]:
    """The requests of all load points, one after the other."""
    points = [
        *((f"concurrency-{number:g}", factor) for number, factor in concurrencies.items()),
        *((f"rate-{rate:g}", factor) for rate, factor in rates.items()),
    ]
    load = configuration["load"] | {"points": generated.config()["load"]["points"]}
    for number, (name, factor) in enumerate(points):
        for line in generated.ledger(configuration | {"load": load}, seed=number):
            slowed = generated.slowed(line, factor) if line["variant"] != "Base" else line
            sent = line["sent"] + 600 * number
            due = {"due": sent - 0.002} if name.startswith("rate") else {}
            request = f"{name}-{line['request']}"
            yield slowed | due | {"load": name, "request": request, "sent": sent}


def ladder(
    folder: Path,
    concurrencies: Slower = CONCURRENCIES,
    rates: Slower = RATES,
    cases: int = 3,
    variants: Sequence[Line] = generated.ARTICLE,
) -> Results:
    """A run at these load points, of so many test cases."""
    content = ladder_config(concurrencies, rates)
    content |= {"test_cases": content["test_cases"][:cases], "variants": [*variants]}
    return read(folder, content, ladder_lines(content, concurrencies, rates))


def with_prompts(run: Results) -> Results:
    """With what sets of prompts and checked answers add; a variant's answers got worse."""
    left_out = tuple(LeftOut(f"MT-Bench/{number}", 4000 + number, 2048) for number in range(7))
    classes = (("coding", 40), ("writing", 20))
    sets = (
        UsedSet("repetition", "MT-Bench", "Apache-2.0", "ab" * 32, classes, 60, left_out, True),
        UsedSet("counting", "ours.jsonl", "", "cd" * 32, (), 12, (), False),
    )
    checks = (TOOL_CALLS, PROGRAMS)
    return replace(run, summary=replace(run.summary, sets=sets, correctness=checks))


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
    lost=6,
    won=0,
    blind=False,
)
PROGRAMS = replace(TOOL_CALLS, test_case="counting", check="programs", worse=False)


def visible(html: str) -> str:
    """The text of a page as it is read: without markup, white space folded."""
    inline = re.sub(r'<span class="whole">(.*?)</span>', r"\1", html)
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", inline, flags=re.DOTALL)
    return " ".join(text.replace("&#39;", "'").split())


def section(html: str, anchor: str) -> str:
    """The visible text of one section, up to the next one's heading; empty where there is none."""
    _, _, after = html.partition(f'<h2 id="{anchor}">')
    return visible(after.partition("<h2 ")[0])
