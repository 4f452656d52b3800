"""``report RUN_DIR``: draws the table and the report of a run again."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmark.commands.arguments import recorded
from benchmark.errors import RunError
from benchmark.names import CONFIG
from benchmark.printing import print


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "run_dir", type=recorded, metavar="RUN_DIR", help="a folder, or its name in results/"
    )


def main(arguments: argparse.Namespace) -> int:
    """Draws; returns the exit status. Raises RunError, and what reading the folder raises."""
    draw(arguments.run_dir)
    return 0


def draw(folder: Path) -> None:
    """Prints the table of the run in ``folder`` and writes its report."""
    # Without these two, a mistyped name would come out as an empty run.
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder}: is not the folder of a run: it has no {CONFIG}")
    # Imported here because they bring matplotlib, which no error needs.
    from benchmark.report import results, terminal
    from benchmark.report.page import write_results

    run = results.read(folder)
    print(terminal.render_results(run, terminal.terminal_width()))
    print(f"report: {write_results(run)}")
