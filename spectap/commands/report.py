"""``report [RUN_DIR]``: draws the table and the report of a run again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spectap import config as configuration
from spectap.commands.arguments import recorded, results_folder
from spectap.errors import RunError
from spectap.names import CONFIG, RUN_ID

if TYPE_CHECKING:
    from spectap.report.results import Results


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "run_dir",
        type=recorded,
        nargs="?",
        metavar="RUN_DIR",
        help="a folder, or its name in results/ (default: the newest there)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Draws; returns the exit status. Raises RunError, and what reading the folder raises."""
    draw(arguments.run_dir or _newest(results_folder()))
    return 0


def _newest(results: Path) -> Path:
    """The run that was begun or brought home last. Raises RunError."""
    runs = {path.parent for path in results.glob(f"*/{CONFIG}")}
    refused = sorted(path.name for path in runs if not RUN_ID.fullmatch(path.name))
    for name in refused:
        print(f"spectap: {results}/: {name!a} is no name of a run: left out", file=sys.stderr)
    named = [path for path in runs if path.name not in refused]
    if not named:
        raise RunError(f"{results}/: there is no run")
    return max(named, key=lambda path: path.stat().st_mtime)


def draw(folder: Path) -> None:
    """Prints the table of the run in ``folder`` and writes its report."""
    # Without these two, a mistyped name would come out as an empty run.
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder}: is not the folder of a run: it has no {CONFIG}")
    if configuration.read(folder / CONFIG).offline:
        _draw_jobs(folder)
        return
    # Imported here because they bring numpy, which no error needs.
    from spectap.report import results, terminal

    run = results.read(folder)
    terminal.show_run(run)
    print(f"\n{_page(lambda: _write(run))}")


def _draw_jobs(folder: Path) -> None:
    from spectap.report import offline, terminal

    view, config = offline.read(folder)
    terminal.show(view)

    def write() -> Path:
        from spectap.report.page import write_jobs

        return write_jobs(folder, view, config)

    print(f"\n{_page(write)}")


def _write(run: Results) -> Path:
    from spectap.report.page import write_results

    return write_results(run)


def _page(write: Callable[[], Path]) -> str:
    """Writes the page; returns where it is, or what it needs that is not installed."""
    try:
        return f"report: {write()}"
    except ModuleNotFoundError as missing:
        return f"no report: it needs {missing.name}: pip install 'spectap[report]'"
