"""What is made once and stays in the bucket: checkpoints, and compiled graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubernetes.client import ApiClient, V1Job

from deployment import guard, nodes, objects, pods
from deployment.bucket import Bucket, checkpoints, graphs
from deployment.cluster import connected
from deployment.nodes import Kind
from deployment.stages.nodes import not_ready, why_no_nodes
from deployment.stages.stage import Progress, Stage, StageFailed
from experiment.hardware import compile_nodes
from experiment.schema import CompileNode


class _Prepare(Stage):
    """By the Jobs of one step, which mark in the bucket what they have made."""

    def existing(self) -> str | None:
        """Asks the bucket."""
        missing = Bucket(self.deployment).incomplete(self._wanted)
        return None if missing else self._made

    def perform(self, progress: Progress) -> str:
        """Waits until everything is marked."""
        with connected(self.deployment) as api:
            self._await(api, progress)
        return self._made

    @property
    def _wanted(self) -> Sequence[str]:
        """Prefixes in the bucket."""
        raise NotImplementedError

    @property
    def _made(self) -> str:
        raise NotImplementedError

    def _await(self, api: ApiClient, progress: Progress) -> None:
        """Where a Job has failed it says so, waits for the others, and raises StageFailed."""
        self._revive(api, progress)
        bucket, given_up = Bucket(self.deployment), dict[str, str]()

        def look() -> bool | None:
            missing = bucket.incomplete(self._wanted)
            if not missing:
                return True
            jobs = objects.jobs(api, f"step={self.name}")
            for job in jobs:
                name, reason = job.metadata.name, objects.failure(job)
                if reason and name not in given_up:
                    given_up[name] = f"{name} failed: {reason}"
                    last = objects.pods_of(api, job)[-1:]
                    words = (pods.last_words(api, pod) for pod in last)
                    progress.say("\n".join([given_up[name], *words]))
            if given_up and all(map(_is_over, jobs)):
                return False
            complete = len(self._wanted) - len(missing)
            made = f"{complete} of {len(self._wanted)} are in the bucket"
            progress.wait("; ".join([made, *self._waiting(api)]))
            return None

        if not progress.until(look):
            raise StageFailed("\n".join(given_up.values()))

    def _revive(self, api: ApiClient, progress: Progress) -> None:
        """Makes Jobs anew that an earlier attempt has left failed."""
        for job in objects.jobs(api, f"step={self.name}"):
            if objects.failure(job):
                progress.say(f"{job.metadata.name} has failed, and begins again")
                objects.replace(api, job)

    def _waiting(self, api: ApiClient) -> Iterator[str]:
        """What the pods wait for."""
        yield from not_ready(api, f"step={self.name}")


class Download(_Prepare):
    """The checkpoints, which pass through a CPU node."""

    name = "download"

    @property
    def _wanted(self) -> Sequence[str]:
        return checkpoints(self.deployment.experiment)

    @property
    def _made(self) -> str:
        return f"checkpoints: {len(self._wanted)}"


class Compile(_Prepare):
    """The graphs, on nodes that run only for that long unless they are the Trainium nodes."""

    name = "compile"

    def existing(self) -> str | None:
        """Asks the bucket. Nodes that an earlier attempt has left are no part of it."""
        made = super().existing()
        if made:
            self._end()
        return made

    def perform(self, progress: Progress) -> str:
        """Ends its nodes, unless it is interrupted."""
        missing = len(Bucket(self.deployment).incomplete(self._wanted))
        with connected(self.deployment) as api:
            self._revive(api, progress)
            if self._has_nodes:
                size = compile_nodes(missing)
                until = guard.start(self.deployment, Kind.COMPILE, size)
                progress.say(f"CPU nodes: {size}, until {until.at:%Y-%m-%d %H:%M} UTC")
            try:
                self._await(api, progress)
            except StageFailed:
                self._end()
                raise
        self._end()
        return self._made

    @property
    def _wanted(self) -> Sequence[str]:
        return graphs(self.deployment.experiment)

    @property
    def _made(self) -> str:
        return f"graphs: {len(self._wanted)}"

    @property
    def _has_nodes(self) -> bool:
        """Whether there are nodes that only compile."""
        return self.deployment.experiment.compile_node is CompileNode.CPU

    def _end(self) -> None:
        if self._has_nodes:
            guard.stop(self.deployment, Kind.COMPILE)

    def _waiting(self, api: ApiClient) -> Iterator[str]:
        """Where there is no node for the pods, why not."""
        if self._has_nodes:
            group = nodes.find(self.deployment, Kind.COMPILE)
            if group and not group.size:
                raise StageFailed("the compile nodes were scaled to 0, by hand or the guard")
            yield from why_no_nodes(self.deployment, group)
        yield from super()._waiting(api)


def _is_over(job: V1Job) -> bool:
    conditions = job.status.conditions or []
    ended = {condition.type for condition in conditions if condition.status == "True"}
    return bool(ended & {"Complete", "Failed"})
