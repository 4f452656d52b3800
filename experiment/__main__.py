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

Printed = Iterator[str]
"""Lines, which are shown once all of them are there."""


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
    for name, (command_help, _) in _OF_FILES.items():
        command = commands.add_parser(name, help=command_help)
        command.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads only the beginning ends this quietly
    match arguments.command:
        case "schema":
            print(json_schema(), end="")
            return 0
        case "modes":
            print(modes(), end="")
            return 0
        case "add-model":
            return max(_show(_added(path, arguments.target)) for path in arguments.paths)
        case of_files:
            _, lines = _OF_FILES[of_files]
            return max(_show(_of_file(lines, file)) for file in arguments.files)


def _show(lines: Printed) -> int:
    """Prints the lines once all of them are there, or the error that ends them."""
    try:
        text = "".join(f"{line}\n" for line in lines)
    except ExperimentError as error:
        print(error, file=sys.stderr)
        return 1
    print(text, end="")
    return 0


def _added(path: str, target: Path | None) -> Printed:
    yield add_model(Path(path), target)


def _of_file(lines: Callable[[Experiment, str], Printed], file: str) -> Printed:
    yield from lines(load(file), file)


def _check(experiment: Experiment, file: str) -> Printed:
    yield f"{file}: {experiment.name} is valid"
    yield from _notes(experiment, file)


def _notes(experiment: Experiment, file: str) -> Printed:
    yield from (f"{file}: {note}" for note in notes(experiment))


def _smoke(experiment: Experiment, file: str) -> Printed:
    yield smoke(experiment, file).rstrip("\n")


def _cost(experiment: Experiment, file: str) -> Printed:
    return page(experiment, file, shutil.get_terminal_size((100, 24)).columns)


_OF_FILES: Final[Mapping[str, tuple[str, Callable[[Experiment, str], Printed]]]] = {
    "check": ("Validate files", _check),
    "notes": ("Print notes on what may surprise", _notes),
    "cost": ("Print what it costs by hour, by stage and in all", _cost),
    "smoke": ("Print a small experiment of the same shape", _smoke),
}


if __name__ == "__main__":
    sys.exit(main())
