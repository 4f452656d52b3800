"""Files that survive a kill at any moment: journals, and files that are written whole.

A journal only grows, by one JSON object a line.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from spectap.errors import JournalError, RunError, problems
from spectap.wording import printable

T = TypeVar("T")


def read(path: Path, kind: type[T]) -> Iterator[T]:
    """The lines of a journal, each validated as ``kind``; none if there is no file.

    A torn last line, which a kill in mid-write leaves, counts as not written. Raises OSError, and
    JournalError for a line of another kind.
    """
    adapter = TypeAdapter(kind)
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield adapter.validate_json(line)
            except ValidationError as error:
                place = f"{printable(str(path))}:{number}"
                raise JournalError(f"{place}: {next(problems(error))}") from None


def refuse_links(folder: Path) -> None:
    """Raises RunError for symbolic links in a run's folder, which writes would follow."""
    if link := next((path for path in folder.rglob("*") if path.is_symlink()), None):
        raise RunError(f"{printable(str(link))}: is a symbolic link, and leads out of the run")


def write_whole(path: Path, content: Iterable[bytes]) -> None:
    """Writes a file whole or not at all. Raises OSError."""
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)  # it may be a link, through which this would write
    with draft.open("xb") as file:
        file.writelines(content)
    draft.replace(path)


def write_json(path: Path, value: object) -> None:
    """Writes a value as a file of JSON, whole or not at all. Raises OSError."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    write_whole(path, [orjson.dumps(value, option=options)])


def read_json(path: Path, kind: type[T]) -> T | None:
    """Reads a file of JSON as ``kind``; None if there is no file. Raises JournalError."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes()) if path.exists() else None
    except (OSError, ValidationError) as error:
        text = next(problems(error)) if isinstance(error, ValidationError) else "cannot be read"
        raise JournalError(f"{printable(str(path))}: {text}") from None


class Journal:
    """A journal, open for writing.

    ``append`` hands the line to the operating system at once, so that a kill of this process loses
    nothing. Only ``flush`` and ``close`` wait for the disk, which takes milliseconds: a server of
    streams calls them from another thread.
    """

    def __init__(self, path: Path) -> None:
        """Opens or creates the file and cuts off a torn last line. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._closed = False
        _cut_torn_line(self._file)

    def append(self, line: object) -> None:
        """Writes one object. Raises OSError, for instance when the disk is full."""
        # orjson is fast: no stream is served while a line of a thousand chunks is written.
        try:
            data = orjson.dumps(line, default=list, option=orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError:  # a number of more than 64 bits, or half a character
            text = json.dumps(line, default=dataclasses.asdict, ensure_ascii=False)
            data = text.encode("utf-8", "replace") + b"\n"
        written = os.write(self._file, data)
        if written != len(data):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(f"the disk took {written} of {len(data)} bytes of a line")

    def flush(self) -> None:
        """Waits until all lines are on the disk. Raises OSError."""
        os.fsync(self._file)

    def close(self) -> None:
        """Flushes as far as the disk allows, and closes. A second call does nothing."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(OSError):
                self.flush()
            os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cut_torn_line(file: int) -> None:
    # Otherwise the next line would be appended to it, and both would be lost.
    size = end = os.fstat(file).st_size
    while end > 0 and os.pread(file, 1, end - 1) != b"\n":
        start = max(0, end - 65536)
        end = start + os.pread(file, end - start, start).rfind(b"\n") + 1
    if end < size:
        os.ftruncate(file, end)
