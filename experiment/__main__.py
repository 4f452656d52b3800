"""Commands on experiment files; ``python -m experiment --help`` lists them."""

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiment import Experiment, ExperimentError, load
from experiment.add_model import add_model
from experiment.cost.page import page
from experiment.notes import notes
from experiment.smoke import smoke_experiment

_COMMANDS: Final = {
    "check": "validate files",
    "notes": "print notes on what may surprise",
    "cost": "print what it costs by hour, by stage and in all",
    "smoke": "print a small experiment of the same shape",
    "add-model": "print the architecture of the models in these folders, or of their config.json",
    "schema": "print the JSON Schema",
}


def json_schema() -> str:
    """The JSON Schema of an experiment file, as committed beside the experiments."""
    return json.dumps(Experiment.model_json_schema(), indent=2) + "\n"


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m experiment", description="Experiment files.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command_help in _COMMANDS.items():
        command = commands.add_parser(name, help=command_help)
        if name != "schema":
            command.add_argument("paths", nargs="+", metavar="PATH")
    arguments = parser.parse_args()
    if arguments.command == "schema":
        print(json_schema(), end="")
        return 0
    status = 0
    for path in arguments.paths:
        try:
            # All of them before the first is shown, or the error that ends them.
            lines = [*_lines(arguments.command, path)]
        except ExperimentError as error:
            print(error, file=sys.stderr)
            status = 1
        else:
            print("".join(f"{line}\n" for line in lines), end="")
    return status


def _lines(command: str, path: str) -> Iterator[str]:
    if command == "add-model":
        yield add_model(Path(path))
        return
    experiment = load(path)
    match command:
        case "cost":
            yield page(experiment, path, shutil.get_terminal_size((100, 24)).columns).rstrip()
        case "smoke":
            yield smoke_experiment(experiment, path).rstrip("\n")
        case _:
            if command == "check":
                yield f"{path}: {experiment.name} is valid"
            yield from (f"{path}: {note}" for note in notes(experiment))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads only the beginning ends this quietly
    sys.exit(main())
