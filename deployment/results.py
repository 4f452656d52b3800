"""The runs in the experiment's bucket, and how one comes home."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from botocore.exceptions import ClientError

from charts.names import bucket_name
from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.lifecycle import ROOT
from deployment.place import Place
from deployment.stages.store import LARGEST, Store
from spectap.names import (
    ADVICE,
    COMPLETE,
    CONFIG,
    MERGED,
    QUALITY,
    RESULTS_PREFIX,
    RUN_ID,
    SUMMARY,
    SWEEP,
    results_key,
)
from spectap.printing import printable, redraw

HOME: Final = Path("results")
REPORT: Final = "report.html"
_DRAWN: Final = re.compile(rf"{re.escape(REPORT)}|{SUMMARY}|{ADVICE}|[^/]*\.png")
_READ: Final = (CONFIG, SWEEP, MERGED)
"""Files that are read from the bucket itself."""
_AT_ONCE: Final = 8
"""The SDK keeps ten connections (botocore, ``Config.max_pool_connections``)."""
_NO_BUCKET: Final = ("NoSuchBucket", "404")
_SHOWN_KEYS: Final = 3
_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True)
class Object:
    """A file of a run, as the bucket has it."""

    name: str
    """Its path in the run's folder."""
    size: int
    changed: datetime.datetime


@dataclass(frozen=True)
class Run:
    """A run in the bucket."""

    id: str
    objects: Mapping[str, Object]
    """By name."""
    complete: bool
    """Whether all that was to be measured is."""
    variants: tuple[str, ...]

    @property
    def changed(self) -> datetime.datetime:
        """When the last of its files was written."""
        return max(each.changed for each in self.objects.values())

    @property
    def measured(self) -> list[Object]:
        """What comes home: all but what ``draw`` makes of it there."""
        return [each for each in self.objects.values() if not _DRAWN.fullmatch(each.name)]


@dataclass(frozen=True)
class Listing:
    """What the bucket has below ``results/``."""

    runs: list[Run]
    """The newest last."""
    refused: list[str]
    """Keys that are no file of a run, or of one too large to read: whoever may write to the bucket
    chooses both."""

    @property
    def refusal(self) -> str | None:
        """A line on the refused keys, percent-encoded: no terminal or log acts on what they say."""
        if not self.refused:
            return None
        shown = (quote(key)[:_SHOWN_CHARACTERS] for key in self.refused[:_SHOWN_KEYS])
        more = f", ... ({len(self.refused)} in all)" if len(self.refused) > _SHOWN_KEYS else ""
        listed = f"{', '.join(shown)}{more}"
        return f"refused, as no file of a run or above {LARGEST >> 20} MiB: {listed}"


def bucket(place: Place) -> str:
    """The name of the experiment's bucket."""
    return bucket_name(place.experiment, place.account)


def listing(place: Place) -> Listing:
    """What the bucket has; nothing if there is no bucket. Raises DeploymentError."""
    objects: dict[str, dict[str, Object]] = {}
    refused = []
    for entry in _listed(place):
        id, _, name = entry["Key"].removeprefix(RESULTS_PREFIX).partition("/")
        if id == QUALITY or not name or name.endswith("/"):
            continue
        readable = name not in _READ or entry["Size"] <= LARGEST
        if RUN_ID.fullmatch(id) and _is_path(name) and readable:
            entries = objects.setdefault(id, {})
            entries[name] = Object(name, entry["Size"], entry["LastModified"])
        else:
            refused.append(entry["Key"])
    runs = [_run(place, id, entries) for id, entries in objects.items()]
    return Listing(sorted(runs, key=lambda run: run.changed), refused)


def bring(
    place: Place, run: str | None, *, into: Path = HOME, say: Callable[[str], None] = print
) -> Path:
    """Brings a run home; returns its folder.

    ``run`` is an id or how it begins; None if there is only one. What is at home in this form is
    not fetched again, and each file is there whole or not at all, so that it can be interrupted.
    Raises DeploymentError.
    """
    here = listing(place)
    if here.refusal:
        say(here.refusal)
    return fetch(place, chosen(here.runs, run, bucket(place)), into=into, say=say)


def chosen(every: Sequence[Run], wanted: str | None, where: str) -> Run:
    """The run whose id is or begins with ``wanted``, or the only one. Raises DeploymentError."""
    if wanted and not RUN_ID.fullmatch(wanted):
        raise DeploymentError(f"RUN = {wanted!a}: must match {RUN_ID.pattern}")
    fitting = [run for run in every if run.id == wanted] or [
        run for run in every if run.id.startswith(wanted or "")
    ]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(run.id for run in fitting or every) or "none"
    if not every:
        raise DeploymentError(f"s3://{where}: it has no results yet")
    if wanted:
        problem = "several begin so" if fitting else "no run is called or begins so"
        raise DeploymentError(f"RUN = {wanted!r}: {problem}: {names}")
    raise DeploymentError(f"s3://{where} has several runs: RUN names one of {names}")


def fetch(place: Place, run: Run, *, into: Path = HOME, say: Callable[[str], None] = print) -> Path:
    """Brings ``run`` home, as ``bring`` does. Raises DeploymentError."""
    folder = into / run.id
    missing = [its for its in run.measured if not _at_home(its, folder)]
    progress = _Progress(run.id, missing)
    store = place.client("s3")

    def bring_one(its: Object) -> None:
        _bring(store, bucket(place), run.id, its, folder)
        progress.came(its)

    marks = [its for its in missing if its.name.endswith(COMPLETE)]
    files = [its for its in missing if its not in marks]
    try:
        for part in (files, marks):  # what says that all is there comes last
            _all_at_once(bring_one, part)
    finally:
        progress.end()
    kept = len(run.measured) - len(missing)
    had = f"; {kept} were here" if kept else ""
    say(f"{len(missing)} files, {_megabytes(missing)}, into {folder}{had}")
    return folder


def draw(folder: Path) -> str:
    """Draws the report of the run in ``folder``; returns its table.

    Whoever may write to the bucket may put any page there, so the bucket's own does not come home.
    Raises DeploymentError.
    """
    # The benchmark is a program of its own: no other part of the project imports it.
    drawn = subprocess.run(
        [sys.executable, "-m", "spectap", "report", str(folder.resolve())],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if drawn.returncode:
        *_, reason = ["no reason given", *drawn.stderr.strip().splitlines()]
        raise DeploymentError(printable(f"no report: {reason}; make report RUN={folder.name}"))
    return drawn.stdout


def show(place: Place, wanted: str | None) -> int:
    """``make results``: lists the runs if there are several, otherwise brings one home.

    Returns the exit status. Raises DeploymentError.
    """
    print(place.headline, flush=True)
    here = listing(place)
    if here.refusal:
        print(here.refusal, file=sys.stderr)
    if wanted is None and len(here.runs) > 1:
        for line in table(here.runs):
            print(line)
        print("make results EXPERIMENT=... RUN=ID brings one home; how it begins is enough")
        return 0
    run = chosen(here.runs, wanted, bucket(place))
    folder = fetch(place, run)
    if not run.complete:
        print("This run is not complete: it still measures, or was ended; what there is, is here")
    try:
        draw(folder)
    except DeploymentError as error:
        print(error)
    else:
        print(f"report: {folder / REPORT}")
    return 0


def table(every: Iterable[Run]) -> Iterator[str]:
    """A line for each run."""
    rows = [
        (
            run.id,
            f"{run.changed:%Y-%m-%d %H:%M} UTC",
            "complete" if run.complete else "not complete",
            ", ".join(run.variants),
        )
        for run in every
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield printable("  ".join(["", *cells, row[3]]).rstrip())


def _listed(place: Place) -> list[dict[str, Any]]:
    with in_words():
        pages = place.client("s3").get_paginator("list_objects_v2")
        try:
            return [
                entry
                for page in pages.paginate(Bucket=bucket(place), Prefix=RESULTS_PREFIX)
                for entry in page.get("Contents", [])
            ]
        except ClientError as error:
            if error.response["Error"]["Code"] in _NO_BUCKET:
                return []
            raise


def _run(place: Place, id: str, objects: Mapping[str, Object]) -> Run:
    """Of variants that are measured one by one, ``merged.json`` says which are missing."""
    complete = COMPLETE in objects
    if MERGED in objects:
        complete = not _json(place, id, MERGED).get("missing")
    config = next((name for name in (SWEEP, CONFIG) if name in objects), None)
    variants = _json(place, id, config).get("variants") if config else None
    names = [
        str(variant["name"])
        for variant in (variants if isinstance(variants, list) else [])
        if isinstance(variant, dict) and "name" in variant
    ]
    return Run(id, objects, complete, tuple(names))


def _json(place: Place, id: str, name: str) -> dict[str, Any]:
    """A small file of a run; nothing if it is none."""
    try:
        found = json.loads(Store(place).read(results_key(id, name)) or b"")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _at_home(its: Object, folder: Path) -> bool:
    """Whether the file is there as the bucket has it: a file brought home has its object's time."""
    try:
        there = (folder / its.name).stat()
    except OSError:
        return False
    return there.st_size == its.size and int(there.st_mtime) == int(its.changed.timestamp())


def _all_at_once(bring: Callable[[Object], None], objects: Sequence[Object]) -> None:
    """Brings several at a time; raises what the first that failed has raised."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        list(pool.map(bring, objects))
    finally:
        pool.shutdown(cancel_futures=True)


def _bring(store: Any, bucket: str, id: str, its: Object, folder: Path) -> None:
    path = folder / its.name
    draft = path.with_name(f"{path.name}.draft")
    with in_words():
        body = store.get_object(Bucket=bucket, Key=results_key(id, its.name))["Body"]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                for chunk in body.iter_chunks(1 << 20):
                    file.write(chunk)
            os.utime(draft, (its.changed.timestamp(),) * 2)
            draft.replace(path)
        except OSError as error:
            raise DeploymentError(f"{path}: cannot be written: {error.strerror}") from None


def _is_path(name: str) -> bool:
    """Whether it is a path below a folder, and nothing that a terminal acts on."""
    return name.isprintable() and not {*name.split("/")} & {"", ".", ".."}


class _Progress:
    """How much of a run has come: one line on a terminal, nothing in a log."""

    def __init__(self, id: str, coming: Sequence[Object]) -> None:
        self._id, self._total = id, sum(its.size for its in coming) or 1
        self._done = 0
        self._shown = sys.stderr.isatty() and bool(coming)

    def came(self, its: Object) -> None:
        """One more file is there."""
        self._done += its.size
        if self._shown:
            part = f"{100 * self._done // self._total} %"
            redraw(f"{self._id}: {part}", sys.stderr)

    def end(self) -> None:
        """Leaves an empty line."""
        if self._shown:
            redraw("", sys.stderr)


def _megabytes(objects: Iterable[Object]) -> str:
    return f"{sum(its.size for its in objects) / 1e6:.1f} MB"
