"""``python -m experiment schema`` prints the JSON Schema; ``check FILE...`` validates files."""

from __future__ import annotations

import argparse
import json
import sys

from experiment import Experiment, ExperimentError, load


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
    arguments = parser.parse_args()
    if arguments.command == "schema":
        print(json_schema(), end="")
        return 0
    return max(_check(file) for file in arguments.files)


def _check(file: str) -> int:
    try:
        experiment = load(file)
    except ExperimentError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{file}: {experiment.name} is valid")
    return 0


if __name__ == "__main__":
    sys.exit(main())
