"""The advice from a run on golden endpoints agrees with their own arithmetic.

Two drafts with windows 3, 7 and 15 are measured through the real taps, one request at a time: then
nothing but the window and the draft decides what a step takes. A busy machine makes all steps
longer, so times are held against the baseline's.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from experiment import Experiment
from experiment.loader import parse
from experiment.variants import Variant, variants
from rehearsal.golden.acceptances import OF_STRUCTURE
from rehearsal.golden.arithmetic import best, decoding, gain
from rehearsal.golden.drafts import draft_of
from rehearsal.golden.endpoints import golden_endpoints
from rehearsal.golden.schedule import Decoding
from spectap.analysis.advice.advice import Advice
from spectap.analysis.advice.advise import advise
from spectap.config import Config, Structure, TestCase
from spectap.ledger import read_ledger
from spectap.load.driver import Driver
from spectap.load_points import Load, LoadPoint
from spectap.names import LEDGER
from spectap.prompt import Prompt
from spectap.run.run import Patience, Run
from tests.experiment.files import EXPERIMENTS
from tests.spectap import samples

SPEED: Final = 20
TOKENS: Final = 400
"""Many, so that it matters little how late the last ones are."""
ROUNDS: Final = 6
PATIENCE: Final = Patience(start=20, recovery=5, stall=5, grace=20, poll=0.05, counters=0.1)


class InProcess(Driver):
    """One request after another, without a process for each turn."""

    async def run(
        self,
        *,
        model: str,
        case: TestCase,
        prompts: Sequence[Prompt],
        shape: Load,
        point: LoadPoint,
        seed: str,
        endpoint: str,
        results: Path,
        answers: Path | None = None,
        grace_seconds: float = 0,
    ) -> None:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": f"\n{case.line}\n" * 3}],
            "stream": True,
            "max_tokens": shape.mean_output_tokens,
        }
        async with aiohttp.ClientSession() as session:
            for _ in range(point.requests):
                async with session.post(f"{endpoint}/chat/completions", json=body) as response:
                    await response.read()


@dataclass(frozen=True)
class Advised:
    """What a run was of, and what came of it."""

    variants: tuple[Variant, ...]
    advice: Advice

    def draft(self, line: str | None) -> Variant:
        """A variant with the draft of that line."""
        own = next(one for one in self.advice.lines if one.name == line)
        return next(one for one in self.variants if one.name == own.variants[0][1])

    def decoding(self, line: str | None, window: int) -> Decoding:
        return replace(decoding(self.draft(line)), window=window)

    def acceptance(self, line: str | None, prompt_class: str | None) -> float:
        assert prompt_class is not None
        return draft_of(self.draft(line)).acceptance(OF_STRUCTURE[Structure(prompt_class)])


def sweep() -> Experiment:
    text = (EXPERIMENTS / "article-sweep.yaml").read_text(encoding="utf-8")
    return parse(text.replace("windows: [5, 7, 10, 15]", "windows: [3, 7, 15]"), "sweep.yaml")


def config(experiment: Experiment, urls: Mapping[str, str]) -> Config:
    """All of the sweep's variants, measured in turn."""
    measured = [
        {
            "name": one.name,
            "endpoint": urls[one.name],
            "baseline": one.baseline,
            "mode": one.mode,
            "draft": one.draft.id if one.draft else None,
            "window": one.window,
            "drafts_per_step": one.drafts_per_step,
            "batch": one.batch,
        }
        for one in variants(experiment)
    ]
    cases = [
        {"name": one.name, "line": one.line, "structure": one.structure}
        for one in experiment.benchmark.test_cases
    ]
    load = {
        "mean_input_tokens": 64,
        "mean_output_tokens": TOKENS,
        "points": [LoadPoint(concurrency=1, requests=1)],
        "rounds": ROUNDS,
        "timeout_seconds": 60,
    }
    return samples.config(variants=measured, load=load, test_cases=cases, region=None, bucket=None)


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> Advised:
    folder, experiment = tmp_path_factory.mktemp("advised"), sweep()
    with golden_endpoints(experiment, SPEED, os.environ, folder / "logs") as urls:
        told = config(experiment, urls)
        driver = InProcess(None, folder / "scratch")
        run = Run(told, folder / "run", driver=driver, patience=PATIENCE)
        assert asyncio.run(run.execute()) == []
    records = read_ledger(folder / "run" / LEDGER)
    return Advised(variants(experiment), advise(told, records))


def test_the_best_draft_and_window_are_recommended_or_ones_as_good(advised: Advised) -> None:
    found = [one for one in advised.advice.recommendations if one.prompt_class is not None]
    assert {one.prompt_class for one in found} == {*OF_STRUCTURE}
    for one in found:
        true = max(
            gain(best(decoding(variant), rate, 1), rate, 1)
            for line in advised.advice.lines
            for variant in [advised.draft(line.name)]
            for rate in [advised.acceptance(line.name, one.prompt_class)]
        )
        assert one.choice.window is not None, one.sentence
        own = advised.decoding(one.choice.line, one.choice.window)
        recommended = gain(own, advised.acceptance(one.choice.line, one.prompt_class), 1)
        assert recommended >= 0.98 * true, one.sentence
        assert one.choice.line == "Qwen3-1.7B"


def test_drafts_are_accepted_as_often_as_they_should_be(advised: Advised) -> None:
    """Over all positions, and at each of them as far as luck goes.

    Windows share their luck, since the n-th answer to a prompt has the same on all endpoints: of
    the drafts that three of them reached, at least a third are independent.
    """
    windows = 3
    assert len(advised.advice.acceptances) == 4
    for one in advised.advice.acceptances:
        true = advised.acceptance(one.line, one.prompt_class)
        for position in one.positions:
            error = math.sqrt(true * (1 - true) * windows / position.reached)
            assert position.accepted == pytest.approx(true, abs=4 * error), one.line
        reached = sum(position.reached for position in one.positions)
        accepted = sum(position.reached * position.accepted for position in one.positions)
        assert reached > 2500
        assert accepted / reached == pytest.approx(true, abs=0.02), one.line


def test_a_step_takes_what_it_takes_at_every_window(advised: Advised) -> None:
    """Those that were not measured, too."""
    (baseline,) = {cost.baseline for cost in advised.advice.costs}
    prospects = advised.advice.prospects
    assert len(prospects) == 2 * 2 * 14
    for one in prospects:
        own = advised.decoding(one.line, one.window)
        true = own.step_seconds() / replace(own, window=1).step_seconds()
        assert one.step_seconds / baseline == pytest.approx(true, rel=0.02), one
