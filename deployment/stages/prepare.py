"""What is made once and kept in the bucket: checkpoints, and compiled graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubernetes.client import ApiClient, V1Job

from deployment import guard, nodes
from deployment.cluster import connected
from deployment.nodes import Kind
from deployment.stages import objects
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed, Way
from deployment.stages.store import Store, checkpoints, graphs
from deployment.stages.waiting import not_ready, why_no_nodes
from experiment.hardware import compile_nodes
from experiment.schema import CompileNode


@dataclass(frozen=True)
class Download:
    """The checkpoints, which pass through a CPU node."""

    way: Way
    name = "download"
    costs = True

    def there(self) -> str | None:
        """Asks the bucket. Raises DeploymentError."""
        wanted = checkpoints(self.way.place.experiment)
        missing = Store(self.way.place).incomplete(wanted)
        return None if missing else _counted(len(wanted), "checkpoint")

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        wanted = checkpoints(self.way.place.experiment)
        with connected(self.way.place) as api:
            await_jobs(self.way, api, shown, "download", wanted)
        return _counted(len(wanted), "checkpoint")


@dataclass(frozen=True)
class Compile:
    """The graphs, on nodes that stand only for that long unless they are the Trainium nodes."""

    way: Way
    name = "compile"
    costs = True

    def there(self) -> str | None:
        """Asks the bucket. Nodes that an earlier attempt has left are no part of it.

        Raises DeploymentError.
        """
        wanted = graphs(self.way.place.experiment)
        if Store(self.way.place).incomplete(wanted):
            return None
        self._end()
        return _counted(len(wanted), "graph")

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        place = self.way.place
        wanted = graphs(place.experiment)
        missing = len(Store(place).incomplete(wanted))
        with connected(place) as api:
            revive(api, shown, "compile")
            if self._own_nodes:
                size = compile_nodes(missing)
                until = guard.start(place, Kind.COMPILE, size)
                shown.say(f"{_counted(size, 'CPU node')}, until {until.at:%Y-%m-%d %H:%M} UTC")
            try:
                await_jobs(self.way, api, shown, "compile", wanted)
            except StageFailed:
                self._end()
                raise
        self._end()
        return _counted(len(wanted), "graph")

    @property
    def _own_nodes(self) -> bool:
        return self.way.place.experiment.compile_node is CompileNode.CPU

    def _end(self) -> None:
        if self._own_nodes:
            guard.stop(self.way.place, Kind.COMPILE)


def await_jobs(way: Way, api: ApiClient, shown: Shown, step: str, wanted: Sequence[str]) -> None:
    """Waits until all of ``wanted`` is marked in the bucket, by the Jobs of one step.

    Where a Job has failed it says so, waits for the others, and raises StageFailed.
    """
    revive(api, shown, step)
    store, given_up = Store(way.place), dict[str, str]()

    def look() -> bool | None:
        missing = store.incomplete(wanted)
        if not missing:
            return True
        found = objects.jobs(api, f"step={step}")
        for job in found:
            if (reason := objects.failed(job)) and job.metadata.name not in given_up:
                given_up[job.metadata.name] = f"{job.metadata.name} failed: {reason}"
                shown.say("\n".join([given_up[job.metadata.name], *_last_words(api, job)]))
        if given_up and all(map(_over, found)):
            return False
        done = f"{len(wanted) - len(missing)} of {len(wanted)} are in the bucket"
        shown.waits("; ".join([done, *_waiting(way, api, step)]))
        return None

    if not shown.until(look):
        raise StageFailed("\n".join(given_up.values()))


def revive(api: ApiClient, shown: Shown, step: str) -> None:
    """Makes Jobs anew that an earlier attempt has left failed. Raises DeploymentError."""
    for job in objects.jobs(api, f"step={step}"):
        if objects.failed(job):
            shown.say(f"{job.metadata.name} has failed, and begins again")
            objects.replace(api, job)


def _over(job: V1Job) -> bool:
    ended = {c.type for c in job.status.conditions or [] if c.status == "True"}
    return bool(ended & {"Complete", "Failed"})


def _last_words(api: ApiClient, job: V1Job) -> Iterator[str]:
    """Of the pod that was the Job's last, where it is still there."""
    pods = objects.pods(api, f"batch.kubernetes.io/job-name={job.metadata.name}")
    if pods:
        yield objects.last_words(api, max(pods, key=lambda pod: pod.metadata.creation_timestamp))


def _waiting(way: Way, api: ApiClient, step: str) -> Iterator[str]:
    """What the pods wait for; where there is no node for them, why not."""
    if step == "compile" and way.place.experiment.compile_node is CompileNode.CPU:
        group = nodes.find(way.place, Kind.COMPILE)
        if group and not group.size:
            raise StageFailed("the compile nodes were scaled to 0 meanwhile, by hand or the guard")
        yield from why_no_nodes(way.place, group)
    yield from not_ready(api, f"step={step}")


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
