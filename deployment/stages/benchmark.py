"""The measurement itself: by one pod of all services, or by a Job of one index a variant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kubernetes.client import ApiClient, CoreV1Api, V1Job, V1Pod

from charts.names import BENCHMARK_POD, NAMESPACE, OFFLINE_JOB, SWEEP_JOB
from deployment.cluster import connected, kubernetes_in_words
from deployment.stages import objects, runs
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed, Way
from deployment.stages.store import Store
from deployment.stages.waiting import nodes_are_gone, not_ready
from spectap.names import COMPLETE, results_key

RESTARTS: Final = 3
"""The benchmark's container begins again where something failed, and measures what is missing."""

_PROGRESS: Final = re.compile(r"^\[(\d+)/(\d+)\] (.*)$", re.MULTILINE)
"""As ``spectap.run.console`` writes it in a log."""
_BAR: Final = 20
_TAIL: Final = 40
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_MADE_AGAIN: Final = "make experiment makes it again, and goes on"
_STOPPED: Final = "the Trainium nodes were scaled to 0 before the run was complete"


@dataclass(frozen=True)
class Benchmark:
    """A complete run in the bucket."""

    way: Way
    name = "benchmark"
    costs = True

    def there(self) -> str | None:
        """Asks the bucket. Raises DeploymentError."""
        run = runs.measured(self.way)
        return f"run {run} is complete" if run else None

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        with connected(self.way.place) as api:
            if self.way.place.experiment.apart:
                run = _Indexes(self.way, api, shown).measured()
            else:
                run = _Services(self.way, api, shown).measured()
        return f"run {run} is complete"


@dataclass
class _Services:
    """The pod that the deploy has made, and that waits for the services."""

    way: Way
    api: ApiClient
    shown: Shown
    restarts: int = 0

    def measured(self) -> str:
        """The run's id, once it is complete."""
        pod = self._pod()
        if pod.status.phase in objects.OVER or self._is_stale(pod):
            self.shown.say(f"{BENCHMARK_POD} begins a new run")
            objects.replace(self.api, pod)
        else:
            self.restarts = objects.restarts(pod)
        return self.shown.until(self._look)

    def _look(self) -> str | None:
        # Asked in this order: the end of a run scales the nodes to 0.
        gone = nodes_are_gone(self.way.place)
        pod = self._pod()
        run: str = pod.metadata.uid
        if Store(self.way.place).has(results_key(run, COMPLETE)):
            return run
        if pod.status.phase in objects.OVER or objects.restarts(pod) - self.restarts >= RESTARTS:
            raise StageFailed(
                f"the run is not complete, and its pod has ended or ends again and again\n"
                f"{objects.last_words(self.api, pod)}"
            )
        if gone:
            raise StageFailed(_STOPPED)
        self.shown.waits(
            progress(objects.log(self.api, pod, pod.spec.containers[0].name, _TAIL))
            or "; ".join(not_ready(self.api, f"app={BENCHMARK_POD}"))
            or "it waits for the services"
        )
        return None

    def _pod(self) -> V1Pod:
        pod = objects.pod(self.api, BENCHMARK_POD)
        if pod is None:
            raise StageFailed(f"there is no pod {BENCHMARK_POD} any more: {_MADE_AGAIN}")
        return pod

    def _is_stale(self, pod: V1Pod) -> bool:
        """Whether a deploy has changed what the pod is told after it has read it."""
        status = next(iter(pod.status.container_statuses or []), None)
        if status is None or not (status.state and status.state.running):
            return False
        with kubernetes_in_words():
            told = CoreV1Api(self.api).read_namespaced_config_map(BENCHMARK_POD, NAMESPACE)
        changed = [each.time for each in told.metadata.managed_fields or [] if each.time]
        return bool(changed) and max(changed) > status.state.running.started_at


@dataclass
class _Indexes:
    """The Job that the deploy has made, and whose indexes wait for devices and graphs."""

    way: Way
    api: ApiClient
    shown: Shown

    def measured(self) -> str:
        """The run's id, once all variants are in it."""
        job = self._job()
        if objects.failed(job):
            self.shown.say(f"{job.metadata.name} has failed, and begins again with what is missing")
            objects.replace(self.api, job)
        return self.shown.until(self._look)

    def _look(self) -> str | None:
        gone, job = nodes_are_gone(self.way.place), self._job()
        # An index that ends at the same moment as the last one merges and uploads once more: its
        # node is not to be taken away meanwhile.
        if (run := runs.complete(self.way.place)) and (gone or not job.status.active):
            return run
        if reason := objects.failed(job):
            raise StageFailed("\n".join([f"{job.metadata.name}: {reason}", *self._last_words(job)]))
        if gone:
            raise StageFailed(_STOPPED)
        self.shown.waits("; ".join(self._progress(job)))
        return None

    def _job(self) -> V1Job:
        name = SWEEP_JOB if self.way.place.experiment.sweep else OFFLINE_JOB
        found = objects.jobs(self.api, f"app={name}")
        if not found:
            raise StageFailed(f"there is no Job {name} any more: {_MADE_AGAIN}")
        return max(found, key=lambda job: job.metadata.creation_timestamp)

    def _progress(self, job: V1Job) -> Iterator[str]:
        names = runs.indexes(self.way.place).names
        complete = runs.complete_indexes(self.way.place)
        yield bar(len(complete), len(names), "variants are complete")
        if failed := job.status.failed_indexes:
            yield f"failed: {failed}"
        for pod in self._pods(job):
            if pod.status.phase != "Running":
                continue
            variant = names[int(pod.metadata.labels[_INDEX])]
            said = objects.log(self.api, pod, pod.spec.containers[-1].name, _TAIL)
            yield f"{variant}: {progress(said) or 'starts'}"

    def _last_words(self, job: V1Job) -> Iterator[str]:
        ended = [pod for pod in self._pods(job) if pod.status.phase == "Failed"]
        if ended:
            last = max(ended, key=lambda pod: pod.metadata.creation_timestamp)
            yield objects.last_words(self.api, last)

    def _pods(self, job: V1Job) -> list[V1Pod]:
        return objects.pods(self.api, f"batch.kubernetes.io/job-name={job.metadata.name}")


def progress(log: str) -> str:
    """The benchmark's last word on how far it is, with a bar; empty if it has said nothing."""
    found = _PROGRESS.findall(log)
    if not found:
        return ""
    done, total, text = found[-1]
    return bar(int(done), int(total), text)


def bar(done: int, total: int, text: str) -> str:
    """Such as ``█████░░░░░ 12/24 round 2 of 4``."""
    full = _BAR * done // total if total else 0
    return f"{'█' * full}{'░' * (_BAR - full)} {done}/{total} {text}"
