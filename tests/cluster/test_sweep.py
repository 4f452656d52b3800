"""A sweep's Indexed Job: which indexes run, on which devices, and what follows when one ends."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from charts.names import namespace
from charts.sweep_job import EXIT_PERMANENT, EXIT_RETRY
from tests.cluster.api import NAMESPACE, Cluster, Manifest
from tests.cluster.conftest import MoreNodes, Rendered
from tests.cluster.deployment import (
    claim,
    deployed,
    devices,
    group,
    objects,
    pods,
    refusal,
    typed,
    uid,
)
from tests.cluster.kubelets import Kubelets
from tests.cluster.test_rolling import Timeline
from tests.experiment.files import ON_TRAINIUM, swept
from tests.matrix import SWEEP
from tests.synthesis import Of

JOB: Final = "batch.kubernetes.io"
_APP: Final = "qwen-sweep"
INDEXES: Final = 6


@pytest.fixture
def sweep(
    cluster: Cluster, kubelets: Kubelets, rendered: Rendered, tmp_path: Path
) -> Iterator[None]:
    """A baseline and five windows, under the name that the cluster's volume has.

    Applied as the CDK's handler applies it. All graphs are compiled, and their Jobs are over.
    """
    manifests = rendered(swept(windows=[3, 5, 7, 11, 15]))
    compiled = compile_jobs(manifests)
    remaining = [o for o in objects(manifests) if o["metadata"]["name"] not in compiled]
    YAML(typ="safe", pure=True).dump_all(remaining, tmp_path / "dist.yaml")
    with deployed(cluster, tmp_path / "dist.yaml", server_side=False):
        yield


def test_a_node_measures_nothing_while_it_compiles(
    cluster: Cluster, kubelets: Kubelets, rendered: Rendered
) -> None:
    """One compile after another. The last one fails for good, which stops no index."""
    changes = swept(windows=[3, 5]) | {**ON_TRAINIUM, "serving.length": 2048}
    manifests, jobs = rendered(changes), set[str]()
    with deployed(cluster, manifests, server_side=False):
        cluster.until(lambda: len(pods(cluster, "app", _APP)) == 3, "the indexes")
        for _ in range(3):
            # Indexes that are played look without a pause between, and would keep the node.
            cluster.patch(job_of(cluster), {"spec": {"suspend": True}})
            (compiler,) = cluster.until(lambda: as_many(1, _compilers(cluster)), "a compile")
            cluster.patch(job_of(cluster), {"spec": {"suspend": False}})
            cluster.until(lambda: len(refused(cluster)) == 3, "a word about all indexes")
            assert all("anti-affinity" in reason for reason in refused(cluster))
            assert not running(cluster)
            job = cluster.get("Job", compiler["metadata"]["labels"][f"{JOB}/job-name"])
            assert job is not None
            jobs.add(job["metadata"]["name"])
            if len(jobs) == 3:
                cluster.patch(job, {"spec": {"activeDeadlineSeconds": 1}})
            else:
                kubelets.finish([job["metadata"]["name"]])
            _until_gone(cluster, compiler, _compilers)
        assert jobs == compile_jobs(manifests)
        until_running(cluster, 2)


def test_two_run_on_each_node_and_a_node_that_is_taken_away_is_no_failure(
    cluster: Cluster, sweep: None, more_nodes: MoreNodes
) -> None:
    until_running(cluster, 2)
    cluster.until(lambda: len(refused(cluster)) == INDEXES - 2, "a word about the other four")
    check_devices(cluster, nodes={"trainium-0"})
    with more_nodes() as (second,):
        before = until_running(cluster, 4)
        cluster.until(lambda: len(refused(cluster)) == INDEXES - 4, "a word about the other two")
        check_devices(cluster, nodes={"trainium-0", second})
        lost = {index(pod) for pod in before if pod["spec"]["nodeName"] == second}
        assert len(lost) == 2
        cluster.kubectl("drain", second, "--delete-emptydir-data", "--timeout=30s")
        cluster.until(lambda: {index(p) for p in unfinished(cluster)} >= lost, "their next pods")
        assert not job_of(cluster)["status"].get("failed")


def test_an_index_that_ends_makes_room_for_the_next_and_all_run_again_by_command(
    cluster: Cluster, kubelets: Kubelets, sweep: None, of_matrix: Of
) -> None:
    timeline, ended = Timeline(cluster), set[str]()
    while len(ended) < INDEXES:
        ending = until_running(cluster, min(2, INDEXES - len(ended)))[0]
        ended.add(index(ending))
        kubelets.end(ending, "benchmark", 0)
        until_without_devices(cluster, ending)
    before = until_ended(cluster, "Complete")
    assert before["status"]["completedIndexes"] == f"0-{INDEXES - 1}"
    assert not before["status"].get("failed")
    assert timeline.most().allocated == 2

    outputs = of_matrix(SWEEP).template("serving")["Outputs"]
    listed, again = (
        # In the namespace of the sweep here, which has the article's name.
        outputs[name]["Value"].replace(namespace(of_matrix(SWEEP).experiment), NAMESPACE)
        for name in ("Command4Indexes", "Command7Again")
    )
    heads, row = typed(cluster, listed).splitlines()
    assert heads.split() == ["NAME", "ALL", "COMPLETE", "FAILED"]
    assert row.split()[1:] == [str(INDEXES), f"0-{INDEXES - 1}"]
    typed(cluster, again)
    after = job_of(cluster)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert uid(after) != uid(before)
    assert "completedIndexes" not in after["status"]
    until_running(cluster, 2)


def test_a_failed_index_is_tried_again_alone_and_the_others_go_on(
    cluster: Cluster, kubelets: Kubelets, sweep: None, more_nodes: MoreNodes
) -> None:
    with more_nodes(2):
        survivors = {index(pod): uid(pod) for pod in until_running(cluster, INDEXES)}
        del survivors["2"]
        for tries in range(1, 4):
            (pod,) = (p for p in until_running(cluster, INDEXES) if index(p) == "2")
            kubelets.end(pod, "benchmark", 1)
            until_status(cluster, "failed", tries)
        assert "Failed" not in conditions(until_status(cluster, "failedIndexes", "2"))
        others = until_running(cluster, INDEXES - 1)
        assert {index(pod): uid(pod) for pod in others} == survivors
        for pod in others:
            kubelets.end(pod, "benchmark", 0)
        ended = until_ended(cluster, "Failed")
    assert conditions(ended)["Failed"]["reason"] == "FailedIndexes"
    assert ended["status"]["completedIndexes"] == "0,1,3-5"
    assert ended["status"]["failed"] == 3


def test_an_index_without_a_graph_has_not_failed_and_gives_its_devices_to_another(
    cluster: Cluster, kubelets: Kubelets, sweep: None, more_nodes: MoreNodes
) -> None:
    """It is made again more often than it may fail, and its containers know how often."""
    before = until_running(cluster, 2)
    for pod in before:
        kubelets.end(pod, "fetch", EXIT_RETRY)
    for pod in before:
        until_without_devices(cluster, pod)
    assert not {*map(index, before)} & {*map(index, until_running(cluster, 2))}
    begun = 1 if "2" in map(index, before) else 0
    with more_nodes(2):
        for times in range(begun, 5):
            (pod,) = (p for p in until_running(cluster, INDEXES) if index(p) == "2")
            annotations = pod["metadata"]["annotations"]
            assert annotations[f"{JOB}/job-index-failure-count"] == "0"
            assert int(annotations.get(f"{JOB}/job-index-ignored-failure-count", 0)) == times
            kubelets.end(pod, "fetch", EXIT_RETRY)
            _until_gone(cluster, pod, unfinished)
        status = job_of(cluster)["status"]
    assert not status.get("failed")
    assert not status.get("failedIndexes")


def test_an_index_that_another_try_would_not_help_fails_at_once(
    cluster: Cluster, kubelets: Kubelets, sweep: None
) -> None:
    ended = until_running(cluster, 2)
    for pod, container in zip(ended, ("fetch", "benchmark"), strict=True):
        kubelets.end(pod, container, EXIT_PERMANENT)
    until_status(cluster, "failedIndexes", ",".join(sorted(map(index, ended))))
    until_status(cluster, "failed", 2)  # counted a moment later
    assert not {*map(index, until_running(cluster, 2))} & {*map(index, ended)}


def compile_jobs(manifests: Path) -> set[str]:
    of_kind = (o["metadata"] for o in objects(manifests) if o["kind"] == "Job")
    return {job["name"] for job in of_kind if job["labels"].get("step") == "compile"}


def _compilers(cluster: Cluster) -> list[Manifest]:
    return [
        pod
        for pod in pods(cluster, "step", "compile")
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")
    ]


def _until_gone(cluster: Cluster, pod: Manifest, of: Callable[[Cluster], list[Manifest]]) -> None:
    cluster.until(lambda: uid(pod) not in map(uid, of(cluster)), "the end of the pod")


def job_of(cluster: Cluster) -> Manifest:
    (job,) = (j for j in cluster.all("Job") if j["metadata"]["labels"].get("app") == _APP)
    return job


def unfinished(cluster: Cluster) -> list[Manifest]:
    phases = ("Pending", "Running")
    return [pod for pod in pods(cluster, "app", _APP) if pod["status"]["phase"] in phases]


def running(cluster: Cluster) -> list[Manifest]:
    return sorted((p for p in unfinished(cluster) if p["status"]["phase"] == "Running"), key=index)


def until_running(cluster: Cluster, number: int) -> list[Manifest]:
    return cluster.until(lambda: as_many(number, running(cluster)), f"{number} indexes to run")


def refused(cluster: Cluster) -> list[str]:
    """What the scheduler says of those that it has no place for."""
    return [reason for reason in map(refusal, unfinished(cluster)) if "0/" in reason]


def until_status(cluster: Cluster, field: str, value: Any) -> Manifest:
    def look() -> Manifest | None:
        job = job_of(cluster)
        return job if job["status"].get(field) == value else None

    return cluster.until(look, f"{field} {value}")


def until_ended(cluster: Cluster, how: str) -> Manifest:
    cluster.until(lambda: how in conditions(job_of(cluster)), how)
    return job_of(cluster)


def check_devices(cluster: Cluster, nodes: set[str]) -> None:
    """Each index that has a node has eight connected devices there, which no other has.

    Together they have all of ``nodes``.
    """
    allocated = []
    for pod in unfinished(cluster):
        device_claim = claim(cluster, pod)
        if pod["spec"].get("nodeName") and device_claim:
            allocation = devices(device_claim)
            assert len(allocation) == 8
            assert {pool for pool, _ in allocation} == {pod["spec"]["nodeName"]}
            assert len({group(cluster, device) for device in allocation}) == 1
            allocated += allocation
    assert {pool for pool, _ in allocated} == nodes
    assert len(set(allocated)) == len(allocated) == 16 * len(nodes)


def until_without_devices(cluster: Cluster, pod: Manifest) -> None:
    """Returns once the claim of a pod is gone, or empty."""

    def look() -> bool:
        device_claim = claim(cluster, pod)
        return device_claim is None or not devices(device_claim)

    cluster.until(look, "the end of its claim")


def as_many(number: int, items: list[Manifest]) -> list[Manifest] | None:
    return items if len(items) == number else None


def conditions(job: Manifest) -> dict[str, Manifest]:
    """Those that are true, by their type."""
    return {c["type"]: c for c in job["status"].get("conditions", []) if c["status"] == "True"}


def index(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][f"{JOB}/job-completion-index"])
