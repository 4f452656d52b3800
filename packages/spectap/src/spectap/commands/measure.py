"""``measure``: its options, which models the endpoints serve, and the configuration of the run."""

import argparse
import asyncio
import contextlib
import math
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spectap import access
from spectap.commands import execution, recorded
from spectap.commands.arguments import (
    Command,
    Exit,
    add_json,
    add_trust,
    add_verbose,
    base_url,
    header,
    json_object,
    name,
    positive,
    rate,
    rounds,
    several,
    temperature,
    whole_number,
    with_password,
)
from spectap.config import Config, Objectives, PromptSource, TestCase, Variant
from spectap.endpoint import health
from spectap.endpoint.health import Endpoint
from spectap.errors import ConfigError, EndpointError, problems
from spectap.ledger import read_attempts
from spectap.load import cases, sets
from spectap.load_points import MINIMUM_INPUT_TOKENS, Load, LoadPoint
from spectap.names import LEDGER, MEASURE, SUMMARY
from spectap.run.taps import Patience
from spectap.tap.tap import STALL_SECONDS
from spectap.text import EndpointType
from spectap.wording import printable

_WAVE_SECONDS: Final = 600  # for as many requests as are in flight at once; the article's
# Defaults; the last is how long a --rate lasts.
_REQUESTS: Final = 4
_CONCURRENCY: Final = 4
_SECONDS: Final = 30

_OBJECTIVES: Final = {
    "ttft_p90_ms": "time to first token",
    "tpot_p90_ms": "time per output token",
    "e2e_p90_ms": "whole answer",
}
_NEEDED: Final = {
    "classes": ("prompts", "set"),
    "limit": ("prompts", "set"),
    "keep_answers": ("prompts", "set"),
    "seconds": ("rate",),
    "relaunch": ("launches",),
}
"""Options that apply only beside one of the others."""


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
    _check(arguments)
    access.trust(arguments.ca, anyone=arguments.insecure)
    access.HEADERS.update(arguments.header)
    objectives = _objectives(arguments)
    test_cases, prompts = _test_cases(arguments)
    folder = execution.run_folder("results")
    try:
        chosen = asyncio.run(_models(arguments))
    except KeyboardInterrupt:
        print("spectap: ended by SIGINT; nothing was measured", file=sys.stderr)
        return Exit.SIGNAL + signal.SIGINT
    points = tuple(_points(arguments, math.ceil(prompts / arguments.rounds.at_least)))
    config = _config(arguments, chosen, test_cases, objectives, points)
    patience = Patience(start=arguments.wait, recovery=arguments.wait, stall=arguments.timeout)
    files = arguments.prompts.parent if arguments.prompts else Path()
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


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options. The defaults are the article's, except that answers are shorter."""
    parser.add_argument("endpoints", type=_endpoint, nargs="+", metavar="NAME=URL[#MODEL]")
    add = parser.add_argument_group("the endpoints").add_argument
    add("--model", help="of endpoints that name none after a #; default: the one that all serve")
    add("--wait", type=whole_number(0), default=60, help="seconds to wait for the endpoints")
    add_json(add)
    add_verbose(add)
    add(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help="an endpoint that answers nothing for so long ends the turn on it: its requests count "
        f"as failed; default: {STALL_SECONDS:g}, and with --rate as long as a turn may last",
    )

    add(
        "--header",
        type=header,
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="sent with each request, and kept nowhere; may be repeated",
    )
    add_trust(add)

    count = whole_number(1)
    add = parser.add_argument_group("what is asked").add_argument
    add(
        "--cases",
        type=Path,
        metavar="FILE",
        help="test cases, JSON lines: name, line, structure; default: the article's two headlines",
    )
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help='prompts to send as they are: one a line, or JSON lines with "prompt" or "messages"',
    )
    add("--set", choices=[*sets.KNOWN], help="a known set of prompts")
    only = "of --prompts or --set, only these"
    add("--classes", type=several(str), default=(), metavar="CLASS,...", help=only)
    add("--limit", type=count, help="of --prompts or --set, so many")
    least = whole_number(MINIMUM_INPUT_TOKENS)
    add("--input-tokens", type=least, default=64, help="does not apply to --prompts and --set")
    add("--output-tokens", type=whole_number(2), default=200, help="longest answer")
    add("--temperature", type=temperature, default=0.0, help="0: greedy")
    add(
        "--endpoint-type",
        type=EndpointType,
        choices=[*EndpointType],
        default=EndpointType.CHAT,
        help="completions sends a prompt's text to /v1/completions, without a chat template",
    )
    add("--ignore-eos", action="store_true", help="asks vLLM for answers of the longest length")
    add("--no-thinking", action="store_true", help="asks the chat template for no thoughts")
    add(
        "--extra",
        type=json_object,
        default={},
        metavar="JSON",
        help="fields of each request besides, such as '{\"top_k\": 20}'",
    )
    add("--keep-answers", action="store_true", help="keeps texts of answers to --prompts, --set")

    add = parser.add_argument_group("how hard, and how often").add_argument
    add(
        "--concurrency",
        type=several(count),
        metavar="N,...",
        help="requests in flight at each endpoint: one load point, or a ladder of them; "
        f"default: {_CONCURRENCY}, at most --requests",
    )
    add(
        "--rate",
        type=several(rate),
        default=(),
        metavar="R,...",
        help="requests a second at each endpoint, at random times (Poisson), however many are in "
        "flight",
    )
    lasts = f"how long a --rate lasts in each round; default: {_SECONDS}"
    add("--seconds", type=positive, help=lasts)
    add(
        "--alternate",
        action="store_true",
        help="loads the endpoints by turns that never overlap, for servers that share a GPU; "
        "default: beside each other",
    )
    add(
        "--requests",
        type=count,
        help="for each test case, --concurrency, round and endpoint, but at least one for each in "
        f"flight; default: {_REQUESTS}, or enough for each prompt to be sent in one of the rounds",
    )
    add(
        "--rounds",
        type=rounds,
        default="6",
        metavar="N | AT_LEAST-AT_MOST",
        help="in a range, a test case ends as soon as it is decided, or known to 5 %% either way",
    )
    add(
        "--spread",
        type=positive,
        default=0,
        metavar="MINUTES",
        help="from the first round to the last, at least: rounds wait, so that what slows an "
        "endpoint for minutes is in their scatter; 10 for each round after the first are enough; "
        "default: no pause",
    )

    add(
        "--launches",
        type=count,
        metavar="N",
        help="of each server, at least 3: the rounds are split into as many blocks, and intervals "
        "have what differs between launches; default: 1",
    )
    add(
        "--relaunch",
        metavar="COMMAND",
        help="restarts the servers between two launches, and returns once the old ones are gone",
    )

    add = parser.add_argument_group("what was promised").add_argument
    for objective, subject in _OBJECTIVES.items():
        option = f"--{objective.replace('_', '-')}"
        add(option, type=positive, metavar="MS", help=f"90 %% of requests: {subject}")


COMMAND: Final = Command(measure, _add_options)


def _endpoint(text: str) -> Endpoint:
    variant, equals, address = text.partition("=")
    url, hash_sign, model = address.partition("#")
    try:
        if not equals or (hash_sign and not model):
            raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=URL or NAME=URL#MODEL")
        return Endpoint(name(variant), base_url(url), model or None)
    except argparse.ArgumentTypeError:
        if "@" in text:  # = and # may be part of a password
            raise with_password() from None
        raise


def _check(arguments: argparse.Namespace) -> None:
    if len({endpoint.name for endpoint in arguments.endpoints}) < len(arguments.endpoints):
        raise ConfigError("NAME=URL: each endpoint needs a name of its own")
    given = {option for option, value in vars(arguments).items() if value}
    sources = [option for option in ("cases", "prompts", "set") if option in given]
    if len(sources) > 1:
        raise ConfigError(f"--{sources[0]} and --{sources[1]}: only one of them")
    for option, needed in _NEEDED.items():
        if option in given and not given.intersection(needed):
            alternatives = " or ".join(f"--{other}" for other in needed)
            raise ConfigError(f"--{option.replace('_', '-')}: needs {alternatives}")
    if arguments.no_thinking and arguments.endpoint_type is EndpointType.COMPLETIONS:
        raise ConfigError("--no-thinking: completions have no chat template to ask")


async def _models(arguments: argparse.Namespace) -> dict[str, str]:
    """Waits until all endpoints serve; returns the model to ask each for. Raises EndpointError."""
    not_serving = await health.wait(
        {endpoint.name: endpoint.url for endpoint in arguments.endpoints},
        patience_seconds=arguments.wait,
        say=lambda text: print(printable(text), file=sys.stderr),
    )
    if not_serving:
        raise EndpointError("\n".join(not_serving))
    return await health.choose_models(arguments.endpoints, arguments.model)


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
        source = PromptSource(set=arguments.set)
        case = TestCase(name=arguments.set, prompts=source, headline=True)
    else:
        folder = arguments.prompts.parent
        case = cases.read_prompts(arguments.prompts)
    assert case.prompts is not None
    chosen = {"classes": arguments.classes, "limit": arguments.limit}
    source = case.prompts.model_copy(update=chosen)
    case = case.model_copy(update={"prompts": source})
    return (case,), len(sets.load(source, folder).prompts)


def _objectives(arguments: argparse.Namespace) -> Objectives | None:
    """The promised objectives; None if there are none. Raises ConfigError."""
    limits = {objective: getattr(arguments, objective) for objective in _OBJECTIVES}
    try:
        return Objectives(**limits) if any(limits.values()) else None
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error))) from None


def _config(
    arguments: argparse.Namespace,
    chosen: Mapping[str, str],
    test_cases: tuple[TestCase, ...],
    objectives: Objectives | None,
    points: tuple[LoadPoint, ...],
) -> Config:
    """The run's configuration. ``chosen`` are the models, by endpoint. Raises ConfigError."""
    baseline = arguments.endpoints[0].name
    model = chosen[baseline]
    sampling: dict[str, Any] = {"temperature": arguments.temperature}
    if arguments.ignore_eos:
        sampling["ignore_eos"] = True
    if arguments.no_thinking:
        sampling["chat_template_kwargs"] = {"enable_thinking": False}
    sampling |= arguments.extra
    # A driver waits as long for a byte: the tap must be the first to give up.
    timeout = max(*map(_turn_seconds, points), math.ceil(2 * (arguments.timeout or 0)))
    try:
        return Config(
            experiment=MEASURE,
            model=model,
            variants=tuple(
                Variant(
                    name=name,
                    endpoint=url,
                    baseline=None if name == baseline else baseline,
                    model=chosen[name] if chosen[name] != model else None,
                )
                for name, url, _ in arguments.endpoints
            ),
            load=Load(
                mean_input_tokens=arguments.input_tokens,
                mean_output_tokens=arguments.output_tokens,
                endpoint_type=arguments.endpoint_type,
                points=points,
                rounds=arguments.rounds,
                timeout_seconds=timeout,
                spread_minutes=arguments.spread,
                sampling=sampling,
                launches=arguments.launches or 1,
            ),
            objectives=objectives,
            keep_answers=arguments.keep_answers,
            alternate=arguments.alternate,
            test_cases=test_cases,
        )
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error))) from None


def _points(arguments: argparse.Namespace, enough: int) -> Iterator[LoadPoint]:
    """The load points. ``enough`` requests send each prompt in one of the rounds."""
    concurrencies: tuple[int, ...] = arguments.concurrency or ()
    requests = arguments.requests or enough or _REQUESTS
    if not concurrencies and not arguments.rate:
        concurrencies = (min(_CONCURRENCY, requests),)
    for concurrency in concurrencies:
        yield LoadPoint(concurrency=concurrency, requests=max(requests, concurrency))
    for per_second in arguments.rate:
        seconds = arguments.seconds or _SECONDS
        yield LoadPoint(rate=per_second, requests=max(1, round(per_second * seconds)))


def _turn_seconds(point: LoadPoint) -> int:
    if point.concurrency is None:
        return math.ceil(point.requests / (point.rate or 1)) + _WAVE_SECONDS
    return _WAVE_SECONDS * math.ceil((point.fill + point.requests) / point.concurrency)
