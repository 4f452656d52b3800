"""``python -m experiment schema`` prints the JSON Schema; ``check FILE...`` validates files, and
says what they may surprise with; ``notes FILE`` says that alone."""

from __future__ import annotations

import argparse
import json
import sys

from experiment import Experiment, ExperimentError, load
from experiment.notes import notes


def json_schema() -> str:
    """The JSON Schema of an experiment file, as committed beside the experiments."""
    return json.dumps(Experiment.model_json_schema(), indent=2) + "\n"


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m experiment", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("schema", help="print the JSON Schema")
    check = commands.add_parser("check", help="validate experiment files")
    check.add_argument("files", nargs="+", metavar="FILE")
    notes_only = commands.add_parser("notes", help="say what a file may surprise with")
    notes_only.add_argument("files", nargs=1, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.command == "schema":
        print(json_schema(), end="")
        return 0
    verdict = arguments.command == "check"
    return max(_check(file, verdict=verdict) for file in arguments.files)


def _check(file: str, *, verdict: bool) -> int:
    try:
        experiment = load(file)
    except ExperimentError as error:
        print(error, file=sys.stderr)
        return 1
    if verdict:
        print(f"{file}: {experiment.name} is valid")
    for note in notes(experiment):
        print(f"{file}: {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
