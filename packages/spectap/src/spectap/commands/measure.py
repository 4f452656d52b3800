"""The command ``measure``: finds the servers' models and makes the run's configuration."""

import argparse
import asyncio
import contextlib
import math
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from spectap.commands import execution, recorded
from spectap.commands.arguments import Command, Exit
from spectap.commands.measure_options import (
    CONCURRENCY,
    OBJECTIVES,
    REQUESTS,
    SECONDS,
    add_options,
    check,
)
from spectap.endpoint import health
from spectap.errors import ConfigError, EndpointError, problems
from spectap.inputs.config import Config, Objectives, PromptSource, TestCase, Variant
from spectap.inputs.load_points import Load, LoadPoint
from spectap.load import cases, sets
from spectap.names import LEDGER, MEASURE, SUMMARY
from spectap.protocol import access
from spectap.records.ledger import read_attempts
from spectap.run.taps import Patience
from spectap.wording import printable

_WAVE_SECONDS: Final = 600  # for as many requests as are in flight at once; the article's


def measure(arguments: argparse.Namespace) -> int:
    """``measure NAME=URL ...``: measures endpoints that you already have, without AWS.

    The first endpoint is the baseline that the others are compared with. NAME=URL#MODEL asks one
    for a model by another name than the others'. Table, report and ledger are written to
    results/RUN_ID. The environment may set RUN_ID (the same name continues the same run),
    RESULTS_DIR (in place of results), OPENAI_API_KEY (sent to the endpoints), and LLMPERF_HOME and
    LLMPERF_PYTHON (llmperf then makes the load in place of the built-in driver).

    With --launches and without --relaunch it ends with status 75 after each launch but the last:
    restart the servers, and run the same command with the same RUN_ID.
    """
    check(arguments)
    access.trust(arguments.ca, anyone=arguments.insecure)
    access.HEADERS.update(arguments.header)
    test_cases, prompts, files = _test_cases(arguments)
    with _refusing():
        load = _load(arguments, math.ceil(prompts / arguments.rounds.at_least))
        objectives = {objective: getattr(arguments, objective) for objective in OBJECTIVES}
        promised = Objectives(**objectives) if any(objectives.values()) else None
    folder = execution.run_folder("results")
    not_serving = asyncio.run(
        health.wait(
            {endpoint.name: endpoint.url for endpoint in arguments.endpoints},
            patience_seconds=arguments.wait,
            say=lambda text: print(printable(text), file=sys.stderr),
        )
    )
    if not_serving:
        raise EndpointError("\n".join(not_serving))
    models = asyncio.run(health.choose_models(arguments.endpoints, arguments.model))
    baseline = arguments.endpoints[0].name
    with _refusing():
        config = Config(
            experiment=MEASURE,
            model=models[baseline],
            variants=tuple(
                Variant(
                    name=name,
                    endpoint=url,
                    baseline=None if name == baseline else baseline,
                    model=models[name] if models[name] != models[baseline] else None,
                )
                for name, url, _ in arguments.endpoints
            ),
            load=load,
            objectives=promised,
            keep_answers=arguments.keep_answers,
            alternate=arguments.alternate,
            test_cases=test_cases,
        )
    patience = Patience(start=arguments.wait, recovery=arguments.wait, stall=arguments.timeout)
    status: int = Exit.SIGNAL + signal.SIGINT
    out = sys.stderr if arguments.json else sys.stdout
    with contextlib.redirect_stdout(out):
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C
            status = execution.execute(
                config,
                folder,
                patience,
                files=files,
                relaunch=arguments.relaunch,
                verbose=arguments.verbose,
            )
            if status > Exit.SIGNAL and read_attempts(folder):
                recorded.draw(folder, verbose=arguments.verbose)
        if status > Exit.SIGNAL:
            print(f"spectap: the same command with RUN_ID={folder.name} continues this run")
        else:
            print(f"ledger: {folder / LEDGER}")
    if arguments.json and (summary := folder / SUMMARY).exists():
        print(summary.read_text(encoding="utf-8"), end="")
    return status


def _test_cases(arguments: argparse.Namespace) -> tuple[tuple[TestCase, ...], int, Path]:
    """The test cases that the options name, the number of a set's prompts, and a file's folder.

    The number is 0 for lines. Raises ConfigError.
    """
    files = arguments.prompts.parent if arguments.prompts else Path()
    if arguments.cases is not None:
        return cases.read_cases(arguments.cases), 0, files
    if arguments.set is not None:
        source = PromptSource(set=arguments.set)
        case = TestCase(name=arguments.set, prompts=source, headline=True)
    elif arguments.prompts is not None:
        case = cases.read_prompts(arguments.prompts)
    else:
        return cases.HEADLINES, 0, files
    assert case.prompts is not None
    chosen = {"classes": arguments.classes, "limit": arguments.limit}
    source = case.prompts.model_copy(update=chosen)
    case = case.model_copy(update={"prompts": source})
    return (case,), len(sets.load(source, files).prompts), files


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Raises ConfigError in place of a ValidationError."""
    try:
        yield
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error))) from None


def _load(arguments: argparse.Namespace, enough: int) -> Load:
    """The load. ``enough`` requests send each prompt in one of the rounds."""
    points = tuple(_points(arguments, enough))
    return Load(
        mean_input_tokens=arguments.input_tokens,
        mean_output_tokens=arguments.output_tokens,
        endpoint_type=arguments.endpoint_type,
        points=points,
        rounds=arguments.rounds,
        # A driver waits as long for a byte: the tap must be the first to give up.
        timeout_seconds=max(*map(_turn_seconds, points), math.ceil(2 * (arguments.timeout or 0))),
        spread_minutes=arguments.spread,
        sampling={"temperature": 0.0} | arguments.extra,
        launches=arguments.launches or 1,
    )


def _points(arguments: argparse.Namespace, enough: int) -> Iterator[LoadPoint]:
    concurrencies: tuple[int, ...] = arguments.concurrency or ()
    requests = arguments.requests or enough or REQUESTS
    if not concurrencies and not arguments.rate:
        concurrencies = (min(CONCURRENCY, requests),)
    for concurrency in concurrencies:
        yield LoadPoint(concurrency=concurrency, requests=max(requests, concurrency))
    for per_second in arguments.rate:
        seconds = arguments.seconds or SECONDS
        yield LoadPoint(rate=per_second, requests=max(1, round(per_second * seconds)))


def _turn_seconds(point: LoadPoint) -> int:
    if point.concurrency is None:
        return math.ceil(point.requests / (point.rate or 1)) + _WAVE_SECONDS
    return _WAVE_SECONDS * math.ceil((point.fill + point.requests) / point.concurrency)


COMMAND: Final = Command(measure, add_options)
