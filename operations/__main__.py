"""``python -m operations COMMAND``: an experiment in an account."""

import argparse
import importlib
import os
import sys
from typing import Final

from experiment import ExperimentError
from operations.account import Deployment, DeploymentError
from spectap.wording import printable_lines

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""


def main() -> int:
    """Run the command line; returns the exit status."""
    options = vars(_parser().parse_args())
    command = options.pop("run")
    module, function = command.split(":")
    try:
        file = options.pop("experiment")
        # Each command imports only what it needs: the CDK and Kubernetes' client take seconds.
        run = getattr(importlib.import_module(f"operations.{module}"), function)
        # These say or write what they can without an account, too.
        needs_account = command not in ("preflight:run", "lifecycle:synth")
        status: int = run(Deployment.of(file) if needs_account else file, **options)
    except KeyboardInterrupt:  # the CLI has said what it leaves
        return INTERRUPTED
    except (DeploymentError, ExperimentError) as error:
        print(printable_lines(str(error)), file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m operations", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: str, help: str, *, asks: bool = False) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help)
        added.add_argument("--experiment", required=True, metavar="FILE")
        if asks:
            added.add_argument("--yes", action="store_true", help="do not ask")
        added.set_defaults(run=run)
        return added

    command("preflight", "preflight:run", "say what would stand in the way; creates nothing")
    synth = command("synth", "lifecycle:synth", "write what would be deployed")
    synth.add_argument("--account", default="none", help="12 digits, or none: for any account")
    command("bootstrap", "lifecycle:bootstrap", "prepare the account's regions for the CDK")
    deploy = command("deploy", "lifecycle:deploy", "create the stacks, or change them", asks=True)
    deploy.add_argument("stacks", nargs="*", metavar="STACK", help="all by default")
    help = "from the file to the verdict, in stages"
    whole = command("experiment", "stages:experiment", help, asks=True)
    whole.add_argument("--again", action="store_true", help="measure anew")
    command("start", "stages:start", "start the Trainium nodes, guarded", asks=True)
    command("stop", "stages:stop", "scale all groups to 0, now")
    command("status", "status:show", "say how everything is, on one screen")
    logs = command("logs", "pods:show_logs", "print the logs of what runs")
    logs.add_argument(
        "--of", dest="name", metavar="NAME", help="a service, a Job, a step or a pod instead"
    )
    runs = command("results", "results:show", "list the runs in the bucket, or download one")
    runs.add_argument("--run", dest="run_id", metavar="ID", help="its id, or how it begins")
    destroy = command("destroy", "removal:destroy", "delete the stacks that exist", asks=True)
    destroy.add_argument("--keep", choices=["results", "none"], default="results")
    destroy.add_argument("--name", help="with --keep none: the experiment's, instead of asking")
    roles = command(
        "delivery", "lifecycle:make_delivery", "make the roles of GitHub's workflows", asks=True
    )
    roles.add_argument("--remove", action="store_true", help="remove them")
    changes = command("changes", "lifecycle:compare", "compare with what is deployed")
    changes.add_argument("--json", dest="file", metavar="FILE", help="for a pull request")
    return parser


if __name__ == "__main__":
    status = main()
    if status == INTERRUPTED:
        # Ctrl-C has ended the CDK's own process, too, and jsii says goodbye to it with a traceback.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
