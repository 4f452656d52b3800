"""Commands on experiment files; ``python -m experiment --help`` lists them."""

import argparse
import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

from experiment import Experiment, ExperimentError, load
from experiment.add_model import add_model
from experiment.cost.printout import page
from experiment.notes import notes

_COMMANDS: Final = {
    "check": "validate files, and note what may surprise",
    "cost": "print what it costs by hour, by stage and in all",
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
            print(_text(arguments.command, path))
        except ExperimentError as error:
            print(error, file=sys.stderr)
            status = 1
    return status


def _text(command: str, path: str) -> str:
    if command == "add-model":
        return add_model(Path(path))
    experiment = load(path)
    if command == "cost":
        return page(experiment, path, shutil.get_terminal_size((100, 24)).columns).rstrip()
    lines = (f"{experiment.name} is valid", *notes(experiment))
    return "\n".join(f"{path}: {line}" for line in lines)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads only the beginning ends this quietly
    sys.exit(main())
