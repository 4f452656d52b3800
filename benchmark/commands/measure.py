"""``measure NAME=URL ...``: measures endpoints that you already have, without AWS.

The first endpoint is the baseline that the others are compared with. Table, report and ledger are
written to results/RUN_ID. The environment may set RUN_ID (the same name continues the same run),
RESULTS_DIR (in place of results), OPENAI_API_KEY (sent to the endpoints), and LLMPERF_HOME and
LLMPERF_PYTHON (llmperf then makes the load in place of the built-in driver).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from benchmark import config as configuration
from benchmark import wording
from benchmark.commands import execution
from benchmark.commands.arguments import (
    HALF_WIDTH,
    at_least,
    base_url,
    fraction,
    name,
    rounds,
    temperature,
)
from benchmark.config import MINIMUM_INPUT_TOKENS, Config, Load, TestCase, Variant
from benchmark.endpoint import health
from benchmark.errors import ConfigError, EndpointError
from benchmark.load import cases
from benchmark.names import LEDGER
from benchmark.rounds import Rounds
from benchmark.run.run import Patience

_REQUESTS: Final = 4
_CONCURRENCY: Final = 4
_WAVE_SECONDS: Final = 600  # for as many requests as are in flight at once; the article's


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options. The defaults are the article's, except that answers are shorter."""
    add = parser.add_argument
    add("endpoints", type=_endpoint, nargs="+", metavar="NAME=URL")
    add("--model", help="default: the one that all endpoints serve")
    prompts = parser.add_mutually_exclusive_group()
    prompts.add_argument(
        "--cases",
        type=Path,
        metavar="FILE",
        help="test cases, JSON lines: name, line, structure; default: the article's two headlines",
    )
    prompts.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help='prompts to send as they are: one a line, or JSON lines with "prompt"',
    )
    add(
        "--concurrency",
        type=at_least(1),
        help=f"requests in flight at each endpoint; default: {_CONCURRENCY}, at most --requests",
    )
    add(
        "--requests",
        type=at_least(1),
        help=f"for each test case, round and endpoint; default: {_REQUESTS}, or enough for each of "
        "--prompts to be sent in one of the rounds; at least --concurrency",
    )
    add(
        "--rounds",
        type=rounds,
        default="6",
        metavar="N | AT_LEAST-AT_MOST",
        help="in a range, a test case ends as soon as it is decided or precise enough",
    )
    add(
        "--half-width",
        type=fraction,
        help="what is precise enough, in a range of rounds: 0.05 is 5 %% either way; "
        f"default: {HALF_WIDTH}",
    )
    add(
        "--input-tokens",
        type=at_least(MINIMUM_INPUT_TOKENS),
        default=64,
        help="does not apply to --prompts",
    )
    add("--output-tokens", type=at_least(2), default=200, help="longest answer")
    add("--temperature", type=temperature, default=0.0)
    add("--wait", type=at_least(0), default=60, help="seconds to wait for the endpoints")


def main(arguments: argparse.Namespace) -> int:
    """Measures; returns the exit status. Raises ConfigError, EndpointError and RunError."""
    endpoints: dict[str, str] = dict(arguments.endpoints)
    if len(endpoints) < len(arguments.endpoints):
        raise ConfigError("NAME=URL: each endpoint needs a name of its own")
    if (arguments.concurrency or 0) > (arguments.requests or math.inf):
        allowed = f"must be at most --requests, {arguments.requests}"
        raise ConfigError(f"--concurrency = {arguments.concurrency}: {allowed}")
    if arguments.half_width is not None and arguments.rounds.fixed:
        allowed = "needs a range of rounds, such as --rounds 4-30"
        raise ConfigError(f"--half-width = {arguments.half_width:g}: {allowed}")
    test_cases = _test_cases(arguments)
    folder = execution.run_folder("results")
    try:
        model = asyncio.run(_model(endpoints, arguments.model, arguments.wait))
    except KeyboardInterrupt:
        print("benchmark: ended by SIGINT; nothing was measured", file=sys.stderr)
        return 128 + signal.SIGINT
    config = _config(arguments, endpoints, model, test_cases)
    patience = Patience(start=arguments.wait, recovery=arguments.wait)
    status = execution.execute(config, folder, patience)
    if status > 128:
        print(f"benchmark: the same command with RUN_ID={folder.name} continues this run")
    else:
        print(f"ledger: {folder / LEDGER}")
    return status


def _test_cases(arguments: argparse.Namespace) -> tuple[TestCase, ...]:
    if arguments.cases is not None:
        return cases.read_cases(arguments.cases)
    if arguments.prompts is not None:
        return (cases.read_prompts(arguments.prompts),)
    return cases.HEADLINES


async def _model(endpoints: Mapping[str, str], wanted: str | None, wait: int) -> str:
    """Waits until all endpoints serve; returns the model to ask for. Raises EndpointError."""
    problems = await health.wait(
        endpoints, patience_seconds=wait, say=lambda text: print(text, file=sys.stderr)
    )
    if problems:
        after = f"not serving after {wording.duration(wait)}"
        raise EndpointError("\n".join(f"{after}: {problem}" for problem in problems))
    if wanted is not None:
        await asyncio.gather(*(_check_model(*each, wanted) for each in endpoints.items()))
        return wanted
    served = await asyncio.gather(*(health.models(url) for url in endpoints.values()))
    common = set(served[0]).intersection(*served)
    if len(common) != 1:
        found = "; ".join(
            f"{name}: {', '.join(models)}" for name, models in zip(endpoints, served, strict=True)
        )
        raise EndpointError(
            f"--model is needed, since there is no one model that all endpoints serve: {found}"
        )
    return common.pop()


async def _check_model(variant: str, url: str, wanted: str) -> None:
    """Raises EndpointError if the endpoint lists its models and this is none of them."""
    try:
        models = await health.models(url)
    except EndpointError:
        return
    if wanted not in models:
        raise EndpointError(f"--model = {wanted!r}: {variant} ({url}) serves {', '.join(models)}")


def _config(
    arguments: argparse.Namespace,
    endpoints: Mapping[str, str],
    model: str,
    test_cases: tuple[TestCase, ...],
) -> Config:
    """The run's configuration. Raises ConfigError."""
    baseline = next(iter(endpoints))
    rounds: Rounds = arguments.rounds
    if arguments.half_width is not None:
        rounds = rounds.model_copy(update={"half_width": arguments.half_width})
    prompts = len(test_cases[0].prompts)
    enough = math.ceil(prompts / rounds.at_least) if prompts else _REQUESTS
    requests = arguments.requests or max(enough, arguments.concurrency or _CONCURRENCY)
    concurrency = arguments.concurrency or min(_CONCURRENCY, requests)
    try:
        return Config(
            experiment="measure",
            model=model,
            variants=tuple(
                Variant(name=name, endpoint=url, baseline=None if name == baseline else baseline)
                for name, url in endpoints.items()
            ),
            region=None,
            bucket=None,
            load=Load(
                mean_input_tokens=arguments.input_tokens,
                mean_output_tokens=arguments.output_tokens,
                concurrency=concurrency,
                requests=requests,
                rounds=rounds,
                timeout_seconds=_WAVE_SECONDS * math.ceil(requests / concurrency),
                sampling={"temperature": arguments.temperature},
            ),
            test_cases=test_cases,
            cost=None,
            stand_in=None,
        )
    except ValidationError as error:
        raise ConfigError("\n".join(configuration.lines(error))) from None


def _endpoint(text: str) -> tuple[str, str]:
    variant, equals, url = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=URL")
    return name(variant), base_url(url)
