"""The Indexed Job of variants that run as jobs: one at a time, on devices that no other shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from charts.indexes import NEVER, NOT_YET
from experiment import Experiment
from tests.cluster.api import Cluster
from tests.cluster.deployment import (
    Manifests,
    compile_jobs,
    deployed,
    devices,
    pods,
    refusal,
    without,
)
from tests.cluster.indexed import (
    Indexed,
    has_no_devices,
    index,
    labels,
    uid,
)
from tests.cluster.kubelets import Kubelets
from tests.cluster.test_rolling import Timeline
from tests.experiment.files import ON_TRAINIUM, VANILLA

OFFLINE: Final = Indexed("qwen-offline")


@pytest.fixture(scope="module")
def vanilla(variation: Callable[..., Experiment]) -> Experiment:
    """Vanilla and its baseline, under the name that the cluster's volume has."""
    return variation(VANILLA)


@pytest.fixture(scope="module")
def manifests_of_jobs(
    vanilla: Experiment, rendered: Callable[[Experiment], Manifests]
) -> Manifests:
    """Its."""
    return rendered(vanilla)


@pytest.fixture
def jobs(
    cluster: Cluster, kubelets: Kubelets, manifests_of_jobs: Manifests, tmp_path: Path
) -> Iterator[Manifests]:
    """Applied as the CDK's handler applies it. Both graphs are there, and their Jobs are over."""
    assert kubelets
    compiled = compile_jobs(manifests_of_jobs)
    with deployed(
        cluster, without(manifests_of_jobs, compiled, tmp_path / "dist"), server_side=False
    ):
        yield manifests_of_jobs


@pytest.fixture
def compiling(
    cluster: Cluster,
    kubelets: Kubelets,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Manifests],
) -> Iterator[Manifests]:
    """The same, compiled on the Trainium node, until a test ends the compiles."""
    assert kubelets
    manifests = rendered(variation(VANILLA | ON_TRAINIUM))
    with deployed(cluster, manifests, server_side=False):
        yield manifests


def test_a_baseline_and_vanilla_run_one_after_the_other(
    cluster: Cluster, kubelets: Kubelets, jobs: Manifests
) -> None:
    """Though the node has room for both, and a second one would have, too."""
    assert jobs
    timeline, uids = Timeline(cluster), list[str]()
    for number in ("0", "1"):
        (pod,) = OFFLINE.until_running(cluster, 1)
        uids.append(uid(pod))
        assert index(pod) == number
        assert [index(each) for each in OFFLINE.pods(cluster)] == [number]
        OFFLINE.each_has_a_group_of_its_own(cluster, nodes={"trainium-0"}, count=8)
        # Beside nothing else: the other half of the node is nobody's.
        claimed = [device for each in cluster.all("ResourceClaim") for device in devices(each)]
        assert len(claimed) == 8
        kubelets.end(pod, "collect", 0)
        cluster.until(partial(has_no_devices, cluster, pod), "the end of its claim")
    complete = cluster.until(lambda: OFFLINE.ended(cluster, "Complete"), "the end of the Job")
    assert complete["status"]["completedIndexes"] == "0,1"
    assert not complete["status"].get("failed")
    assert len(set(uids)) == 2
    assert timeline.most().allocated == 1


def test_an_index_that_another_try_would_not_help_fails_at_once(
    cluster: Cluster, kubelets: Kubelets, jobs: Manifests
) -> None:
    assert jobs
    (pod,) = OFFLINE.until_running(cluster, 1)
    kubelets.end(pod, "generate", NEVER)
    failed = cluster.until(partial(OFFLINE.with_a_failed_index, cluster), "a failed index")
    assert failed["status"]["failedIndexes"] == "0"
    cluster.until(partial(OFFLINE.over, cluster, pod), "the end of the pod")
    (next_pod,) = OFFLINE.until_running(cluster, 1)
    assert index(next_pod) == "1"


def test_a_node_compiles_or_generates(
    cluster: Cluster, kubelets: Kubelets, compiling: Manifests
) -> None:
    """One thing at a time on the only node: a compile, then an index or the other compile."""
    names, ended = compile_jobs(compiling), set[str]()
    while len(ended) < 2:
        (busy,) = cluster.until(lambda: _at_most_one(_on_the_node(cluster)), "one pod on the node")
        if labels(busy).get("step") == "compile":
            assert all("anti-affinity" in reason for reason in OFFLINE.refused(cluster))
            job = labels(busy)["batch.kubernetes.io/job-name"]
            kubelets.finish([job])
            ended.add(job)
        else:
            waiting = [pod for pod in pods(cluster, "step", "compile") if refusal(pod)]
            assert all("anti-affinity" in refusal(pod) for pod in waiting)
            kubelets.end(busy, "fetch", NOT_YET)
        cluster.until(partial(_is_gone, cluster, uid(busy)), "the end of it")
    assert ended == {*names}
    OFFLINE.until_running(cluster, 1)


def _on_the_node(cluster: Cluster) -> list[Any]:
    """Pods that compile or generate and have the node."""
    candidates = [*pods(cluster, "step", "compile"), *OFFLINE.pods(cluster)]
    return [
        pod
        for pod in candidates
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")
    ]


def _at_most_one(items: list[Any]) -> list[Any] | None:
    assert len(items) < 2, "two at once"
    return items or None


def _is_gone(cluster: Cluster, pod_uid: str) -> bool:
    return pod_uid not in map(uid, _on_the_node(cluster))
