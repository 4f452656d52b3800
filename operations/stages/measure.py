"""The measurement, by one pod of all services or a Job of one index a variant, and its results."""

import re
from collections.abc import Iterator
from typing import Final

from kubernetes.client import CoreV1Api, V1Job, V1Pod
from pydantic import ValidationError

from charts.benchmark import benchmark_config
from charts.names import Component, Deployed, benchmark_pod, indexed_job
from charts.sweep_job import MEASURED, indexed_config, run_id
from experiment.variants import variants
from operations import cluster, pods, results
from operations.account import Bucket, Deployment, DeploymentError
from operations.cluster import Api, connected
from operations.stages.nodes import STOPPED, are_stopped, not_ready
from operations.stages.stage import Progress, Stage, StageFailed
from spectap.inputs.config import Config
from spectap.names import (
    COMPLETE,
    CONFIG,
    MERGED,
    REPORT,
    results_key,
    variant_run,
)

RESTARTS: Final = 3
"""Restarts after which a container will not recover, such as from a graph that does not fit
the image. The benchmark measures what is missing after each."""

_PROGRESS: Final = re.compile(r"\[\d+/\d+\] ")
"""How ``spectap.run.progress`` begins a line of a log."""
_TAIL: Final = 40
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_MADE_AGAIN: Final = "make experiment makes it again, and goes on"


class Serve(Stage):
    """All services, ready: each loads its graph onto its devices, and then answers."""

    name = "serve"

    def perform(self, progress: Progress) -> str:
        names = [variant.service for variant in variants(self.deployment.experiment)]

        def look() -> bool | None:
            services = cluster.services(api, f"component={Component.VLLM}")
            # A change that the controller has not seen yet would be taken for carried out.
            ready = {
                service.metadata.name
                for service in services
                if service.status.ready_replicas
                and (service.status.observed_generation or 0) >= service.metadata.generation
            }
            missing = [name for name in names if name not in ready]
            if not missing:
                return True
            if are_stopped(self.deployment):
                raise StageFailed(STOPPED)
            words = [f"{len(names) - len(missing)} of {len(names)} are ready"]
            for service in missing:
                for pod in cluster.pods(api, f"app={service}"):
                    if pods.restarts(pod) >= RESTARTS:
                        raise StageFailed(
                            f"{service} does not come to serve: {pods.restarts(pod)} restarts\n"
                            f"{pods.last_words(api, pod)}"
                        )
                words += not_ready(api, f"app={service}")
            progress.wait("; ".join(words))
            return None

        with connected(self.deployment) as api:
            progress.until(look)
        return f"{', '.join(names)} are ready"


class Benchmark(Stage):
    """A complete run in the bucket: one that goes on, or a new one."""

    name = "benchmark"

    def perform(self, progress: Progress) -> str:
        measure = _by_indexes if self.deployment.experiment.isolated else _by_pod
        with connected(self.deployment) as api:
            run = measure(self.deployment, api, progress)
        return f"run {run} is complete"


def _by_pod(deployment: Deployment, api: Api, progress: Progress) -> str:
    """The id of the run of the pod that the deploy has made, and that waits for the services."""
    name, before = benchmark_pod(deployment.experiment), 0

    def read() -> V1Pod:
        pod = cluster.newest_pod(api, f"app={name}")
        if pod is None:
            raise StageFailed(f"there is no pod {name} any more: {_MADE_AGAIN}")
        return pod

    def look() -> str | None:
        # Asked in this order: the end of a run scales the nodes to 0.
        stopped = are_stopped(deployment)
        pod = read()
        run: str = pod.metadata.uid
        if Bucket(deployment).has(results_key(run, COMPLETE)):
            return run
        if pod.status.phase in cluster.OVER or pods.restarts(pod) - before >= RESTARTS:
            raise StageFailed(
                "the run is not complete, and its pod failed or is crash-looping\n"
                f"{pods.last_words(api, pod)}"
            )
        if stopped:
            raise StageFailed(STOPPED)
        progress.wait(
            last_progress(pods.log(api, pod, pod.spec.containers[0].name, _TAIL))
            or "; ".join(not_ready(api, f"app={name}"))
            or "it waits for the services"
        )
        return None

    pod = read()
    if pod.status.phase in cluster.OVER or _is_stale(api, pod, name):
        progress.say(f"{name} begins a new run")
        cluster.replace(api, pod)
    else:
        before = pods.restarts(pod)
    return progress.until(look)


def _is_stale(api: Api, pod: V1Pod, config_map: str) -> bool:
    """Whether a deploy has changed the pod's ``config_map`` after it has read it."""
    status = next(iter(pod.status.container_statuses or []), None)
    if status is None or not (status.state and status.state.running):
        return False
    config = CoreV1Api(api).read_namespaced_config_map(config_map, api.namespace)
    changed = [each.time for each in config.metadata.managed_fields or [] if each.time]
    return bool(changed) and max(changed) > status.state.running.started_at


def _by_indexes(deployment: Deployment, api: Api, progress: Progress) -> str:
    """The id of the run of the Job that the deploy has made, once all variants are in it."""
    name = indexed_job(deployment.experiment)

    def read() -> V1Job:
        jobs = cluster.jobs(api, f"app={name}")
        if not jobs:
            raise StageFailed(f"there is no Job {name} any more: {_MADE_AGAIN}")
        return jobs[-1]

    def look() -> str | None:
        stopped, job = are_stopped(deployment), read()
        # An index that ends at the same moment as the last one merges and uploads once more: its
        # node is not to be taken away meanwhile.
        run = complete_run(deployment)
        if run and (stopped or not job.status.active):
            return run
        if job.status.completion_time and run is None:
            merged = results_key(run_id(deployment.experiment), MERGED)
            raise StageFailed(
                f"{name} is over, and {merged} does not name all variants as complete"
            )
        if reason := cluster.failure(job):
            failed = [pod for pod in cluster.pods_of(api, job) if pod.status.phase == "Failed"]
            words = [pods.last_words(api, pod) for pod in failed[-1:]]
            raise StageFailed("\n".join([f"{job.metadata.name}: {reason}", *words]))
        if stopped:
            raise StageFailed(STOPPED)
        progress.wait("; ".join(_index_progress(deployment, api, job)))
        return None

    job = read()
    if cluster.failure(job):
        progress.say(f"{job.metadata.name} has failed, and begins again with what is missing")
        cluster.replace(api, job)
    return progress.until(look)


def _index_progress(deployment: Deployment, api: Api, job: V1Job) -> Iterator[str]:
    names = index_config(deployment).names
    yield f"{len(complete_indexes(deployment))} of {len(names)} variants are complete"
    if failed := job.status.failed_indexes:
        yield f"failed: {failed}"
    for pod in cluster.pods_of(api, job):
        if pod.status.phase == "Running":
            variant = names[int(pod.metadata.labels[_INDEX])]
            log = pods.log(api, pod, pod.spec.containers[-1].name, _TAIL)
            yield f"{variant}: {last_progress(log) or 'starts'}"


def last_progress(log: str) -> str:
    """The benchmark's last words on how far it is, such as ``[12/24] round 2 of 4``."""
    return next((line for line in log.splitlines()[::-1] if _PROGRESS.match(line)), "")


class Results(Stage):
    """The downloaded run, with its report and its table."""

    name = "results"
    costs = False
    shows_itself = True

    def perform(self, progress: Progress) -> str:
        run = complete_run(self.deployment)
        if run is None:
            raise DeploymentError("the bucket has no complete run of this experiment")
        runs, refusal = results.listing(self.deployment)
        progress.say(refusal)
        files = results.chosen(runs, run)
        folder = results.download(self.deployment, files, say=progress.say)
        try:
            table = results.draw(folder)
        except DeploymentError as error:
            progress.say(str(error))
            return f"{folder}, which has no report"
        # As wide as the terminal: with an indent its lines would wrap.
        print(table, flush=True)
        return str(folder / REPORT)


def complete_run(deployment: Deployment) -> str | None:
    """The newest complete run of this very experiment; None if there is none.

    A run is complete by its marker, and it is this experiment's if it was asked the same of the
    same variants.
    """
    bucket = Bucket(deployment)
    if deployment.experiment.isolated:
        names, run = {*index_config(deployment).names}, run_id(deployment.experiment)
        if names - {*complete_indexes(deployment)}:
            return None
        # Written by whichever index ends last, after all of them are complete.
        merged = results.Merged.read(bucket, run)
        return run if merged and names <= merged.complete else None
    expected = benchmark_config(deployment.experiment, Deployed(bucket.name, "any"))
    runs, _ = results.listing(deployment)
    for run_of in reversed([each for each in runs if each.complete]):
        try:
            config = Config.model_validate_json(bucket.read(results_key(run_of.id, CONFIG)) or b"")
        except ValidationError:  # of another version, which this one does not read
            continue
        if _measured_settings(config) == _measured_settings(expected):
            return run_of.id
    return None


def measured_run(deployment: Deployment, *, again: bool) -> str | None:
    """Returns the complete run after which nothing more is to be paid for; None if there is none.

    A later run that has begun, on nodes that are running, is not given up for it. ``again`` asks
    for another run, but isolated variants are not measured twice in a run.
    """
    is_isolated = deployment.experiment.isolated
    run = None if again and not is_isolated else complete_run(deployment)
    if run is None or is_isolated or are_stopped(deployment):
        return run
    with connected(deployment) as api:
        pod = cluster.newest_pod(api, f"app={benchmark_pod(deployment.experiment)}")
    if pod is None or pod.status.phase in cluster.OVER or pod.metadata.uid == run:
        return run
    has_begun = Bucket(deployment).entries(results_key(pod.metadata.uid, ""))
    return None if has_begun else run


def index_config(deployment: Deployment) -> Config:
    """The configuration of the indexes of the experiment's Job."""
    return indexed_config(deployment.experiment, Deployed(Bucket(deployment).name, "any"))


def complete_indexes(deployment: Deployment) -> list[str]:
    """Names of the variants whose results are complete."""
    bucket, run = Bucket(deployment), run_id(deployment.experiment)
    return [
        variant.name
        for variant in index_config(deployment).variants
        if bucket.has(results_key(variant_run(run, variant.folder), COMPLETE))
    ]


def _measured_settings(config: Config) -> list[object]:
    """The settings of a run, with what variants are and without where they answer."""
    variants = [variant.model_copy(update={"endpoint": None}) for variant in config.variants]
    return [*(getattr(config, name) for name in MEASURED), variants]
