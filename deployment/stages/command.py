"""The commands ``experiment``, ``start`` and ``stop``, and the order of the stages."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator

from deployment import cluster, guard, nodes
from deployment.account import Deployment, DeploymentError
from deployment.cluster import NoCluster, connected
from deployment.console import Console
from deployment.nodes import Kind
from deployment.preflight.software import NOBODY_IS_TOLD
from deployment.spent import spent
from deployment.stages.measure import Benchmark, Results, Serve, measured_run
from deployment.stages.nodes import Start, Stop, end_nodes
from deployment.stages.setup import Check, Compile, Deploy, Download, Prove, Restore
from deployment.stages.stage import Context, Progress, Stage, StageFailed
from experiment.cost import cost, guard_hours
from experiment.cost.prices import ALWAYS
from experiment.schema import CompileNode, Then
from spectap.printing import printable_lines


def stages(context: Context) -> list[Stage]:
    """Those of an experiment, in their order. Trainium nodes run only for those that need them."""
    experiment = context.deployment.experiment
    prepared: tuple[Callable[[Context], Stage], ...] = (Start,)
    if experiment.compile_node:
        on_cpus = experiment.compile_node is CompileNode.CPU
        prepared = (Compile, Start) if on_cpus else (Start, Compile)
    order: list[Callable[[Context], Stage]] = [
        *(Check, Deploy, Prove, Restore, Download),
        *prepared,
        *(() if experiment.isolated else (Serve,)),
        *(Benchmark, Stop, Results),
    ]
    return [stage(context) for stage in order]


def experiment(deployment: Deployment, *, yes: bool, again: bool) -> int:
    """From the file to the verdict; returns the exit status. Raises DeploymentError."""
    context = Context(deployment, again)
    return _left_in_order(context, lambda: _perform_all(context, yes=yes))


def start(deployment: Deployment, *, yes: bool) -> int:
    """Trainium nodes and their guard, for those who measure by hand; returns the exit status.

    Raises DeploymentError.
    """
    context, capacity = Context(deployment), deployment.experiment.capacity
    usd, hours = capacity.nodes * capacity.price.usd_per_hour, guard_hours(deployment.experiment)

    def perform() -> None:
        instances = f"{capacity.nodes} x {capacity.instance_type}"
        _ask(f"{instances}: {usd:.2f} USD an hour, for {hours:.1f} hours at most", yes=yes)
        console = Console(2, sys.stdout)
        for stage in (Prove(context), Start(context)):
            _perform(stage, console)

    return _left_in_order(context, perform)


def stop(deployment: Deployment) -> int:
    """Both groups to 0, now; returns the exit status. Raises DeploymentError."""
    print(deployment.headline, flush=True)
    for kind in Kind:
        if guard.stop(deployment, kind):
            print(f"{kind} nodes: scaled to 0, confirmed by EKS", flush=True)
    costs = spent(deployment)
    print(f"{costs.amount} so far. What still costs, by the hour:")
    for part in costs.parts:
        ending = ", until it has ended" if part.group not in ALWAYS else ""
        if part.running:
            print(f"  {part.group}: {part.usd_per_hour:.2f} USD{ending}")
    print(f"To remove all: make destroy EXPERIMENT={deployment.file}")
    return 0


def _perform_all(context: Context, *, yes: bool) -> None:
    deployment, every = context.deployment, stages(context)
    console = Console(len(every), sys.stdout)
    run = measured_run(context)
    confirmed = run is not None
    if run and context.again:
        setting = "sweep.run" if deployment.experiment.sweep else "load, such as benchmark.rounds,"
        raise DeploymentError(
            f"run {run} is complete, and its variants are not measured twice: another {setting} "
            "makes another run"
        )
    for stage in every:
        if stage.costs and run is None:
            # One that an earlier call began may end unattended, and its end stops the nodes: they
            # are not to be started again for it.
            run = measured_run(context)
            confirmed = confirmed or run is not None
        if stage.costs and not confirmed:
            _ask(_estimate(deployment), yes=yes)
            confirmed = True
        if run and stage.costs:
            with console.stage(stage.name, shows_itself=stage.shows_itself) as entry:
                entry.result = f"not needed: run {run} is complete"
        else:
            _perform(stage, console)


def _perform(stage: Stage, console: Console) -> None:
    with console.stage(stage.name, shows_itself=stage.shows_itself) as entry:
        entry.result = stage.existing() or stage.perform(Progress(console, entry))
        with contextlib.suppress(DeploymentError):  # what cannot be asked is left out
            entry.result += f", {spent(stage.deployment).amount} so far"


def _estimate(deployment: Deployment) -> str:
    estimate = cost(deployment.experiment)
    return (
        f"All of it costs {estimate.amount} in {estimate.hours:.1f} hours by estimate, and less "
        f"where something exists already (make cost EXPERIMENT={deployment.file})"
        + ("" if deployment.experiment.alerts.emails else f"\nWarning: {NOBODY_IS_TOLD}")
    )


def _ask(question: str, *, yes: bool) -> None:
    """Raises DeploymentError unless somebody has agreed."""
    print(question, flush=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise DeploymentError("there is no terminal to ask on; YES=1 begins without asking")
    try:
        answer = input("Go on? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise DeploymentError("nothing was begun")


def _left_in_order(context: Context, perform: Callable[[], None]) -> int:
    """On early exit, prints what still runs; returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    print(context.deployment.headline, flush=True)
    try:
        _perform_or_end_nodes(context.deployment, perform)
        return 0
    except KeyboardInterrupt:
        status = 130
        print("\nEnded. What was begun goes on without this terminal.", flush=True)
    except DeploymentError as error:
        status = 1
        print(printable_lines(str(error)), file=sys.stderr, flush=True)
    # After the new run starts, resuming continues it.
    again = context.again and not _has_begun_anew(context.deployment)
    for line in running(context.deployment, again=again):
        print(printable_lines(line), flush=True)
    return status


def _perform_or_end_nodes(deployment: Deployment, perform: Callable[[], None]) -> None:
    """After a stage that failed, nodes are of use only to somebody who looks at them."""
    try:
        perform()
    except StageFailed as error:
        keeps = deployment.experiment.capacity.after_failure is Then.KEEP
        if keeps and sys.stdin.isatty():
            raise
        print(printable_lines(str(error)), file=sys.stderr, flush=True)
        raise DeploymentError(end_nodes(deployment)) from None


def _has_begun_anew(deployment: Deployment) -> bool:
    try:
        return measured_run(Context(deployment)) is None
    except (DeploymentError, KeyboardInterrupt):
        return False


def running(deployment: Deployment, *, again: bool = False) -> Iterator[str]:
    """What still runs, what it costs, and how to go on; raises nothing of its own.

    Whoever interrupts a part that takes long still gets the rest.
    """
    yield "What is running:"
    for name, ask in (("nodes", _nodes), ("pods", _pods), ("costs", _costs)):
        try:
            yield from (f"  {line}" for line in ask(deployment))
        except DeploymentError as error:
            yield f"  {name}: not known ({error})"
        except KeyboardInterrupt:
            yield f"  {name}: not asked"
    file = f"EXPERIMENT={deployment.file}"
    yield f"To go on:         make experiment {file}{' AGAIN=1' if again else ''}"
    if again:
        yield "                  (AGAIN=1 measures anew: leave it out to take what is complete)"
    yield f"To end the nodes: make stop {file}"
    yield f"To remove all:    make destroy {file}"


def _nodes(deployment: Deployment) -> Iterator[str]:
    groups = [group for group in nodes.groups(deployment) if group.size]
    if not groups:
        yield "no Trainium node and no compile node"
    for group in groups:
        guarded = guard.find(deployment, group.kind)
        if guarded:
            time = f"{guarded.at:%Y-%m-%d %H:%M} UTC, in {guarded.hours:.1f} h"
            end = f"the guard scales them to 0 at {time}"
        elif guard.is_acting(deployment, group.kind):
            end = "the guard is ending them: it asks EKS every 10 minutes"
        else:
            end = "NO GUARD ends them"
        yield f"{group.kind} nodes: {group.size}; {end}"


def _pods(deployment: Deployment) -> Iterator[str]:
    try:
        with connected(deployment) as api:
            jobs = [job.metadata.name for job in cluster.jobs(api) if job.status.active]
            every = cluster.pods(api)
    except NoCluster as error:
        yield str(error)
        return
    if jobs:
        yield f"Jobs under way: {', '.join(jobs)}"
    names = [pod.metadata.name for pod in every if pod.status.phase == "Running"]
    yield f"pods that run: {', '.join(names) or 'none'}"


def _costs(deployment: Deployment) -> Iterator[str]:
    costs = spent(deployment)
    yield f"{costs.amount} so far; {costs.usd_per_hour:.2f} USD an hour now:"
    for part in costs.parts:
        if part.running:
            yield f"  {part.group}: {part.usd_per_hour:.2f} USD an hour"
