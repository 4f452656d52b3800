"""The options of ``measure``, and which of them contradict each other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from spectap.commands.arguments import (
    HALF_WIDTH,
    base_url,
    fraction,
    name,
    positive,
    rate,
    rounds,
    several,
    temperature,
    whole_number,
    with_password,
)
from spectap.config import Objectives
from spectap.errors import ConfigError, problems
from spectap.load import sets
from spectap.load_points import MINIMUM_INPUT_TOKENS
from spectap.tap.tap import STALL_SECONDS

REQUESTS: Final = 4
CONCURRENCY: Final = 4
SECONDS: Final = 30
"""How long a --rate lasts. These three are defaults."""

_OBJECTIVES: Final = {
    "ttft_p90_ms": "time to first token",
    "tpot_p90_ms": "time per output token",
    "e2e_p90_ms": "whole answer",
}


class Endpoint(NamedTuple):
    """An endpoint as it is given."""

    name: str
    url: str
    model: str | None
    """The name it serves the model under; None where that is the one of ``--model``."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options. The defaults are the article's, except that answers are shorter."""
    parser.add_argument("endpoints", type=_endpoint, nargs="+", metavar="NAME=URL[#MODEL]")
    parser.add_argument(
        "--model",
        help="of the endpoints that name none after a #; default: the one that all of them serve",
    )
    _add_prompt_options(parser.add_argument_group("what is asked"))
    _add_load_options(parser.add_argument_group("how hard, and how often"))
    group = parser.add_argument_group("what was promised")
    for objective, subject in _OBJECTIVES.items():
        option = f"--{objective.replace('_', '-')}"
        group.add_argument(
            option, type=positive, metavar="MS", help=f"90 %% of requests: {subject}"
        )
    parser.add_argument(
        "--wait", type=whole_number(0), default=60, help="seconds to wait for the endpoints"
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help="an endpoint that answers nothing for so long ends the turn on it: its requests count "
        f"as failed; default: {STALL_SECONDS:g}, and with --rate as long as a turn may last",
    )


def _add_prompt_options(group: argparse._ArgumentGroup) -> None:
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
    add("--limit", type=whole_number(1), help="of --prompts or --set, so many")
    add(
        "--input-tokens",
        type=whole_number(MINIMUM_INPUT_TOKENS),
        default=64,
        help="does not apply to --prompts and --set",
    )
    add("--output-tokens", type=whole_number(2), default=200, help="longest answer")
    add("--temperature", type=temperature, default=0.0)
    add(
        "--no-thinking",
        action="store_true",
        help="asks the model's chat template for answers without thoughts",
    )
    add(
        "--keep-answers", action="store_true", help="keeps the texts of answers to --prompts, --set"
    )


def _add_load_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--concurrency",
        type=several(whole_number(1)),
        metavar="N,...",
        help="requests in flight at each endpoint: one load point, or a ladder of them; "
        f"default: {CONCURRENCY}, at most --requests",
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
        help=f"how long a --rate lasts in each round; default: {SECONDS}",
    )
    add(
        "--alternate",
        action="store_true",
        help="loads the endpoints by turns that never overlap, for servers that share a GPU; "
        "default: beside each other",
    )
    add(
        "--requests",
        type=whole_number(1),
        help="for each test case, --concurrency, round and endpoint, but at least one for each in "
        f"flight; default: {REQUESTS}, or enough for each prompt to be sent in one of the rounds",
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


def check(arguments: argparse.Namespace) -> None:
    """Raises ConfigError for options that contradict each other."""
    if len({endpoint.name for endpoint in arguments.endpoints}) < len(arguments.endpoints):
        raise ConfigError("NAME=URL: each endpoint needs a name of its own")
    sources = [o for o in ("cases", "prompts", "set") if getattr(arguments, o) is not None]
    if len(sources) > 1:
        raise ConfigError(f"--{sources[0]} and --{sources[1]}: only one of them")
    for option in ("classes", "limit", "keep_answers"):
        if getattr(arguments, option) and sources[:1] not in (["prompts"], ["set"]):
            raise ConfigError(f"--{option.replace('_', '-')}: needs --prompts or --set")
    if arguments.seconds is not None and not arguments.rate:
        raise ConfigError(f"--seconds = {arguments.seconds:g}: needs --rate")
    seconds = arguments.seconds or SECONDS
    for per_second in arguments.rate:
        if per_second * seconds < 1:
            least = f"must be at least {1 / per_second:g}"
            far = f"at --rate {per_second:g} requests are so far apart"
            raise ConfigError(f"--seconds = {seconds:g}: {least}: {far}")
    if arguments.half_width is not None and arguments.rounds.fixed:
        allowed = "needs a range of rounds, such as --rounds 4-30"
        raise ConfigError(f"--half-width = {arguments.half_width:g}: {allowed}")
    try:
        objectives(arguments)
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error))) from None


def objectives(arguments: argparse.Namespace) -> Objectives | None:
    """What was promised; None if nothing was. Raises ValidationError."""
    limits = {name: getattr(arguments, name) for name in _OBJECTIVES}
    return Objectives(**limits) if any(limits.values()) else None
