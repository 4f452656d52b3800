"""The runs in the experiment's bucket, and how one is downloaded."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from operations.account import LARGEST, Bucket, Deployment, DeploymentError, aws_errors
from operations.console import print_table
from operations.lifecycle import ROOT
from spectap.names import (
    COMPLETE,
    MERGED,
    REPORT,
    RESULTS_PREFIX,
    RUN_ID,
    SUMMARY,
    VARIANTS,
    is_path,
    results_key,
)
from spectap.wording import printable

FOLDER: Final = Path("results")
_DRAWN: Final = re.compile(rf"{SUMMARY}|(?:{VARIANTS}/[^/]+/)?(?:{re.escape(REPORT)}|[^/]*\.png)")
_DATA: Final = re.compile(rf"(?:[^./][^/]*/)*(?:[^./][^/]*\.(?:jsonl?|log|txt)|{COMPLETE})")
"""A run's files are data, which no browser or shell runs."""
_AT_ONCE: Final = 8
"""The SDK keeps ten connections (botocore, ``Config.max_pool_connections``)."""


@dataclass(frozen=True)
class Object:
    """A file of a run, as the bucket has it."""

    name: str
    """Its path in the run's folder."""
    size: int
    changed: datetime.datetime

    def is_in(self, folder: Path) -> bool:
        """Whether the file was downloaded in this form: it then has its object's time."""
        try:
            file = (folder / self.name).stat()
        except OSError:
            return False
        return (file.st_size, int(file.st_mtime)) == (self.size, int(self.changed.timestamp()))


@dataclass(frozen=True)
class Run:
    """A run in the bucket."""

    id: str
    objects: Sequence[Object]
    complete: bool
    """Whether all that was to be measured is."""

    @property
    def changed(self) -> datetime.datetime:
        return max(each.changed for each in self.objects)

    @property
    def measured(self) -> list[Object]:
        return [each for each in self.objects if not _DRAWN.fullmatch(each.name.casefold())]


class Merged(BaseModel):
    """What is read of the ``merged.json`` of isolated variants, which a pod has written."""

    complete: frozenset[str] = frozenset()
    """Names of the variants in the run."""
    missing: object = None
    """Why each of the others is not, by its name."""

    @classmethod
    def read(cls, bucket: Bucket, run: str) -> Merged | None:
        """None if the run has none, or one that nobody can read."""
        try:
            return cls.model_validate_json(bucket.read(results_key(run, MERGED)) or b"")
        except ValidationError:
            return None


def listing(deployment: Deployment) -> tuple[list[Run], str]:
    """The runs in the bucket, the newest last, and a line on refused keys; empty without any.

    Refused are keys that name no file of a run, and a ``merged.json`` too large to read: whoever
    may write to the bucket chooses names and sizes. The line has their number and the first one,
    percent-encoded, so that no terminal acts on it.
    """
    bucket, refused = Bucket(deployment), list[str]()
    objects: dict[str, list[Object]] = {}
    for entry in bucket.entries(RESULTS_PREFIX):
        id, _, name = entry["Key"].removeprefix(RESULTS_PREFIX).partition("/")
        if not name or name.endswith("/"):
            continue
        # A terminal acts on what is not printable.
        is_safe = is_path(name) and name.isprintable()
        is_readable = name != MERGED or entry["Size"] <= LARGEST
        is_file = _DATA.fullmatch(name) or _DRAWN.fullmatch(name)
        if RUN_ID.fullmatch(id) and is_safe and is_file and is_readable:
            file = Object(name, entry["Size"], entry["LastModified"])
            objects.setdefault(id, []).append(file)
        else:
            refused.append(quote(entry["Key"])[:60])
    runs = [_run(bucket, id, files) for id, files in objects.items()]
    refusal = (
        f"refused, as no file of a run, or above {LARGEST >> 20} MiB: {refused[0]} "
        f"({len(refused)} in all)"
        if refused
        else ""
    )
    return sorted(runs, key=lambda run: run.changed), refusal


def chosen(every: Sequence[Run], run_id: str | None) -> Run:
    """The run whose id is or begins with ``run_id``, or the only one."""
    if run_id and not RUN_ID.fullmatch(run_id):
        raise DeploymentError(f"RUN = {run_id!a}: must match {RUN_ID.pattern}")
    if not every:
        raise DeploymentError("the bucket has no results yet")
    fitting = [run for run in every if run.id == run_id] or [
        run for run in every if run.id.startswith(run_id or "")
    ]
    if len(fitting) == 1:
        return fitting[0]
    problem = "several runs begin so" if fitting else "no run begins so"
    names = ", ".join(run.id for run in fitting or every)
    raise DeploymentError(f"RUN = {run_id or ''!r}: {problem}: {names}")


def download(
    deployment: Deployment, run: Run, *, into: Path = FOLDER, say: Callable[[str], None] = print
) -> Path:
    """Downloads ``run``; returns its folder.

    What the folder has in this form is not fetched again, and each file is there whole or not at
    all, so that it can be interrupted.
    """
    folder, bucket = into / run.id, Bucket(deployment).name
    missing = [file for file in run.measured if not file.is_in(folder)]
    client = deployment.client("s3")
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        # What says that everything is there comes last.
        for is_marker in (False, True):
            files = [file for file in missing if file.name.endswith(COMPLETE) is is_marker]
            # Raises what the first that failed has raised.
            list(pool.map(lambda file: _fetch(client, bucket, run.id, file, folder), files))
    finally:
        pool.shutdown(cancel_futures=True)
    present = len(run.measured) - len(missing)
    megabytes = sum(file.size for file in missing) / 1e6
    present_note = f"; {present} were here" if present else ""
    say(f"{len(missing)} files, {megabytes:.1f} MB, into {folder}{present_note}")
    if pages := [f for f in run.objects if f.name.startswith(VARIANTS) and f not in run.measured]:
        say(
            f"{len(pages)} pages and pictures of single variants stay in the bucket; make report "
            f"RUN={folder / VARIANTS}/NAME draws them"
        )
    return folder


def draw(folder: Path) -> str:
    """Draws the report of the run in ``folder``; returns its table.

    Whoever may write to the bucket may put any page there, so the bucket's own is not downloaded.
    """
    # spectap is a program of its own: no other part of the project imports its report.
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


def show(deployment: Deployment, run_id: str | None) -> int:
    """``make results``: downloads a run, or lists several; returns the exit status."""
    print(deployment.headline, flush=True)
    runs, refusal = listing(deployment)
    if refusal:
        print(refusal, file=sys.stderr)
    if run_id is None and len(runs) > 1:
        print_table(
            (
                f"  {run.id}",
                f"{run.changed:%Y-%m-%d %H:%M} UTC",
                "complete" if run.complete else "not complete",
            )
            for run in runs
        )
        print("make results EXPERIMENT=... RUN=ID downloads one; how it begins is enough")
        return 0
    run = chosen(runs, run_id)
    folder = download(deployment, run)
    if not run.complete:
        print("This run is not complete: it still measures, or was ended")
    try:
        draw(folder)
    except DeploymentError as error:
        print(error)
    else:
        print(f"report: {folder / REPORT}")
    return 0


def _run(bucket: Bucket, id: str, files: Sequence[Object]) -> Run:
    """A run by its files. ``merged.json`` says which variants are missing if each has its own."""
    names = {file.name for file in files}
    complete = COMPLETE in names
    if MERGED in names:
        merged = Merged.read(bucket, id)
        complete = merged is not None and not merged.missing
    return Run(id, files, complete)


def _fetch(client: Any, bucket: str, id: str, file: Object, folder: Path) -> None:
    path = folder / file.name
    draft = path.with_name(f"{path.name}.draft")
    with aws_errors():
        body = client.get_object(Bucket=bucket, Key=results_key(id, file.name))["Body"]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as content:
                for chunk in body.iter_chunks(1 << 20):
                    if content.tell() + len(chunk) > file.size:
                        grown = "longer than the bucket listed it, as where a run still measures"
                        raise DeploymentError(f"{path}: refused: {grown}: try again")
                    content.write(chunk)
            os.utime(draft, (file.changed.timestamp(),) * 2)
            draft.replace(path)
        except OSError as error:
            raise DeploymentError(f"{path}: cannot be written: {error.strerror}") from None
