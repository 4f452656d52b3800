"""Golden endpoints know an experiment's prompts, and count as its runtime does."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiment import Experiment
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Engine, Mode
from experiment.variants import variants
from rehearsal.golden.endpoints import golden_servers
from rehearsal.golden.performance import OF_STRUCTURE, by_text, decoding
from rehearsal.golden.server import Acceptance
from rehearsal.processes import await_health, running
from spectap.config import Structure
from spectap.endpoint import counters
from spectap.endpoint.counters import Counters
from spectap.load import llmperf
from spectap.load.requests import requests_of
from tests.experiment.files import EAGLE, EAGLE3_HEAD, edited


@contextlib.contextmanager
def serving(experiment: Experiment, speed: float, folder: Path) -> Iterator[dict[str, str]]:
    """Base URLs by the name of the variant."""
    servers = golden_servers(experiment, speed, os.environ, folder)
    with contextlib.ExitStack() as stack:
        for name, server in servers.items():
            process = running(server.command, server.environment, log := folder / name)
            await_health(name, stack.enter_context(process), server.url, log)
        yield {name: server.url for name, server in servers.items()}


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
    body = json.loads(next(requests_of(options)).body)
    return "\n".join(message["content"] for message in body["messages"]).strip()


def test_each_prompt_is_known_for_its_structure(article: Experiment, tmp_path: Path) -> None:
    known = Acceptance(by_text(article), OF_STRUCTURE[Structure.OPEN_ENDED])
    for case in article.benchmark.test_cases:
        assert case.structure is not None
        rate = known.of(prompt(article, case.line, tmp_path))
        assert rate == OF_STRUCTURE[case.structure], case.name


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


@pytest.mark.parametrize("runtime", ["vllm-0.9.1-nxdi", "vllm-neuron-1.x"])
def test_they_have_the_runtime_s_face(runtime: str, tmp_path: Path) -> None:
    """Its engine's counters, those of drafts if it has them, and as many tokens as a step yields
    there: one more than its drafts."""
    experiment = of_runtime(runtime)
    model, (_, sd) = experiment.models.target.id, variants(experiment)
    assert sd.drafts_per_step is not None
    with serving(experiment, 100, tmp_path) as urls:
        base, speculative = (counted(url, model) for url in urls.values())
        steps = [tokens for _, tokens in recorded(urls["SD"])["chunks"][1:]]
    assert (base.tokens, base.drafts, base.generation_tokens) == (40, 0, 40)
    assert speculative.tokens == 40
    counts_steps = RUNTIMES[runtime].engine is Engine.V0
    assert speculative.generation_tokens == (1 + len(steps) if counts_steps else 40)
    if RUNTIMES[runtime].counts_drafts:
        assert speculative.drafts == len(steps)
        assert speculative.draft_tokens == sd.drafts_per_step * len(steps)
        assert speculative.accepted == sum(speculative.per_position) >= sum(steps) - len(steps)
        assert len(speculative.per_position) == sd.drafts_per_step
    else:
        assert speculative.drafts == speculative.draft_tokens == 0
        assert speculative.per_position == ()
    longest = max(step.tokens for step in decoding(sd).steps(2000, 0.97, runtime))
    assert longest == sd.drafts_per_step + 1
