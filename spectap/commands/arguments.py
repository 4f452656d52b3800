"""Types of arguments that several commands take. Each refusal is one line."""

from __future__ import annotations

import math
import os
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from spectap import config
from spectap.config import NAME
from spectap.errors import RunError, problems
from spectap.load_points import Rounds
from spectap.names import CONFIG

MOST_PER_SECOND: Final = 1000
"""Requests a second; an experiment file allows as many."""

HOTTEST: Final = 2
"""The highest temperature; an experiment file allows as much."""

_ROUNDING: Final = 0.002
"""How far shares may add up to something else than 1: thirds have no last digit."""

T = TypeVar("T")

HALF_WIDTH: Final = 0.05
"""How far an interval of a range of rounds may reach from its estimate, unless told otherwise."""


def results_folder() -> Path:
    """Where runs are: RESULTS_DIR, or ``results``."""
    return Path(os.environ.get("RESULTS_DIR") or "results")


def recorded(text: str) -> Path:
    """What was recorded: a ledger, or a run's folder, by its path or by its name in the results."""
    results = results_folder()
    for path in (Path(text), results / text):
        if path.exists():
            return path
    raise ArgumentTypeError(f"{text!r}: there is no such file or folder, nor one in {results}/")


def refuse_jobs(folder: Path) -> None:
    """Raises RunError for a run of jobs, which has no request; and ConfigError."""
    path = folder / CONFIG
    if path.exists() and config.read(path).offline:
        raise RunError(f"{folder}: its variants ran as jobs, which only report reads")


def shares(text: str) -> dict[str, float]:
    """A mix of classes, such as ``structured=0.7,open-ended=0.3``. The shares add up to 1."""
    found = {}
    for part in text.split(","):
        name, _, share = part.rpartition("=")
        value = _number(share)
        if not name or not 0 <= value < math.inf:
            raise ArgumentTypeError(
                f"{part!r}: must be a class and its share, such as structured=0.7"
            )
        if name.strip() in found:
            raise ArgumentTypeError(f"{text!r}: must name each only once")
        found[name.strip()] = value
    if abs((total := math.fsum(found.values())) - 1) > _ROUNDING:
        raise ArgumentTypeError(f"{text!r}: the shares must add up to 1, not to {total:g}")
    return found


def base_url(text: str) -> str:
    """A server's base URL; ``/v1`` is added where the URL has no path.

    A password in it would be in every result, so it is refused, and no message repeats it.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number
        usable = False
    usable = usable and not parts.query and not parts.fragment
    if "@" in (parts.netloc if usable else text):
        raise with_password()
    if not usable:
        raise ArgumentTypeError(f"{text!r}: must be a base URL such as http://127.0.0.1:8000/v1")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


def with_password() -> ArgumentTypeError:
    """The refusal of a URL that holds a user or a password."""
    return ArgumentTypeError("a URL must hold no user or password: set OPENAI_API_KEY instead")


def name(text: str) -> str:
    """The name of a variant or a test case."""
    if not NAME.fullmatch(text):
        raise ArgumentTypeError(f"{text!r}: a name must match {NAME.pattern}")
    return text


def port(text: str) -> int:
    """A port to listen on; 0 stands for a free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r}: must be a whole number from 0 to 65535")
    return int(text)


def at_least(minimum: int) -> Callable[[str], int]:
    """A whole number that is not smaller than ``minimum``."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise ArgumentTypeError(f"{text!r}: must be a whole number of at least {minimum}")
        return int(text)

    return number


def several(one: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Arguments of one type, with commas between them; none comes twice."""

    def listed(text: str) -> tuple[T, ...]:
        found = tuple(one(part.strip()) for part in text.split(","))
        if len({*found}) < len(found):
            raise ArgumentTypeError(f"{text!r}: must name each only once")
        return found

    return listed


def rounds(text: str) -> Rounds:
    """A number of rounds, or a range such as ``4-30``, whose half-width is the default one."""
    numbers = text.split("-")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise ArgumentTypeError(f"{text!r}: must be a whole number, or a range such as 4-30")
    first, last = int(numbers[0]), int(numbers[-1])
    told = {"at_least": first, "at_most": last, "half_width": HALF_WIDTH}
    try:
        return Rounds.model_validate(first if first == last else told)
    except ValidationError as error:
        raise ArgumentTypeError(f"{text!r}: {next(problems(error))}") from None


def fraction(text: str) -> float:
    """A part of a whole: neither nothing nor all of it."""
    value = _number(text)
    if not 0 < value < 1:
        raise ArgumentTypeError(f"{text!r}: must be a number between 0 and 1")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"{text!r}: must be a number of more than 0")
    return value


def rate(text: str) -> float:
    """Requests a second."""
    value = _number(text)
    if not 0 < value <= MOST_PER_SECOND:
        raise ArgumentTypeError(
            f"{text!r}: must be a number of more than 0 and at most {MOST_PER_SECOND}"
        )
    return value


def temperature(text: str) -> float:
    """A sampling temperature."""
    value = _number(text)
    if not 0 <= value <= HOTTEST:
        raise ArgumentTypeError(f"{text!r}: must be a number from 0 to {HOTTEST}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
