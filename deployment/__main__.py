"""``python -m deployment COMMAND``: an experiment in an account."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from deployment import delivery, lifecycle, place, removal
from deployment.errors import DeploymentError
from experiment import ExperimentError, load

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m deployment", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    deploy = commands.add_parser("deploy", help="create the stacks, or change them")
    deploy.add_argument("stacks", nargs="*", metavar="STACK", help="all by default")
    destroy = commands.add_parser("destroy", help="delete the stacks that are there")
    destroy.add_argument("--keep", type=removal.Keep, default=removal.Keep.RESULTS)
    destroy.add_argument("--name", help="with --keep none: the experiment's, instead of asking")
    whole = commands.add_parser("experiment", help="from the file to the verdict, in stages")
    whole.add_argument("--again", action="store_true", help="measure anew")
    start = commands.add_parser("start", help="start the Trainium nodes, and their guard")
    commands.add_parser("stop", help="scale all groups to 0, now")
    commands.add_parser("preflight", help="say what would stand in the way; creates nothing")
    commands.add_parser("bootstrap", help="prepare the account's regions for the CDK")
    commands.add_parser("addons", help="say which add-on versions EKS offers")
    commands.add_parser("status", help="say how everything stands, on one screen")
    log = commands.add_parser("logs", help="print the logs of what goes on")
    log.add_argument("--of", metavar="NAME", help="a service, a Job, a step or a pod instead")
    log.add_argument("--follow", action="store_true", help="go on as they are written")
    home = commands.add_parser("results", help="list the runs in the bucket, or bring one home")
    home.add_argument("--run", metavar="ID", help="its id, or how it begins")
    roles = commands.add_parser("delivery", help="make the roles of GitHub's workflows")
    roles.add_argument("--remove", action="store_true", help="remove them")
    compared = commands.add_parser("changes", help="compare with what is deployed")
    compared.add_argument("--markdown", metavar="FILE", help="for a pull request")
    for command in (deploy, destroy, whole, start, roles):
        command.add_argument("--yes", action="store_true", help="do not ask")
    for command in commands.choices.values():
        command.add_argument("--experiment", required=True, metavar="FILE")
    given = parser.parse_args()
    try:
        return _run(given)
    except KeyboardInterrupt:  # the CLI has said what it leaves
        return INTERRUPTED
    except (DeploymentError, ExperimentError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(given: argparse.Namespace) -> int:
    if given.command in ("experiment", "start", "stop"):
        return _on_the_way(given)
    if given.command in ("status", "logs", "results"):
        return _look(given)
    if given.command in ("preflight", "addons"):
        return _ask(given)
    experiment = load(given.experiment)
    if given.command == "deploy":
        return lifecycle.deploy(experiment, given.experiment, given.stacks, yes=given.yes)
    if given.command == "destroy":
        wanted = removal.Wanted(yes=given.yes, keep=given.keep, name=given.name)
        return removal.destroy(place.find(given.experiment), wanted)
    if given.command == "delivery":
        return delivery.make(place.find(given.experiment), yes=given.yes, remove=given.remove)
    if given.command == "changes":
        return delivery.compare(place.find(given.experiment), given.markdown)
    return lifecycle.bootstrap(experiment, given.experiment)


# These import what they call: the client of Kubernetes and the CDK take seconds to load.


def _on_the_way(given: argparse.Namespace) -> int:
    from deployment.stages import command

    here = place.find(given.experiment)
    if given.command == "experiment":
        return command.experiment(here, yes=given.yes, again=given.again)
    if given.command == "start":
        return command.start(here, yes=given.yes)
    return command.stop(here)


def _look(given: argparse.Namespace) -> int:
    from deployment import logs, results
    from deployment.status import command as status

    here = place.find(given.experiment)
    if given.command == "status":
        return status.show(here)
    if given.command == "logs":
        return logs.show(here, given.of, follow=given.follow)
    return results.show(here, given.run)


def _ask(given: argparse.Namespace) -> int:
    from deployment import addon_versions, preflight

    if given.command == "preflight":
        return preflight.run(given.experiment)
    return addon_versions.compare(load(given.experiment))


if __name__ == "__main__":
    ended = main()
    if ended == INTERRUPTED:
        # Ctrl-C has ended the CDK's own process, too, and jsii says goodbye to it with a traceback.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)
    sys.exit(ended)
