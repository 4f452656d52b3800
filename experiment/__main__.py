"""Commands on experiment files.

``python -m experiment check FILE...`` validates files and prints notes on them; ``notes FILE``
prints only the notes; ``cost FILE`` prints what it costs, with its formulas; ``smoke FILE`` prints
a small experiment of the same shape; ``add-model PATH...`` prints what an experiment file must say
about downloaded models; ``modes`` prints the tables of docs/modes.md; ``schema`` prints the JSON
Schema.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from experiment import Experiment, ExperimentError, load
from experiment.add_model import add_model
from experiment.cost.page import page
from experiment.modes import modes
from experiment.notes import notes
from experiment.smoke import smoke

Command = Callable[[Experiment, str], Iterator[str]]


def json_schema() -> str:
    """The JSON Schema of an experiment file, as committed beside the experiments."""
    return json.dumps(Experiment.model_json_schema(), indent=2) + "\n"


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m experiment", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("schema", help="print the JSON Schema")
    commands.add_parser("modes", help="print who runs which mode, and how, in Markdown")
    adding = commands.add_parser("add-model", help="print the architecture of downloaded models")
    adding.add_argument("paths", nargs="+", metavar="PATH", help="a folder, or its config.json")
    adding.add_argument("--target", type=Path, help="folder of the target of Medusa heads")
    for name, does in _COMMANDS.items():
        command = commands.add_parser(name, help=(does.__doc__ or "").rstrip("."))
        command.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads only the beginning ends this quietly
    if arguments.command == "schema":
        print(json_schema(), end="")
        return 0
    if arguments.command == "modes":
        print(modes(), end="")
        return 0
    if arguments.command == "add-model":
        return max(_do(_added(path, arguments.target)) for path in arguments.paths)
    chosen = _COMMANDS[arguments.command]
    return max(_do(_of_file(chosen, file)) for file in arguments.files)


def _of_file(command: Command, file: str) -> Iterator[str]:
    yield from command(load(file), file)


def _added(path: str, target: Path | None) -> Iterator[str]:
    yield add_model(Path(path), target)


def _do(printed: Iterator[str]) -> int:
    """Prints the lines once all of them are there, or the error that ends them."""
    try:
        lines = [*printed]
    except ExperimentError as error:
        print(error, file=sys.stderr)
        return 1
    for line in lines:
        print(line)
    return 0


def _check(experiment: Experiment, file: str) -> Iterator[str]:
    """Validate files."""
    yield f"{file}: {experiment.name} is valid"
    yield from _notes(experiment, file)


def _notes(experiment: Experiment, file: str) -> Iterator[str]:
    """Print notes on what may surprise."""
    yield from (f"{file}: {note}" for note in notes(experiment))


def _smoke(experiment: Experiment, file: str) -> Iterator[str]:
    """Print a small experiment of the same shape."""
    yield smoke(experiment, file).rstrip("\n")


def _cost(experiment: Experiment, file: str) -> Iterator[str]:
    """Print what it costs by hour, by stage and in all."""
    yield from page(experiment, file, shutil.get_terminal_size((100, 24)).columns)


_COMMANDS: Final[Mapping[str, Command]] = {
    "check": _check,
    "notes": _notes,
    "cost": _cost,
    "smoke": _smoke,
}


if __name__ == "__main__":
    sys.exit(main())
