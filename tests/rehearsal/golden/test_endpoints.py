"""Golden endpoints know the article's prompts and make the article's shape of them."""

from __future__ import annotations

import argparse
import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from experiment import Experiment
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Engine, Mode
from experiment.variants import variants
from rehearsal.golden.acceptances import OF_STRUCTURE, by_text
from rehearsal.golden.arithmetic import decoding, scheduled_time
from rehearsal.golden.endpoints import golden_endpoints
from rehearsal.golden.server import Acceptance
from spectap.config import Structure
from spectap.endpoint import counters
from spectap.endpoint.counters import Counters
from spectap.load import llmperf
from spectap.load.requests import requests_of
from tests.experiment.files import EAGLE, EAGLE3_HEAD, edited


def prompt(experiment: Experiment, line: str | None, folder: Path) -> str:
    """What the built-in driver sends first."""
    text = folder / "text"
    text.write_text(llmperf.repeated(line or ""))
    options = argparse.Namespace(
        model="m",
        text=text if line else None,
        prompts=None,
        max_num_completed_requests=1,
        mean_input_tokens=experiment.benchmark.mean_input_tokens,
        stddev_input_tokens=0,
        mean_output_tokens=experiment.benchmark.mean_output_tokens,
        stddev_output_tokens=0,
        additional_sampling_params={},
    )
    request = next(requests_of(options))
    body = json.loads(request.body)
    return "\n".join(message["content"] for message in body["messages"]).strip()


def test_each_prompt_is_known_for_its_structure(article: Experiment, tmp_path: Path) -> None:
    known = Acceptance(by_text(article), OF_STRUCTURE[Structure.OPEN_ENDED])
    for case in article.benchmark.test_cases:
        found = known.of(prompt(article, case.line, tmp_path))
        assert case.structure is not None
        assert found == OF_STRUCTURE[case.structure], case.name


def test_the_article_s_shape(article: Experiment) -> None:
    base, sd = variants(article)
    at = article.benchmark.points[0].concurrency
    assert at == 4
    speed_up = {s: scheduled_time(base, s, at) / scheduled_time(sd, s, at) for s in Structure}
    assert scheduled_time(base, Structure.STRUCTURED, at) == pytest.approx(0.045)
    assert speed_up[Structure.STRUCTURED] == pytest.approx(3, abs=0.15)
    assert speed_up[Structure.OPEN_ENDED] == pytest.approx(1, abs=0.05)


def test_both_serve_while_they_are_needed(article: Experiment, tmp_path: Path) -> None:
    with golden_endpoints(article, 10, os.environ, tmp_path) as endpoints:
        assert list(endpoints) == ["Base", "SD"]
        for url in endpoints.values():
            with urllib.request.urlopen(f"{url}/models") as response:
                assert article.models.target.id.encode() in response.read()
    for url in endpoints.values():
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"{url}/models")


def recorded(url: str) -> dict[str, Any]:
    """An endpoint's own record of the only request it got."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/record") as response:
        (sent,) = json.load(response)
    return dict(sent)


def counted(url: str, model: str) -> Counters:
    """What an endpoint has counted when it has answered one request."""
    body = {"model": model, "prompt": "say it", "max_tokens": 40, "stream": True}
    with urllib.request.urlopen(f"{url}/completions", json.dumps(body).encode()) as answer:
        answer.read()
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/metrics") as response:
        page = counters.parse(response.read().decode())
    assert page is not None
    return page.counters


def of_runtime(name: str) -> Experiment:
    """A head for Llama, of the kind that the runtime serves."""
    head = {} if Mode.EAGLE in RUNTIMES[name].modes else {"models.draft": EAGLE3_HEAD}
    mode = {"speculation.mode": "eagle3"} if head else {}
    return parse(edited(EAGLE | {"runtime": name} | head | mode), "mine.yaml")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_they_have_the_runtime_s_face(runtime: str, tmp_path: Path) -> None:
    """Its engine's counters, those of drafts if it has them, and as many tokens as a step yields
    there: one more than its drafts."""
    experiment = of_runtime(runtime)
    model, (_, sd) = experiment.models.target.id, variants(experiment)
    assert sd.drafts_per_step is not None
    with golden_endpoints(experiment, 100, os.environ, tmp_path) as endpoints:
        base, speculative = (counted(url, model) for url in endpoints.values())
        steps = [tokens for _, tokens in recorded(endpoints["SD"])["chunks"][1:]]
    assert (base.tokens, base.drafts) == (40, 0)
    assert base.generation_tokens == 40
    assert speculative.tokens == 40
    counts_steps = RUNTIMES[runtime].engine is Engine.V0
    assert speculative.generation_tokens == (1 + len(steps) if counts_steps else 40)
    if RUNTIMES[runtime].counts_drafts:
        assert speculative.drafts == len(steps)
        assert speculative.draft_tokens == sd.drafts_per_step * len(steps)
        assert speculative.accepted == sum(speculative.per_position) >= sum(steps) - len(steps)
        assert len(speculative.per_position) == sd.drafts_per_step
    else:
        assert (speculative.drafts, speculative.draft_tokens, speculative.per_position) == (
            0,
            0,
            (),
        )


def test_a_step_yields_what_the_runtime_s_window_allows(tmp_path: Path) -> None:
    """With drafts that are almost always right, the longest step is the window's, and no longer."""
    for runtime in RUNTIMES:
        experiment = of_runtime(runtime)
        (_, sd), own = variants(experiment), decoding(variants(experiment)[1])
        counts = [step.tokens for step in own.steps(2000, 0.97, runtime)]
        assert max(counts) == (sd.drafts_per_step or 0) + 1, runtime
