"""Golden endpoints know the article's prompts and make the article's shape of them."""

from __future__ import annotations

import argparse
import json
import os
import urllib.request
from pathlib import Path

import pytest

from benchmark.config import Structure
from benchmark.endpoint import counters
from benchmark.endpoint.counters import Counters
from benchmark.load import llmperf
from benchmark.load.requests import requests_of
from experiment import Experiment
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Engine
from experiment.variants import variants
from rehearsal.golden.acceptances import OF_STRUCTURE, by_text
from rehearsal.golden.arithmetic import scheduled_time
from rehearsal.golden.endpoints import golden_endpoints
from rehearsal.golden.server import Acceptance
from tests.experiment.files import EAGLE, edited


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


def counted(url: str, model: str) -> Counters:
    """What an endpoint has counted when it has answered one request."""
    body = {"model": model, "prompt": "say it", "max_tokens": 40}
    with urllib.request.urlopen(f"{url}/completions", json.dumps(body).encode()):
        pass
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/metrics") as response:
        found = counters.parse(response.read().decode())
    assert found is not None
    return found


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_they_count_as_the_runtime_s_engine_does(runtime: str, tmp_path: Path) -> None:
    experiment = parse(edited(EAGLE | {"runtime": runtime}), "mine.yaml")
    model = experiment.models.target.id
    with golden_endpoints(experiment, 100, os.environ, tmp_path) as endpoints:
        base, speculative = (counted(url, model) for url in endpoints.values())
    assert base.generation_tokens == base.tokens == 40
    assert speculative.tokens == 40
    steps = RUNTIMES[runtime].engine is Engine.V0
    assert (speculative.generation_tokens < 40) == steps
