"""The class of a command, and types of arguments. Each refusal is one line."""

import argparse
import contextlib
import math
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import orjson
from pydantic import ValidationError

from spectap.errors import problems
from spectap.inputs.config import NAME
from spectap.inputs.load_points import Rounds

_OPERATIONS: Final = ("/chat/completions", "/completions", "/responses", "/models")
"""Paths that users paste with a base URL, and that are cut off."""

_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ -~]+")

T = TypeVar("T")


class Exit(IntEnum):
    """The exit statuses of all commands. They never change."""

    meaning: str

    def __new__(cls, status: int, meaning: str) -> Self:
        member = int.__new__(cls, status)
        member._value_, member.meaning = status, meaning
        return member

    DONE = 0, "all is well"
    FAILED = 1, "something failed, which the last lines name, and the rest is kept"
    REFUSED = 2, "it cannot do what was asked"
    GATE_FAILED = 3, "a threshold of compare is not kept"
    NEVER_SERVED = os.EX_UNAVAILABLE, "the server of an index never served"
    RESTART = os.EX_TEMPFAIL, "restart the servers, and run the same command again"
    SIGNAL = 128, "with n added: ended by signal n"


class Command(NamedTuple):
    """A command of spectap."""

    main: Callable[[argparse.Namespace], int]
    """Returns the exit status; raises SpectapError. Its docstring is the command's help."""
    add_options: Callable[[argparse.ArgumentParser], object] = lambda parser: None
    internal: bool = False
    """Whether only pods use it. Such a command is not listed."""


def add_trust(add: Callable[..., object]) -> None:
    """Adds the options for ``access.trust``."""
    add("--ca", type=Path, metavar="FILE", help="trusts the certificates of this authority, too")
    add("--insecure", action="store_true", help="trusts any certificate")


def add_json(add: Callable[..., object]) -> None:
    add("--json", action="store_true", help="prints JSON in place of the table")


def add_markdown(add: Callable[..., object]) -> None:
    add("--markdown", action="store_true", help="prints Markdown, as a job's summary shows it")


def add_verbose(add: Callable[..., object]) -> None:
    add("--verbose", action="store_true", help="prints every figure, and what the columns mean")


def results_folder(otherwise: str = "results") -> Path:
    """The folder of runs: RESULTS_DIR, or else ``otherwise``."""
    return Path(os.environ.get("RESULTS_DIR") or otherwise)


def recorded_path(text: str) -> Path:
    """A ledger, or a run's folder, by its path or by its name in the results."""
    results = results_folder()
    for path in (Path(text), results / text):
        if path.exists():
            return path
    raise ArgumentTypeError(f"{text!r}: there is no such file or folder, nor one in {results}/")


def base_url(text: str) -> str:
    """A server's base URL. ``/v1`` is added where the URL has no path.

    A URL with a password is refused, because it would be in every result. No message repeats it.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is not a number
        usable = False
    usable = usable and not parts.query and not parts.fragment
    if "@" in (parts.netloc if usable else text):
        raise with_password()
    if not usable:
        example = "http://127.0.0.1:8000/v1, without ?query"
        raise ArgumentTypeError(f"{text!r}: must be a base URL such as {example}")
    path = parts.path.rstrip("/") or "/v1"
    operation = next((each for each in _OPERATIONS if path.endswith(each)), "")
    return f"{parts.scheme}://{parts.netloc}{path.removesuffix(operation)}"


def with_password() -> ArgumentTypeError:
    """The refusal of a URL that holds a user or a password."""
    return ArgumentTypeError("a URL must hold no user or password: set OPENAI_API_KEY instead")


def header(text: str) -> tuple[str, str]:
    """A request's header. No message repeats it: its value may be a secret."""
    if not _HEADER.fullmatch(text):
        raise ArgumentTypeError("a header must be 'NAME: VALUE', in ASCII")
    field, _, value = text.partition(":")
    return field.title(), value.strip()


def json_object(text: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        if isinstance(value := orjson.loads(text), dict):
            return value
    raise ArgumentTypeError(f"{text!r}: must be a JSON object")


def name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ArgumentTypeError(f"{text!r}: a name must match {NAME.pattern}")
    return text


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"

    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= (most or int(text)):
            raise ArgumentTypeError(f"{text!r}: must be a whole number {allowed}")
        return int(text)

    return number


def several(kind: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """A list of distinct arguments of one type, with commas between them."""

    def listed(text: str) -> tuple[T, ...]:
        values = tuple(kind(item.strip()) for item in text.split(","))
        if len({*values}) < len(values):
            raise ArgumentTypeError(f"{text!r}: must name each only once")
        return values

    return listed


def rounds(text: str) -> Rounds:
    """A number of rounds, or a range such as ``4-30``."""
    numbers = text.split("-")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise ArgumentTypeError(f"{text!r}: must be a whole number, or a range such as 4-30")
    first, last = int(numbers[0]), int(numbers[-1])
    limits = {"at_least": first, "at_most": last}
    try:
        return Rounds.model_validate(first if first == last else limits)
    except ValidationError as error:
        raise ArgumentTypeError(f"{text!r}: {next(problems(error))}") from None


def _type(allowed: str, accepts: Callable[[float], bool]) -> Callable[[str], float]:
    """A type of numbers; ``allowed`` says in a refusal which they are."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not accepts(value):
            raise ArgumentTypeError(f"{text!r}: must be a number {allowed}")
        return value

    return number


positive: Final = _type("of more than 0", lambda value: 0 < value < math.inf)
threshold: Final = _type("of more than 0 and at most 1", lambda value: 0 < value <= 1)
launch_error: Final = _type("from 0 to 1", lambda value: 0 <= value <= 1)
# An experiment file allows as much.
rate: Final = _type("of more than 0 and at most 1000", lambda value: 0 < value <= 1000)
"""Requests a second."""
