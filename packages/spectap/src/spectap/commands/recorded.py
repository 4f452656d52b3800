"""The commands that read what was recorded: read, report, advise, compare and merge.

Analysis and report are imported where they are used, so that other commands and errors do not wait
for numpy.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spectap import wording
from spectap.commands.arguments import (
    Command,
    Exit,
    add_json,
    add_markdown,
    add_verbose,
    launch_error,
    recorded_path,
    results_folder,
    threshold,
)
from spectap.errors import ConfigError, JournalError, RunError
from spectap.inputs import config as configuration
from spectap.names import CONFIG, LEDGER, RUN_ID, SUMMARY
from spectap.records.journal import write_whole
from spectap.records.ledger import read_ledger
from spectap.records.record import Record
from spectap.run import sweep
from spectap.wording import printable

if TYPE_CHECKING:
    from spectap.analysis.changes import Run
    from spectap.report.results import Results
    from spectap.report.view import View


def read(arguments: argparse.Namespace) -> int:
    """``read FILE ...``: prints the table of any ledgers.

    FILE is a ledger or a folder with a ledger.jsonl. A ledger with a run's config.json beside it
    gets the table of that run. All other ledgers are read together, as if they were one.
    """
    from spectap.analysis.summarise import summarise_ledgers
    from spectap.report import csv_rows, run_view

    runs, records = _gather(arguments.files)
    if arguments.csv == "requests":
        csv_rows.show(csv_rows.of_requests(chain(*(run.ledger for run in runs), records)))
        return Exit.DONE
    shown = [(run.summary, run_view.of_run(run)) for run in runs]
    if records:
        of_ledgers = summarise_ledgers(records)
        shown.append((of_ledgers, run_view.of_ledgers(of_ledgers)))
    if arguments.csv:
        csv_rows.show(csv_rows.of_cells(summary for summary, _ in shown))
        return Exit.DONE
    for summary, view in shown:
        _show(arguments, summary, view)
        if not (arguments.json or arguments.markdown):
            print()
    return Exit.DONE


def report(arguments: argparse.Namespace) -> int:
    """``report [RUN_DIR]``: draws the table and the report of a run again."""
    results = results_folder()
    runs = [
        path.parent for path in results.glob(f"*/{CONFIG}") if RUN_ID.fullmatch(path.parent.name)
    ]
    if arguments.run_dir is None and not runs:
        raise RunError(f"{results}/: there is no run")
    # By default the run that was begun or downloaded last.
    folder = arguments.run_dir or max(runs, key=lambda path: path.stat().st_mtime)
    draw(folder, verbose=arguments.verbose)
    return 0


def advise(arguments: argparse.Namespace) -> int:
    """``advise RUN``: prints which of the measured windows are as good as the best.

    RUN is the folder of a run, or its name in results/. A run of one window has nothing to compare.
    """
    from spectap.report import results, windows

    _refuse_jobs(arguments.run)
    run = results.read(arguments.run)
    if not run.summary.windows:
        few = "fewer than two windows were measured, so there are none to compare"
        raise RunError(f"{run.folder}: {few}")
    content = {"run": run.summary.run, "windows": run.summary.windows}
    _show(arguments, content, windows.view(run))
    return Exit.DONE


def compare(arguments: argparse.Namespace) -> int:
    """``compare OLD NEW``: says what changed between two runs, and whether it is more than chance.

    A run is a folder, or the name of one in results/. With --fail-below it is a gate: exit status 3
    where tokens per step or a speed-up is surely less than that part of what it was, and where the
    new run does not show what the old one does. Runs with other loads, lengths or test cases are
    not comparable: that is said first, and a gate on them ends with 2.
    """
    old, new = arguments.old, arguments.new
    if old.resolve() == new.resolve():
        raise RunError(f"{new}: is compared with itself")
    from spectap.analysis import compare as comparing
    from spectap.report.changes import of_changes

    error = arguments.launch_error
    compared = comparing.compare(
        _run(old),
        _run(new),
        arguments.fail_below,
        comparing.LAUNCH_ERROR if error is None else error,
    )
    _show(arguments, compared, of_changes(compared))
    return Exit.GATE_FAILED if compared.failed else Exit.DONE


def merge(arguments: argparse.Namespace) -> int:
    """``merge FOLDER``: makes one run of isolated variants.

    FOLDER is a run's folder as it lies in the bucket, with the variants in FOLDER/variants. Those
    that are complete, as is their baseline, become one run, which ``report`` and ``read`` can read.
    """
    folder: Path = arguments.folder
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    return 0 if merge_folder(folder).complete else 1


def _show(arguments: argparse.Namespace, content: object, view: View) -> None:
    """Prints a result as JSON, as Markdown or for a terminal, of which a command may lack two."""
    from spectap.analysis.summary import to_json
    from spectap.report import markdown, terminal

    given = vars(arguments)
    if given["json"]:
        print(to_json(content), end="")
    elif given.get("markdown"):
        print(markdown.text(view), end="")
    else:
        terminal.show(view, verbose=given.get("verbose", False))


def _add_advise_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=recorded_path, metavar="RUN")
    add_json(parser.add_argument)


def _add_compare_options(parser: argparse.ArgumentParser) -> None:
    for side in ("old", "new"):
        parser.add_argument(side, type=recorded_path, metavar=side.upper(), help=f"the {side} run")
    subject = (
        "the assumed standard deviation between launches of a server, such as 0.05, for runs with "
        "fewer than three launches, which do not show it (default: 0.03)"
    )
    parser.add_argument("--launch-error", type=launch_error, metavar="PART", help=subject)
    subject = "the least ratio of new to old tokens per step and speed-ups, such as 0.95"
    parser.add_argument("--fail-below", type=threshold, metavar="RATIO", help=subject)
    form = parser.add_mutually_exclusive_group()
    add_json(form.add_argument)
    add_markdown(form.add_argument)


def _add_merge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="such as results/RUN_ID")


def _add_read_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    add_verbose(parser.add_argument)
    form = parser.add_mutually_exclusive_group()
    add_json(form.add_argument)
    add_markdown(form.add_argument)
    subject = "prints the requests, or the cells, as CSV in place of the table"
    form.add_argument("--csv", choices=("requests", "cells"), help=subject)


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    subject = "a folder, or its name in results/ (default: the newest there)"
    parser.add_argument("run_dir", type=recorded_path, nargs="?", metavar="RUN_DIR", help=subject)
    add_verbose(parser.add_argument)


COMMANDS: Final = {
    "merge": Command(merge, _add_merge_options),
    "report": Command(report, _add_report_options),
    "advise": Command(advise, _add_advise_options),
    "compare": Command(compare, _add_compare_options),
    "read": Command(read, _add_read_options),
}


def draw(folder: Path, *, verbose: bool = False) -> None:
    """Prints the table of the run in ``folder`` and writes its report.

    Raises RunError, and what reading the folder raises.
    """
    # Without these two, a mistyped name would come out as an empty run.
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    jobs = _are_jobs(folder)
    from spectap.analysis.summary import to_json
    from spectap.report import offline, results, run_view, terminal

    if jobs:
        view, config = offline.read(folder)
    else:
        run = results.read(folder)
        view = run_view.of_run(run)
    terminal.show(view, verbose=verbose)
    if not jobs:
        write_whole(folder / SUMMARY, [to_json(run.summary).encode()])
    try:
        from spectap.report import page

        path = page.write_jobs(folder, view, config) if jobs else page.write_results(run)
        print(f"\nreport: {path}")
    except ModuleNotFoundError as missing:
        print(f"\nno report: it needs {missing.name}: pip install 'spectap[report]'")


def merge_folder(folder: Path) -> sweep.Merged:
    """Merges, and prints which variants are in the run. Raises what ``sweep.merge`` raises."""
    merged = sweep.merge(folder)
    every = len(merged.complete) + len(merged.missing)
    print(f"merged: {len(merged.complete)} of {wording.count(every, 'variant')}")
    for sentence in merged.sentences:
        print(printable(sentence))
    return merged


def _gather(paths: Iterable[Path]) -> tuple[list[Results], list[Record]]:
    """The runs among the paths, and the requests of all other ledgers.

    Raises JournalError and ConfigError, and RunError for a run of jobs.
    """
    from spectap.report import results

    runs: list[Results] = []
    records: list[Record] = []
    for path in paths:
        ledger = path / LEDGER if path.is_dir() else path
        folder = ledger.parent
        is_run = ledger.name == LEDGER and (folder / CONFIG).exists()
        if path.is_dir() and (path / CONFIG).exists():
            _refuse_jobs(path)
        requests = _requests(ledger)
        try:
            if is_run:
                runs.append(results.read(folder))
                continue
        except ConfigError:
            # A file of this name lies in folders of other kinds, too, such as a model's.
            if path.is_dir():
                raise
        records += requests
    return runs, records


def _requests(ledger: Path) -> list[Record]:
    """The records of a ledger, which must have at least one. Raises JournalError."""
    try:
        ledger.stat()  # the ledger of a run may be missing, but not one that was asked for
        records = read_ledger(ledger)
    except OSError as error:
        raise JournalError(f"{ledger}: cannot be read: {error.strerror}") from None
    if not records:
        raise JournalError(f"{ledger}: has no request")
    return records


def _run(folder: Path) -> Run:
    _refuse_jobs(folder)
    from spectap.analysis.changes import Run
    from spectap.report import results

    run = results.read(folder)
    return Run(folder.name or folder.resolve().name, run.config, run.records, run.summary)


def _refuse_jobs(folder: Path) -> None:
    """Raises RunError for a run of jobs, which has no requests, and what ``_are_jobs`` raises."""
    if _are_jobs(folder):
        raise RunError(f"{folder}: its variants ran as jobs, which only report reads")


def _are_jobs(folder: Path) -> bool:
    """Whether the variants of a run ran as jobs. Raises RunError where there is no run."""
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder}: is not the folder of a run: it has no {CONFIG}")
    return configuration.read(folder / CONFIG).offline
