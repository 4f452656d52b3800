"""``advise RUN ...``: prints which draft and window to serve, and what that rests on.

RUN is the folder of a run, or its name in results/; advice.json is written into it, and where the
command fails an earlier one stays as it is. Ledgers without a run's config.json are read together,
as if they were one; the first variant is the baseline, and nothing is predicted.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spectap.commands.arguments import recorded, shares
from spectap.commands.read import gather
from spectap.errors import RunError
from spectap.names import ADVICE

if TYPE_CHECKING:
    from spectap.report.results import Results


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("runs", type=recorded, nargs="+", metavar="RUN")
    parser.add_argument(
        "--mix",
        type=shares,
        metavar="CLASS=SHARE,...",
        help="each class's share of your output tokens, such as structured=0.7,open-ended=0.3; "
        "they add up to 1, and classes that are not named have none (default: as the baseline "
        "answered)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Advises; returns the exit status. Raises ConfigError, JournalError and RunError."""
    # Imported here: numpy takes a while, which no other command should wait for.
    from spectap.report import ledger_advice, run_view, terminal
    from spectap.report.advice import terminal_view

    runs, records = gather(arguments.runs)
    for run in runs:
        _advise(run, arguments.mix)
    if records:
        advice = ledger_advice.advise(records, arguments.mix)
        if advice is None:
            raise RunError(f"the ledgers: {_NOTHING}")
        terminal.show(terminal_view(advice, run_view.of_ledgers(records).title, None))
    return 0


_NOTHING = (
    "no variant that speculates has a verdict and shows its steps, so there is nothing to advise on"
)


def _advise(run: Results, mix: Mapping[str, float] | None) -> None:
    from spectap.report import terminal
    from spectap.report.advice import run_heading, terminal_view

    advice = run.advise(mix)
    if advice is None:
        raise RunError(f"{run.folder}: {_NOTHING}")
    path = run.folder / ADVICE
    path.write_text(advice.to_json(), encoding="utf-8")
    terminal.show(terminal_view(advice, run_heading(run), run.config.stand_in))
    print(f"\nadvice: {path}")
