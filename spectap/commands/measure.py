"""``measure``: which models the endpoints serve, and the configuration of the run on them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spectap.commands import execution, recorded
from spectap.commands.arguments import Command
from spectap.commands.measure_options import (
    CONCURRENCY,
    REQUESTS,
    SECONDS,
    Endpoint,
    add_options,
    check,
    objectives,
)
from spectap.config import Config, PromptSource, TestCase, Variant
from spectap.endpoint import health
from spectap.errors import ConfigError, EndpointError, problems
from spectap.ledger import read_attempts
from spectap.load import cases, sets
from spectap.load_points import Load, LoadPoint, Rounds
from spectap.names import LEDGER
from spectap.printing import printable
from spectap.run.run import Patience

_WAVE_SECONDS: Final = 600  # for as many requests as are in flight at once; the article's


def measure(arguments: argparse.Namespace) -> int:
    """``measure NAME=URL ...``: measures endpoints that you already have, without AWS.

    The first endpoint is the baseline that the others are compared with. NAME=URL#MODEL asks one
    for a model by another name than the others'. Table, report and ledger are written to
    results/RUN_ID. The environment may set RUN_ID (the same name continues the same run),
    RESULTS_DIR (in place of results), OPENAI_API_KEY (sent to the endpoints), and LLMPERF_HOME and
    LLMPERF_PYTHON (llmperf then makes the load in place of the built-in driver).
    """
    endpoints: list[Endpoint] = arguments.endpoints
    check(arguments)
    test_cases, prompts = _test_cases(arguments)
    folder = execution.run_folder("results")
    try:
        models = asyncio.run(_models(endpoints, arguments.model, arguments.wait))
    except KeyboardInterrupt:
        print("spectap: ended by SIGINT; nothing was measured", file=sys.stderr)
        return 128 + signal.SIGINT
    config = _config(arguments, models, test_cases, _load(arguments, prompts))
    patience = Patience(start=arguments.wait, recovery=arguments.wait, stall=arguments.timeout)
    files = arguments.prompts.parent if arguments.prompts else Path()
    status = 128 + signal.SIGINT
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C
        status = execution.execute(config, folder, patience, files=files)
        if status > 128 and read_attempts(folder):
            recorded.draw(folder)
    if status > 128:
        print(f"spectap: the same command with RUN_ID={folder.name} continues this run")
    else:
        print(f"ledger: {folder / LEDGER}")
    return status


COMMAND: Final = Command(measure, add_options)


async def _models(endpoints: Sequence[Endpoint], model: str | None, wait: int) -> dict[str, str]:
    """Waits until all endpoints serve; returns the model to ask each for. Raises EndpointError.

    ``model`` is that of the endpoints that name none.
    """
    problems = await health.wait(
        {endpoint.name: endpoint.url for endpoint in endpoints},
        patience_seconds=wait,
        say=lambda text: print(printable(text), file=sys.stderr),
    )
    if problems:
        raise EndpointError("\n".join(problems))
    if model is None and (
        unnamed := [endpoint for endpoint in endpoints if endpoint.model is None]
    ):
        model = await _common_model(unnamed)
    models = {endpoint.name: endpoint.model or model or "" for endpoint in endpoints}
    await asyncio.gather(*(_check_model(endpoint, models[endpoint.name]) for endpoint in endpoints))
    return models


async def _common_model(endpoints: Sequence[Endpoint]) -> str:
    """The one model that all of the endpoints serve. Raises EndpointError."""
    served = await asyncio.gather(*(health.models(endpoint.url) for endpoint in endpoints))
    common = set(served[0]).intersection(*served)
    if len(common) != 1:
        listed = "; ".join(
            f"{endpoint.name}: {', '.join(models)}"
            for endpoint, models in zip(endpoints, served, strict=True)
        )
        raise EndpointError(
            "there is no one model that all endpoints serve: name one by --model, or one each by "
            f"NAME=URL#MODEL: {listed}"
        )
    return common.pop()


async def _check_model(endpoint: Endpoint, model: str) -> None:
    """Raises EndpointError if the endpoint lists its models and this is none of them."""
    try:
        models = await health.models(endpoint.url)
    except EndpointError:
        return
    if model not in models:
        serves = f"{endpoint.name} ({endpoint.url}) serves {', '.join(models)}"
        option = "--model = " if endpoint.model is None else "#"
        raise EndpointError(f"{option}{model!r}: {serves}")


def _test_cases(arguments: argparse.Namespace) -> tuple[tuple[TestCase, ...], int]:
    """The test cases that the options name, and how many prompts a set has: 0 of lines.

    Raises ConfigError.
    """
    if arguments.cases is not None:
        return cases.read_cases(arguments.cases), 0
    if arguments.prompts is None and arguments.set is None:
        return cases.HEADLINES, 0
    if arguments.set is not None:
        folder = Path()
        source = PromptSource(known=arguments.set)
        case = TestCase(name=arguments.set, prompts=source, headline=True)
    else:
        folder = arguments.prompts.parent
        case = cases.read_prompts(arguments.prompts)
    assert case.prompts is not None
    chosen = {"classes": arguments.classes, "limit": arguments.limit}
    source = case.prompts.model_copy(update=chosen)
    case = case.model_copy(update={"prompts": source})
    return (case,), len(sets.load(source, folder).prompts)


def _config(
    arguments: argparse.Namespace,
    models: Mapping[str, str],
    test_cases: tuple[TestCase, ...],
    load: Load,
) -> Config:
    """The run's configuration. ``models`` are asked for, by endpoint. Raises ConfigError."""
    baseline = arguments.endpoints[0].name
    model = models[baseline]
    try:
        return Config(
            experiment="measure",
            model=model,
            variants=tuple(
                Variant(
                    name=name,
                    endpoint=url,
                    baseline=None if name == baseline else baseline,
                    model=models[name] if models[name] != model else None,
                )
                for name, url, _ in arguments.endpoints
            ),
            load=load,
            objectives=objectives(arguments),
            keep_answers=arguments.keep_answers,
            alternate=arguments.alternate,
            test_cases=test_cases,
            region=None,
            bucket=None,
            cost=None,
            stand_in=None,
        )
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error))) from None


def _load(arguments: argparse.Namespace, prompts: int) -> Load:
    rounds: Rounds = arguments.rounds
    if arguments.half_width is not None:
        rounds = rounds.model_copy(update={"half_width": arguments.half_width})
    points = tuple(_points(arguments, math.ceil(prompts / rounds.at_least)))
    sampling: dict[str, Any] = {"temperature": arguments.temperature}
    if arguments.no_thinking:
        sampling["chat_template_kwargs"] = {"enable_thinking": False}
    return Load(
        mean_input_tokens=arguments.input_tokens,
        mean_output_tokens=arguments.output_tokens,
        points=points,
        rounds=rounds,
        # A driver waits as long for a byte: the tap must be the first to give up.
        timeout_seconds=max(*map(_turn_seconds, points), math.ceil(2 * (arguments.timeout or 0))),
        sampling=sampling,
    )


def _points(arguments: argparse.Namespace, enough: int) -> Iterator[LoadPoint]:
    """The load points. ``enough`` requests send each prompt in one of the rounds."""
    rates: tuple[float, ...] = arguments.rate
    concurrencies: tuple[int, ...] = arguments.concurrency or ()
    requests = arguments.requests or enough or REQUESTS
    if not concurrencies and not rates:
        concurrencies = (min(CONCURRENCY, requests),)
    for concurrency in concurrencies:
        yield LoadPoint(concurrency=concurrency, requests=max(requests, concurrency))
    for per_second in rates:
        seconds = arguments.seconds or SECONDS
        yield LoadPoint(rate=per_second, requests=max(1, round(per_second * seconds)))


def _turn_seconds(point: LoadPoint) -> int:
    """How long a turn may take."""
    if point.concurrency is None:
        return math.ceil(point.requests / (point.rate or 1)) + _WAVE_SECONDS
    return _WAVE_SECONDS * math.ceil(point.requests / point.concurrency)
