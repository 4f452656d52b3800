"""Measures speculative decoding of OpenAI-compatible servers: spectap COMMAND --help."""

import argparse
import inspect
import os
import re
import signal
import sys
from itertools import takewhile
from typing import Any, Final, NoReturn

from typing_extensions import override

import spectap
from spectap.commands import demo, measure, pod, recorded, tap
from spectap.commands.arguments import Exit
from spectap.errors import SpectapError
from spectap.wording import printable

_COMMANDS: Final = {
    **pod.COMMANDS,
    **recorded.COMMANDS,
    "demo": demo.COMMAND,
    "measure": measure.COMMAND,
    "tap": tap.COMMAND,
}

_EXIT: Final = "\n".join(("exit status:", *(f"  {each:<3} {each.meaning}" for each in Exit)))
_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]*")


class _Parser(argparse.ArgumentParser):
    """Refuses what it cannot parse in one line."""

    @override
    def error(self, message: str) -> NoReturn:
        self.exit(Exit.REFUSED, f"{self.prog}: {message} (--help lists the options)\n")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with the default of each option that has one, unless its text says it."""

    @override
    def _get_help_string(self, action: argparse.Action) -> str | None:
        value, text = action.default, action.help or ""
        said = value is False or value in (None, argparse.SUPPRESS, (), [], {}) or "default" in text
        return text if said else f"{text} (default: %(default)s)"


class _CommandParser(_Parser):
    """Names an unknown option before argparse refuses its value as something else."""

    @override
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        for text in takewhile("--".__ne__, args):
            option = text.partition("=")[0]
            if _OPTION.fullmatch(option) and option not in self._option_string_actions:
                self.error(f"unknown option {option}")
        return super().parse_known_args(args, namespace)


def main() -> int:
    """Runs one command; returns the exit status."""
    parser = _Parser(prog="spectap", description=__doc__, epilog=_EXIT, formatter_class=_Help)
    parser.add_argument("--version", action="version", version=f"spectap {spectap.__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_CommandParser
    )
    for name, command in _COMMANDS.items():
        description = inspect.getdoc(command.main) or ""
        summary = description.partition(": ")[2].partition("\n")[0]
        listed: dict[str, Any] = {} if command.internal else {"help": summary}
        subparser = commands.add_parser(
            name,
            **listed,
            description=description,
            epilog=_EXIT,
            formatter_class=_Help,
            allow_abbrev=False,
        )
        command.add_options(subparser)
        subparser.set_defaults(main=command.main)
    arguments = parser.parse_args()
    try:
        status: int = arguments.main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output, such as head, has ended. What was measured is on the disk.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        print("spectap: ended by SIGINT", file=sys.stderr)
        return Exit.SIGNAL + signal.SIGINT
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"spectap: {printable(f'{place}{error.strerror or error}')}", file=sys.stderr)
        return Exit.REFUSED
    except SpectapError as error:
        for line in str(error).split("\n"):
            print(f"spectap: {printable(line)}", file=sys.stderr)
        return Exit.REFUSED
    return status


if __name__ == "__main__":
    sys.exit(main())
