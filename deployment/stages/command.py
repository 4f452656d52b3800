"""The commands ``experiment``, ``start`` and ``stop``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable

from deployment import guard
from deployment.console import Console
from deployment.errors import DeploymentError
from deployment.nodes import Kind
from deployment.place import Place
from deployment.preflight.file import NOBODY_IS_TOLD
from deployment.spent import spent
from deployment.stages import runs
from deployment.stages.failure import end_nodes
from deployment.stages.order import stages
from deployment.stages.prove import Prove
from deployment.stages.shown import Shown
from deployment.stages.stage import Stage, StageFailed, Way
from deployment.stages.standing import screen
from deployment.stages.start import Start
from experiment.cost import cost
from experiment.cost.standing import ALWAYS
from experiment.limits import guard_hours
from experiment.schema import Then
from spectap.printing import printable_lines

_SHOW_THEMSELVES = frozenset({"deploy", "results"})
"""Stages that run a program which writes to the terminal itself."""


def experiment(place: Place, *, yes: bool, again: bool) -> int:
    """From the file to the verdict; returns the exit status. Raises DeploymentError."""
    way = Way(place, again)
    return _left_in_order(way, lambda: _go(way, yes=yes))


def _go_or_end_nodes(way: Way, go: Callable[[], None]) -> None:
    """After a stage that failed, nodes are of use only to somebody who looks at them."""
    try:
        go()
    except StageFailed as error:
        keeps = way.place.experiment.capacity.after_failure is Then.KEEP
        if keeps and sys.stdin.isatty():
            raise
        print(printable_lines(str(error)), file=sys.stderr, flush=True)
        raise DeploymentError(end_nodes(way.place)) from None


def start(place: Place, *, yes: bool) -> int:
    """Trainium nodes and their guard, for those who measure by hand; returns the exit status.

    Raises DeploymentError.
    """
    way, capacity = Way(place), place.experiment.capacity
    usd = capacity.nodes * capacity.price.usd_per_hour
    asked = f"{usd:.2f} USD an hour, for {guard_hours(place.experiment):.1f} hours at most"

    def go() -> None:
        _ask(f"{capacity.nodes} x {capacity.instance_type}: {asked}", yes=yes)
        console = Console(2, sys.stdout)
        for stage in (Prove(way), Start(way)):
            _perform(stage, console, place, needless=None)

    return _left_in_order(way, go)


def stop(place: Place) -> int:
    """Both groups to 0, now; returns the exit status. Raises DeploymentError."""
    print(place.headline, flush=True)
    for kind in Kind:
        if guard.stop(place, kind):
            print(f"{kind} nodes: scaled to 0, confirmed by EKS", flush=True)
    found = spent(place)
    print(f"{found.amount} so far. What still costs, by the hour:")
    for part in found.parts:
        ending = ", until it has ended" if part.standing not in ALWAYS else ""
        if part.now:
            print(f"  {part.standing}: {part.usd_per_hour:.2f} USD{ending}")
    print(f"To remove all: make destroy EXPERIMENT={place.file}")
    return 0


def _left_in_order(way: Way, go: Callable[[], None]) -> int:
    """On early exit, says what still runs; returns the exit status."""
    for ends in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, signal.default_int_handler)
    print(way.place.headline, flush=True)
    try:
        _go_or_end_nodes(way, go)
    except KeyboardInterrupt:
        _print(["", "Ended. What was begun goes on without this terminal."])
        _print(screen(*_named(way)))
        return 130
    except DeploymentError as error:
        print(printable_lines(str(error)), file=sys.stderr, flush=True)
        _print(screen(*_named(way)))
        return 1
    return 0


def _named(way: Way) -> tuple[Place, bool]:
    """Whoever goes on once the new run has begun wants that one, and not another."""
    return way.place, way.again and not _has_begun_anew(way.place)


def _has_begun_anew(place: Place) -> bool:
    try:
        return runs.measured(Way(place)) is None
    except (DeploymentError, KeyboardInterrupt):
        return False


def _go(way: Way, *, yes: bool) -> None:
    place, every = way.place, stages(way)
    console = Console(len(every), sys.stdout)
    run = runs.measured(way)
    asked = run is not None
    if run and way.again:
        other = "sweep.run" if place.experiment.sweep else "load, such as benchmark.rounds,"
        raise DeploymentError(
            f"run {run} is complete, and its variants are not measured twice: another {other} "
            "makes another run"
        )
    for stage in every:
        if stage.costs and run is None:
            # One that an earlier call began may end unattended, and its end stops the nodes: they
            # are not to be started again for it.
            run = runs.measured(way)
            asked = asked or run is not None
        if stage.costs and not asked:
            _ask(_estimate(place), yes=yes)
            asked = True
        needless = f"not needed: run {run} is complete" if run and stage.costs else None
        _perform(stage, console, place, needless)


def _perform(stage: Stage, console: Console, place: Place, needless: str | None) -> None:
    with console.stage(stage.name, shows_itself=stage.name in _SHOW_THEMSELVES) as line:
        found = needless or stage.there()
        line.found = found or stage.perform(Shown(console, line))
        if needless is None and (usd := _so_far(place)):
            line.found += f", {usd}"


def _so_far(place: Place) -> str:
    """What was spent until now; nothing where that cannot be asked."""
    try:
        return f"{spent(place).amount} so far"
    except DeploymentError:
        return ""


def _estimate(place: Place) -> str:
    whole = cost(place.experiment)
    return (
        f"The whole way costs {whole.amount} in {whole.hours:.1f} hours by estimate, and less "
        f"where something is there already (make cost EXPERIMENT={place.file})"
        + ("" if place.experiment.alerts.emails else f"\nWarning: {NOBODY_IS_TOLD}")
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


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)
