"""A file of the user's own prompts: JSON lines, or one prompt a line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from spectap import prompt_line
from spectap.errors import ConfigError
from spectap.prompt import Prompt

MOST_SHOWN: Final = 20
"""Bad lines shown for one file. Nobody reads more at once."""


def read_file(path: Path) -> tuple[Prompt, ...]:
    """The prompts of a file, in its order. At least one.

    The lines of a ``.jsonl`` file, or of one that has a line which begins with ``{``, are objects
    with ``prompt`` (text) or ``messages`` (OpenAI's), and, where wanted, ``name``, ``class``,
    ``max_tokens``, ``tools`` (OpenAI's) and ``answer`` ("json" or "code"). In any other file each
    line is a prompt. Blank lines count for nothing but the number of a line, which names a prompt
    without a name. A file whose name ends with ``.gz`` is unpacked.

    Raises ConfigError with a line for each thing that is wrong: file, line, field, value and what
    is allowed.
    """
    return parse(content(path), str(path))


def content(path: Path) -> bytes:
    """What the file holds, unpacked: what its digest is of. Raises ConfigError."""
    try:
        held = path.read_bytes()
        return gzip.decompress(held) if path.suffix == ".gz" else held
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ConfigError(f"{path}: is not gzip, as its name says") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def parse(content: bytes, file: str) -> tuple[Prompt, ...]:
    """The prompts of a file of that content; see ``read_file``. ``file`` is for messages."""
    lines = dict(_lines(content, file))
    is_json = file.removesuffix(".gz").endswith(".jsonl") or any(
        line.startswith("{") for line in lines.values()
    )
    read = prompt_line.read if is_json else _from_text
    found = {number: read(line, number) for number, line in lines.items()}
    prompts = {number: one for number, one in found.items() if isinstance(one, Prompt)}
    problems = [
        (number, problem)
        for number, one in found.items()
        if not isinstance(one, Prompt)
        for problem in one
    ]
    problems += _name_twice(prompts)
    if problems:
        said = [f"{file}:{number}: {_one_line(problem)}" for number, problem in sorted(problems)]
        if len(said) > MOST_SHOWN:
            said[MOST_SHOWN:] = [f"{file}: and {len(said) - MOST_SHOWN} more"]
        raise ConfigError("\n".join(said))
    return tuple(prompts.values())


def _lines(content: bytes, file: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, by their number from 1; at least one."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: is not UTF-8: {error.reason}") from None
    if not text.strip():
        raise ConfigError(f"{file}: has no prompt: it is empty")
    stripped = (line.strip() for line in text.split("\n"))
    yield from ((number, line) for number, line in enumerate(stripped, start=1) if line)


def _from_text(line: str, number: int) -> Prompt:
    return Prompt(name=f"line-{number}", messages=({"role": "user", "content": line},))


def _name_twice(prompts: Mapping[int, Prompt]) -> Iterator[tuple[int, str]]:
    first: dict[str, int] = {}
    for number, prompt in prompts.items():
        if (other := first.setdefault(prompt.name, number)) != number:
            yield number, f'name = "{prompt.name}": is the name of line {other} too'


def _one_line(text: str) -> str:
    """The same with what a terminal would not show as it is, such as ends of lines, by number."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
