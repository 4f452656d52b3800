"""Measures speculative decoding of OpenAI-compatible servers: spectap COMMAND --help.

Exit status: 0 all is well; 1 something failed, which the last lines name, and the rest is kept;
2 it cannot do what was asked; 3 a comparison's gate failed; 69 the server of an index never served;
75 restart the servers, and run the same command again; 128 + n ended by signal n.
"""

import argparse
import inspect
import os
import re
import signal
import sys
from itertools import takewhile
from typing import Any, Final, NoReturn

from typing_extensions import override

from spectap.commands import demo, measure, pod, recorded, tap
from spectap.errors import SpectapError
from spectap.printing import printable

_COMMANDS: Final = {
    **pod.COMMANDS,
    **recorded.COMMANDS,
    "demo": demo.COMMAND,
    "measure": measure.COMMAND,
    "tap": tap.COMMAND,
}

_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]*")


class _Parser(argparse.ArgumentParser):
    """Refuses what it cannot parse in one line."""

    @override
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


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
    parser = _Parser(
        prog="spectap",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_CommandParser)
    for name, command in _COMMANDS.items():
        description = inspect.getdoc(command.main) or ""
        subparser = commands.add_parser(
            name,
            help=description.partition(": ")[2].partition("\n")[0],
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
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
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("spectap: ended by SIGINT", file=sys.stderr)
        return 128 + signal.SIGINT
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"spectap: {printable(f'{place}{error.strerror or error}')}", file=sys.stderr)
        return 2
    except SpectapError as error:
        for line in str(error).split("\n"):
            print(f"spectap: {printable(line)}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
