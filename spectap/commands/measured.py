"""What ``measure`` is asked to measure: its options, and the configuration they come to."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from spectap.commands.arguments import (
    HALF_WIDTH,
    at_least,
    base_url,
    fraction,
    name,
    positive,
    rate,
    rounds,
    several,
    temperature,
    with_password,
)
from spectap.config import Config, Objectives, PromptSource, TestCase, Variant
from spectap.errors import ConfigError, problems
from spectap.load import cases, sets
from spectap.load_points import MINIMUM_INPUT_TOKENS, Load, LoadPoint, Rounds
from spectap.tap.tap import STALL_SECONDS

_REQUESTS: Final = 4
_CONCURRENCY: Final = 4
_SECONDS: Final = 30
_WAVE_SECONDS: Final = 600  # for as many requests as are in flight at once; the article's
_OBJECTIVES: Final = ("ttft_p90_ms", "tpot_p90_ms", "e2e_p90_ms")


class Asked(NamedTuple):
    """What the endpoints are asked."""

    test_cases: tuple[TestCase, ...]
    prompts: int
    """How many prompts with names there are; 0 where they are made of lines."""


class Endpoint(NamedTuple):
    """An endpoint as it is given."""

    name: str
    url: str
    model: str | None
    """The name it serves the model under; None where that is the one of ``--model``."""


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options. The defaults are the article's, except that answers are shorter."""
    parser.add_argument("endpoints", type=_endpoint, nargs="+", metavar="NAME=URL[#MODEL]")
    parser.add_argument(
        "--model",
        help="of the endpoints that name none after a #; default: the one that all of them serve",
    )
    _questions(parser.add_argument_group("what is asked"))
    _load(parser.add_argument_group("how hard, and how often"))
    _objectives(parser.add_argument_group("what was promised"))
    parser.add_argument(
        "--wait", type=at_least(0), default=60, help="seconds to wait for the endpoints"
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help="an endpoint that answers nothing for so long ends the turn on it: its requests count "
        f"as failed; default: {STALL_SECONDS:g}, and with --rate as long as a turn may last",
    )


def _questions(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
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
    add(
        "--classes",
        type=several(str),
        default=(),
        metavar="CLASS,...",
        help="of --prompts or --set, only these",
    )
    add("--limit", type=at_least(1), help="of --prompts or --set, so many")
    add(
        "--input-tokens",
        type=at_least(MINIMUM_INPUT_TOKENS),
        default=64,
        help="does not apply to --prompts and --set",
    )
    add("--output-tokens", type=at_least(2), default=200, help="longest answer")
    add("--temperature", type=temperature, default=0.0)
    add(
        "--no-thinking",
        action="store_true",
        help="asks the model's chat template for answers without thoughts",
    )
    add(
        "--keep-answers", action="store_true", help="keeps the texts of answers to --prompts, --set"
    )


def _load(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--concurrency",
        type=several(at_least(1)),
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
    add(
        "--seconds",
        type=positive,
        help=f"how long a --rate lasts in each round; default: {_SECONDS}",
    )
    add(
        "--alternate",
        action="store_true",
        help="loads the endpoints by turns that never overlap, for servers that share a GPU; "
        "default: beside each other",
    )
    add(
        "--requests",
        type=at_least(1),
        help="for each test case, --concurrency, round and endpoint, but at least one for each in "
        f"flight; default: {_REQUESTS}, or enough for each prompt to be sent in one of the rounds",
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


def _objectives(group: argparse._ArgumentGroup) -> None:
    for objective, what in zip(
        _OBJECTIVES, ("time to first token", "time per output token", "whole answer"), strict=True
    ):
        option = f"--{objective.replace('_', '-')}"
        group.add_argument(option, type=positive, metavar="MS", help=f"90 %% of requests: {what}")


def check(arguments: argparse.Namespace) -> None:
    """Raises ConfigError for options that contradict each other."""
    given = [o for o in ("cases", "prompts", "set") if getattr(arguments, o) is not None]
    if len(given) > 1:
        raise ConfigError(f"--{given[0]} and --{given[1]}: only one of them")
    for option in ("classes", "limit", "keep_answers"):
        if getattr(arguments, option) and given[:1] not in (["prompts"], ["set"]):
            raise ConfigError(f"--{option.replace('_', '-')}: needs --prompts or --set")
    if arguments.seconds is not None and not arguments.rate:
        raise ConfigError(f"--seconds = {arguments.seconds:g}: needs --rate")
    seconds = arguments.seconds or _SECONDS
    for one in arguments.rate:
        if one * seconds < 1:
            far = f"at --rate {one:g} requests are so far apart"
            raise ConfigError(f"--seconds = {seconds:g}: must be at least {1 / one:g}: {far}")
    if arguments.half_width is not None and arguments.rounds.fixed:
        allowed = "needs a range of rounds, such as --rounds 4-30"
        raise ConfigError(f"--half-width = {arguments.half_width:g}: {allowed}")
    try:
        _promised(arguments)
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error))) from None


def asked(arguments: argparse.Namespace) -> Asked:
    """The test cases that the options name. Raises ConfigError."""
    if arguments.cases is not None:
        return Asked(cases.read_cases(arguments.cases), 0)
    if arguments.prompts is None and arguments.set is None:
        return Asked(cases.HEADLINES, 0)
    if arguments.set is not None:
        folder = Path()
        case = TestCase(
            name=arguments.set, prompts=PromptSource(known=arguments.set), headline=True
        )
    else:
        folder = arguments.prompts.parent
        case = cases.read_prompts(arguments.prompts)
    assert case.prompts is not None
    chosen = {"classes": arguments.classes, "limit": arguments.limit}
    source = case.prompts.model_copy(update=chosen)
    case = case.model_copy(update={"prompts": source})
    return Asked((case,), len(sets.load(source, folder).prompts))


def config(arguments: argparse.Namespace, models: Mapping[str, str], asked: Asked) -> Config:
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
            load=_asked_load(arguments, asked.prompts),
            objectives=_promised(arguments),
            keep_answers=arguments.keep_answers,
            alternate=arguments.alternate,
            test_cases=asked.test_cases,
            region=None,
            bucket=None,
            cost=None,
            stand_in=None,
        )
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error))) from None


def _asked_load(arguments: argparse.Namespace, prompts: int) -> Load:
    chosen: Rounds = arguments.rounds
    if arguments.half_width is not None:
        chosen = chosen.model_copy(update={"half_width": arguments.half_width})
    points = tuple(_points(arguments, math.ceil(prompts / chosen.at_least)))
    sampling: dict[str, Any] = {"temperature": arguments.temperature}
    if arguments.no_thinking:
        sampling["chat_template_kwargs"] = {"enable_thinking": False}
    return Load(
        mean_input_tokens=arguments.input_tokens,
        mean_output_tokens=arguments.output_tokens,
        points=points,
        rounds=chosen,
        # A driver waits as long for a byte: the tap must be the first to give up.
        timeout_seconds=max(*map(_seconds, points), math.ceil(2 * (arguments.timeout or 0))),
        sampling=sampling,
    )


def _points(arguments: argparse.Namespace, enough: int) -> Iterator[LoadPoint]:
    """The load points. ``enough`` requests send each prompt in one of the rounds."""
    rates: tuple[float, ...] = arguments.rate
    concurrencies: tuple[int, ...] = arguments.concurrency or ()
    requests = arguments.requests or max(enough, _REQUESTS if not enough else 1)
    if not concurrencies and not rates:
        concurrencies = (min(_CONCURRENCY, requests),)
    for concurrency in concurrencies:
        yield LoadPoint(concurrency=concurrency, requests=max(requests, concurrency))
    for per_second in rates:
        seconds = arguments.seconds or _SECONDS
        yield LoadPoint(rate=per_second, requests=max(1, round(per_second * seconds)))


def _seconds(point: LoadPoint) -> int:
    """How long a turn may take."""
    if point.concurrency is None:
        return math.ceil(point.requests / (point.rate or 1)) + _WAVE_SECONDS
    return _WAVE_SECONDS * math.ceil(point.requests / point.concurrency)


def _promised(arguments: argparse.Namespace) -> Objectives | None:
    given = {name: getattr(arguments, name) for name in _OBJECTIVES}
    return Objectives(**given) if any(given.values()) else None


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
