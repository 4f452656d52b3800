"""A sweep's Indexed Job: which indexes run, on which devices, and what follows when one ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from charts.indexes import NEVER, NOT_YET
from experiment import Experiment
from tests.cluster.api import Cluster, Manifest
from tests.cluster.conftest import add_trainium
from tests.cluster.deployment import (
    Manifests,
    compile_jobs,
    deployed,
    devices,
    pods,
    refusal,
    succeeded,
    without,
)
from tests.cluster.indexed import (
    INDEX_LABEL,
    JOB,
    Indexed,
    as_many,
    conditions,
    has_no_devices,
    index,
    labels,
    typed,
    uid,
)
from tests.cluster.kubelets import Kubelets
from tests.cluster.test_rolling import Timeline
from tests.experiment.files import ON_TRAINIUM, swept
from tests.matrix import SWEEP
from tests.synthesis import Synthesised, containers

INDEXES: Final = 6
SWEPT: Final = Indexed("qwen-sweep")
_NUMBERS: Final = itertools.count(100)
"""Of nodes. Each is another one: a lease outlives its node."""


@pytest.fixture(scope="module")
def manifests_of_a_sweep(
    variation: Callable[..., Experiment], rendered: Callable[[Experiment], Manifests]
) -> Manifests:
    """A baseline and five windows, under the name that the cluster's volume has."""
    return rendered(variation(swept(windows=[3, 5, 7, 11, 15])))


@pytest.fixture
def sweep(
    cluster: Cluster, kubelets: Kubelets, manifests_of_a_sweep: Manifests, tmp_path: Path
) -> Iterator[Manifests]:
    """Applied as the CDK's handler applies it. All graphs are compiled, and their Jobs are over."""
    assert kubelets
    compiled = compile_jobs(manifests_of_a_sweep)
    with deployed(
        cluster, without(manifests_of_a_sweep, compiled, tmp_path / "dist"), server_side=False
    ):
        yield manifests_of_a_sweep


@pytest.fixture(scope="module")
def manifests_with_compiles(
    variation: Callable[..., Experiment], rendered: Callable[[Experiment], Manifests]
) -> Manifests:
    """A baseline and two windows, whose compiles last until a test ends them."""
    return rendered(variation(swept(windows=[3, 5]) | {**ON_TRAINIUM, "serving.length": 2048}))


@pytest.fixture
def compiling(
    cluster: Cluster, kubelets: Kubelets, manifests_with_compiles: Manifests
) -> Iterator[Manifests]:
    """The only node compiles."""
    assert kubelets
    with deployed(cluster, manifests_with_compiles, server_side=False):
        cluster.until(lambda: len(pods(cluster, "app", "qwen-sweep")) == 3, "the indexes")
        _let_one_compile(cluster)
        yield manifests_with_compiles


@pytest.fixture
def room_for_all(cluster: Cluster, kubelets: Kubelets, synthesised: Synthesised) -> Iterator[None]:
    """Two nodes more, so that all six indexes run at once."""
    more = [add_trainium(cluster, kubelets, synthesised, next(_NUMBERS)) for _ in range(2)]
    try:
        yield
    finally:
        for node in more:
            kubelets.remove(node)


def test_a_node_measures_nothing_while_it_compiles(
    cluster: Cluster, kubelets: Kubelets, compiling: Manifests
) -> None:
    """One compile after another. The last one fails for good, which stops no index."""
    jobs = set[str]()
    for _ in range(3):
        _let_one_compile(cluster)
        (compiler,) = _compilers(cluster)
        cluster.until(lambda: len(SWEPT.refused(cluster)) == 3, "a word about all indexes")
        assert all("anti-affinity" in reason for reason in SWEPT.refused(cluster))
        assert not SWEPT.running(cluster)
        job = cluster.get("Job", labels(compiler)[f"{JOB}/job-name"])
        assert job is not None
        jobs.add(job["metadata"]["name"])
        if len(jobs) == 3:
            cluster.patch(job, {"spec": {"activeDeadlineSeconds": 1}})
        else:
            kubelets.finish([job["metadata"]["name"]])
        ended = uid(compiler)
        cluster.until(partial(_compiles_no_longer, cluster, ended), "the end of a compile")
    assert jobs == {*compile_jobs(compiling)}
    SWEPT.until_running(cluster, 2)


def test_a_node_compiles_nothing_while_it_measures(cluster: Cluster, compiling: Manifests) -> None:
    names = compile_jobs(compiling)
    _suspend(cluster, names, suspend=True)
    cluster.until(lambda: not _compilers(cluster), "a node without compiles")
    running = SWEPT.until_running(cluster, 2)
    _suspend(cluster, names, suspend=False)
    reasons = cluster.until(partial(_said_of_compiles, cluster, names), "a word about all compiles")
    assert all("anti-affinity" in words for words in reasons)
    assert not _compilers(cluster)
    assert list(map(uid, SWEPT.running(cluster))) == list(map(uid, running))


def test_two_run_on_one_node_and_four_on_two(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests, synthesised: Synthesised
) -> None:
    assert sweep
    SWEPT.until_running(cluster, 2)
    cluster.until(lambda: len(SWEPT.refused(cluster)) == INDEXES - 2, "a word about the other four")
    SWEPT.each_has_a_group_of_its_own(cluster, nodes={"trainium-0"}, count=16)
    second = add_trainium(cluster, kubelets, synthesised, next(_NUMBERS))
    try:
        SWEPT.until_running(cluster, 4)
        cluster.until(
            lambda: len(SWEPT.refused(cluster)) == INDEXES - 4, "a word about the other two"
        )
        SWEPT.each_has_a_group_of_its_own(cluster, nodes={"trainium-0", second}, count=32)
    finally:
        kubelets.remove(second)


def test_an_index_that_ends_makes_room_for_the_next(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests
) -> None:
    assert sweep
    timeline, ended = Timeline(cluster), set[str]()
    while len(ended) < INDEXES:
        running = SWEPT.until_running(cluster, min(2, INDEXES - len(ended)))
        ending = running[0]
        ended.add(index(ending))
        kubelets.end(ending, "benchmark", 0)
        cluster.until(partial(has_no_devices, cluster, ending), "the end of its claim")
    complete = cluster.until(lambda: SWEPT.ended(cluster, "Complete"), "the end of the Job")
    assert complete["status"]["completedIndexes"] == f"0-{INDEXES - 1}"
    assert not complete["status"].get("failed")
    assert timeline.most().allocated == 2


def test_a_failed_index_is_tried_again_alone_and_the_others_go_on(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests, room_for_all: None
) -> None:
    assert sweep
    survivors = {index(pod): uid(pod) for pod in SWEPT.until_running(cluster, INDEXES)}
    first = survivors.pop("2")
    for tries in range(1, 4):
        (pod,) = (p for p in SWEPT.until_running(cluster, INDEXES) if index(p) == "2")
        assert (uid(pod) == first) == (tries == 1)
        kubelets.end(pod, "benchmark", 1)
        cluster.until(partial(SWEPT.has_failed, cluster, tries), "a failure")
    failed = cluster.until(partial(SWEPT.with_a_failed_index, cluster), "a failed index")
    assert failed["status"]["failedIndexes"] == "2"
    assert "Failed" not in conditions(failed)
    running = SWEPT.until_running(cluster, INDEXES - 1)
    assert {index(pod): uid(pod) for pod in running} == survivors
    for pod in running:
        kubelets.end(pod, "benchmark", 0)
    ended = cluster.until(lambda: SWEPT.ended(cluster, "Failed"), "the end of the Job")
    assert conditions(ended)["Failed"]["reason"] == "FailedIndexes"
    assert ended["status"]["completedIndexes"] == "0,1,3-5"
    assert ended["status"]["failed"] == 3


def test_an_index_without_a_graph_gives_its_devices_to_another(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests
) -> None:
    assert sweep
    before = SWEPT.until_running(cluster, 2)
    for pod in before:
        kubelets.end(pod, "fetch", NOT_YET)
    for pod in before:
        cluster.until(partial(has_no_devices, cluster, pod), "the end of its claim")
    after = SWEPT.until_running(cluster, 2)
    assert not {index(pod) for pod in before} & {index(pod) for pod in after}


def test_an_index_without_a_graph_has_not_failed(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests, room_for_all: None
) -> None:
    """It is made again more often than it may fail."""
    assert sweep
    pod_uids = set[str]()
    for times in range(5):
        (pod,) = (p for p in SWEPT.until_running(cluster, INDEXES) if index(p) == "2")
        annotations = pod["metadata"]["annotations"]
        assert annotations[f"{JOB}/job-index-failure-count"] == "0"
        assert int(annotations.get(f"{JOB}/job-index-ignored-failure-count", 0)) == times
        pod_uids.add(uid(pod))
        kubelets.end(pod, "fetch", NOT_YET)
        cluster.until(partial(SWEPT.over, cluster, pod), "the end of the pod")
    assert len(pod_uids) == 5
    status = SWEPT.job(cluster)["status"]
    assert not status.get("failed")
    assert not status.get("failedIndexes")


def test_another_status_of_fetch_is_a_failure(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests
) -> None:
    assert sweep
    (pod, _) = SWEPT.until_running(cluster, 2)
    kubelets.end(pod, "fetch", 1)
    cluster.until(partial(SWEPT.has_failed, cluster, 1), "a failure")


@pytest.mark.parametrize("container", ["fetch", "benchmark"])
def test_an_index_that_another_try_would_not_help_fails_at_once(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests, container: str
) -> None:
    assert sweep
    (pod, _) = SWEPT.until_running(cluster, 2)
    kubelets.end(pod, container, NEVER)
    failed = cluster.until(partial(SWEPT.with_a_failed_index, cluster), "a failed index")
    assert failed["status"]["failedIndexes"] == index(pod)
    cluster.until(partial(SWEPT.has_failed, cluster, 1), "one failure")  # counted a moment later
    after = SWEPT.until_running(cluster, 2)
    assert index(pod) not in map(index, after)


def test_a_node_that_is_taken_away_is_no_failure(
    cluster: Cluster, kubelets: Kubelets, sweep: Manifests, synthesised: Synthesised
) -> None:
    assert sweep
    second = add_trainium(cluster, kubelets, synthesised, next(_NUMBERS))
    try:
        running = SWEPT.until_running(cluster, 4)
        lost = {index(pod) for pod in running if pod["spec"]["nodeName"] == second}
        cluster.kubectl("drain", second, "--delete-emptydir-data", "--timeout=30s")
        cluster.until(lambda: {index(p) for p in SWEPT.pods(cluster)} >= lost, "their next pods")
        assert len(lost) == 2
        assert not SWEPT.job(cluster)["status"].get("failed")
    finally:
        kubelets.remove(second)


def test_all_containers_know_their_index(cluster: Cluster, sweep: Manifests) -> None:
    """Init containers, too: the API server fills it in, not the chart."""
    job = sweep.named("Job", "qwen-sweep")
    assert "JOB_COMPLETION_INDEX" not in str(job)
    (pod, *_) = SWEPT.until_running(cluster, 2)
    for container in containers(pod["spec"]):
        variable = {v["name"]: v for v in container["env"]}["JOB_COMPLETION_INDEX"]
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX_LABEL}']"
    (fetch,) = (each for each in containers(pod["spec"]) if each["name"] == "fetch")
    looked = {v["name"]: v for v in fetch["env"]}["LOOKED"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert looked == f"metadata.annotations['{JOB}/job-index-ignored-failure-count']"


def test_a_sweep_that_lasts_too_long_is_ended(cluster: Cluster, sweep: Manifests) -> None:
    assert sweep
    SWEPT.until_running(cluster, 2)
    cluster.patch(SWEPT.job(cluster), {"spec": {"activeDeadlineSeconds": 1}})
    ended = cluster.until(lambda: SWEPT.ended(cluster, "Failed"), "the end of the Job")
    assert conditions(ended)["Failed"]["reason"] == "DeadlineExceeded"
    assert not SWEPT.pods(cluster)
    assert not [c for c in cluster.all("ResourceClaim") if devices(c)]


def test_the_commands_that_the_stack_puts_out(
    cluster: Cluster,
    kubelets: Kubelets,
    sweep: Manifests,
    of_matrix: Callable[[str], Synthesised],
) -> None:
    assert sweep
    outputs = of_matrix(SWEEP).template("serving")["Outputs"]
    for pod in SWEPT.until_running(cluster, 2):
        kubelets.end(pod, "benchmark", 0)
    cluster.until(
        lambda: SWEPT.job(cluster)["status"].get("succeeded") == 2, "two that are complete"
    )
    before = SWEPT.job(cluster)
    heads, row = typed(cluster, outputs["Command4Indexes"]["Value"]).splitlines()
    assert heads.split() == ["NAME", "ALL", "COMPLETE", "FAILED"]
    assert row.split()[1:] == [str(INDEXES), before["status"]["completedIndexes"]]
    typed(cluster, outputs["Command7Again"]["Value"])
    after = SWEPT.job(cluster)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert uid(after) != uid(before)
    assert "completedIndexes" not in after["status"]
    SWEPT.until_running(cluster, 2)


def _compilers(cluster: Cluster) -> list[Manifest]:
    """Compile pods that have a node."""
    return [
        pod
        for pod in pods(cluster, "step", "compile")
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")
    ]


def _waiting_compilers(cluster: Cluster) -> list[Manifest]:
    compilers = pods(cluster, "step", "compile")
    return [pod for pod in compilers if pod["status"]["phase"] == "Pending"]


def _said_of_compiles(cluster: Cluster, names: list[str]) -> list[str] | None:
    """Why compiles wait, once that is said of all; but of those that another test has let end."""
    unfinished = sum(not succeeded(cluster, name) for name in names)
    return as_many(unfinished, list(map(refusal, _waiting_compilers(cluster))))


def _suspend(cluster: Cluster, jobs: list[str], *, suspend: bool) -> None:
    for name in jobs:
        job = cluster.get("Job", name)
        assert job is not None
        cluster.patch(job, {"spec": {"suspend": suspend}})


def _compiles_no_longer(cluster: Cluster, pod_uid: str) -> bool:
    return pod_uid not in map(uid, _compilers(cluster))


def _let_one_compile(cluster: Cluster) -> None:
    """Indexes that are played look without a pause between, and would keep the node."""
    sweeps = [SWEPT.job(cluster)["metadata"]["name"]]
    _suspend(cluster, sweeps, suspend=True)
    cluster.until(lambda: as_many(1, _compilers(cluster)), "a compile on the only node")
    _suspend(cluster, sweeps, suspend=False)
