"""The options of ``measure``, and which of them go together."""

import argparse
from pathlib import Path
from typing import Final

from spectap.commands.arguments import (
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
    whole_number,
    with_password,
)
from spectap.endpoint.health import Endpoint
from spectap.errors import ConfigError
from spectap.inputs.load_points import MINIMUM_INPUT_TOKENS
from spectap.load import sets
from spectap.protocol.text import EndpointType
from spectap.tap.tap import STALL_SECONDS

# Defaults; the last is how long a --rate lasts.
REQUESTS: Final = 4
CONCURRENCY: Final = 4
SECONDS: Final = 30

OBJECTIVES: Final = {
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
"""Options that need one of the listed others."""


def add_options(parser: argparse.ArgumentParser) -> None:
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
        help="a turn ends when its endpoint has answered nothing for so long, and its requests "
        f"count as failed; default: {STALL_SECONDS:g}, and with --rate as long as a turn may last",
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
    add(
        "--endpoint-type",
        type=EndpointType,
        choices=[*EndpointType],
        default=EndpointType.CHAT,
        help="completions sends a prompt's text to /v1/completions, without a chat template",
    )
    add(
        "--extra",
        type=json_object,
        default={},
        metavar="JSON",
        help="fields of each request, such as '{\"temperature\": 0.6}' (otherwise 0: greedy)",
    )
    add("--keep-answers", action="store_true", help="keeps texts of answers to --prompts, --set")

    add = parser.add_argument_group("how hard, and how often").add_argument
    add(
        "--concurrency",
        type=several(count),
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
    lasts = f"how long a --rate lasts in each round; default: {SECONDS}"
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
        help="of a test case in each round, at each endpoint and --concurrency; at least as many "
        f"as are in flight; default: {REQUESTS}, or enough for all rounds to send each prompt once",
    )
    add(
        "--rounds",
        type=rounds,
        default="6",
        metavar="N | AT_LEAST-AT_MOST",
        help="of a range, a test case takes only as many as decide it, or show it to 5 %%",
    )
    add(
        "--spread",
        type=positive,
        default=0,
        metavar="MINUTES",
        help="the least time from the first round to the last. Rounds then wait for one another, "
        "and intervals cover what slows an endpoint for minutes; 10 for each round after the first "
        "are enough; default: no pause",
    )
    add(
        "--launches",
        type=count,
        metavar="N",
        help="of each server, at least 3. Each takes its part of the rounds, and intervals cover "
        "what differs between launches; default: 1",
    )
    add(
        "--relaunch",
        metavar="COMMAND",
        help="restarts the servers between two launches, and returns once the old ones are gone",
    )

    add = parser.add_argument_group("what was promised").add_argument
    for objective, subject in OBJECTIVES.items():
        option = f"--{objective.replace('_', '-')}"
        add(option, type=positive, metavar="MS", help=f"90 %% of requests: {subject}")


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
    """Raises ConfigError for options that do not go together."""
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
