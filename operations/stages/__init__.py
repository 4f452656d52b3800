"""``make experiment``, from the file to the verdict, a stage after another; ``start``; ``stop``."""

import contextlib
import functools
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from experiment.cost import cost, guard_hours, timeline
from experiment.schema import NodeFate
from operations import guard
from operations.account import Deployment, DeploymentError
from operations.console import Console, answer
from operations.nodes import Kind
from operations.stages import measure, nodes, setup
from operations.stages.measure import measured_run
from operations.stages.nodes import Start, end_nodes
from operations.stages.stage import Progress, Stage, StageFailed
from operations.status import print_sections, running
from spectap.wording import printable_lines

_CLASSES: Final[dict[str, type[Stage]]] = {
    member.name: member
    for module in (setup, nodes, measure)
    for member in vars(module).values()
    if isinstance(member, type) and issubclass(member, Stage) and "name" in vars(member)
}


def stages(deployment: Deployment) -> list[Stage]:
    """An experiment's stages, in their order."""
    every = timeline.stages(deployment.experiment)
    return [_CLASSES[stage.name](deployment) for stage in every]


def experiment(deployment: Deployment, *, yes: bool, again: bool) -> int:
    """From the file to the verdict; returns the exit status."""
    perform = functools.partial(_perform_all, deployment, yes=yes, again=again)
    return _report_on_exit(deployment, perform, again=again)


def start(deployment: Deployment, *, yes: bool) -> int:
    """Trainium nodes and their guard, for those who measure by hand; returns the exit status."""
    capacity = deployment.experiment.capacity
    usd, hours = capacity.nodes * capacity.price.usd_per_hour, guard_hours(deployment.experiment)

    def perform() -> None:
        instances = f"{capacity.nodes} x {capacity.instance_type}"
        _ask(f"{instances}: {usd:.2f} USD an hour, for {hours:.1f} hours at most", yes=yes)
        _perform(Start(deployment), Console(1, sys.stdout))

    return _report_on_exit(deployment, perform)


def stop(deployment: Deployment) -> int:
    """Both groups to 0, now; returns the exit status."""
    deployment = deployment.asking_once()
    print(deployment.headline, flush=True)
    for kind in Kind:
        if guard.stop(deployment, kind):
            print(f"{kind} nodes: scaled to 0", flush=True)
    print_sections(running(deployment))
    print(f"To remove all: make destroy EXPERIMENT={deployment.file}")
    return 0


def _perform_all(deployment: Deployment, *, yes: bool, again: bool) -> None:
    every = stages(deployment)
    console = Console(len(every), sys.stdout)
    run = measured_run(deployment, again=again)
    confirmed = run is not None
    if run and again:
        setting = "sweep.run" if deployment.experiment.sweep else "the load, e.g. benchmark.rounds"
        raise DeploymentError(
            f"run {run} is complete; to measure again, change {setting}: that starts another run"
        )
    for stage in every:
        if stage.costs and run is None:
            # One that an earlier call began may end unattended, and its end stops the nodes: they
            # are not to be started again for it.
            with _as_failure(stage):
                run = measured_run(deployment, again=again)
            confirmed = confirmed or run is not None
        if stage.costs and not confirmed:
            estimate = cost(deployment.experiment)
            _ask(
                f"All of it costs {estimate.amount} in {estimate.hours:.1f} hours by estimate, and "
                f"less where something exists already (make cost EXPERIMENT={deployment.file})",
                yes=yes,
            )
            confirmed = True
        if run and stage.costs:
            with console.stage(stage.name, shows_itself=stage.shows_itself) as entry:
                entry.result = f"not needed: run {run} is complete"
        else:
            _perform(stage, console)


def _perform(stage: Stage, console: Console) -> None:
    with console.stage(stage.name, shows_itself=stage.shows_itself) as entry, _as_failure(stage):
        entry.result = stage.existing() or stage.perform(Progress(console, entry))


@contextlib.contextmanager
def _as_failure(stage: Stage) -> Iterator[None]:
    """Turns an unexpected exception into a one-line failure, so that the nodes are ended."""
    try:
        yield
    except DeploymentError:
        raise
    except Exception as error:
        *_, place = traceback.extract_tb(error.__traceback__)
        where = f"{Path(place.filename).name}:{place.lineno}"
        text = " ".join(f"{stage.name}: {type(error).__name__}: {error} ({where})".split())
        raise (StageFailed if stage.costs else DeploymentError)(text) from error


def _ask(question: str, *, yes: bool) -> None:
    print(question, flush=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise DeploymentError("there is no terminal to ask on; YES=1 begins without asking")
    if answer("Go on? [y/N] ").lower() not in ("y", "yes"):
        raise DeploymentError("nothing was begun")


def _report_on_exit(
    deployment: Deployment, perform: Callable[[], None], *, again: bool = False
) -> int:
    """On early exit, prints what still runs; returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    print(deployment.headline, flush=True)
    try:
        _perform_or_end_nodes(deployment, perform)
        return 0
    except KeyboardInterrupt:
        status = 130
        print("\nEnded. What was begun goes on without this terminal.", flush=True)
    except DeploymentError as error:
        status = 1
        print(printable_lines(str(error)), file=sys.stderr, flush=True)
    # What still runs, and how to go on; a second Ctrl-C skips the first.
    file = f"EXPERIMENT={deployment.file}"
    with contextlib.suppress(KeyboardInterrupt):
        print_sections(running(deployment))
    hint = " (AGAIN=1 only if no new run has started)" if again else ""
    print(f"To go on:         make experiment {file}{hint}")
    print(f"To end the nodes: make stop {file}")
    print(f"To remove all:    make destroy {file}", flush=True)
    return status


def _perform_or_end_nodes(deployment: Deployment, perform: Callable[[], None]) -> None:
    """After a stage that failed, nodes are of use only to somebody who looks at them."""
    try:
        perform()
    except StageFailed as error:
        keeps = deployment.experiment.capacity.after_failure is NodeFate.KEEP
        if keeps and sys.stdin.isatty():
            raise
        print(printable_lines(str(error)), file=sys.stderr, flush=True)
        raise DeploymentError(end_nodes(deployment)) from None
