"""Why a pod is not ready, in the words of the scheduler, the claim controller and kubelets.

What kubelets write is modelled on Kubernetes 1.35.4. ``tests/cluster`` asks a real scheduler.
"""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import CoreV1Event, V1Pod

from deployment.pods import why, working
from tests.deployment.kube import RUNNING, container, ended, event, typed_pod

WAITING = {"waiting": {"reason": "PodInitializing"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling: 403"}}
CRASHED = ended(1, message="Traceback\nRuntimeError: nrt_init failed")
FETCHED = container("fetch-artifact", {"terminated": ended(0)}, ready=True)
KEEPING = container("keep-cache", RUNNING, started=True, ready=True)
FETCHING = container("fetch-artifact", RUNNING, started=True)
LOADING = container("vllm", RUNNING, started=False)
UNSCHEDULED = "0/2 nodes are available: 1 Insufficient memory. preemption: none."


def test_what_has_no_node_says_the_schedulers_newest_event() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": UNSCHEDULED}
    pod = typed_pod("Pending", node=None, conditions=[condition])
    assert why(pod) == UNSCHEDULED
    claim = event("FailedResourceClaimCreation", 'template "xl-trn2": not found', 1)
    for events in ([event("FailedScheduling", "an older one"), claim], [claim]):
        assert why(pod, events) == f"FailedResourceClaimCreation: {claim.message}"
    assert why(pod, [event("FailedScheduling", "of another pod", uid="u-2")]) == UNSCHEDULED


@pytest.mark.parametrize(
    ("pod", "events", "line", "words"),
    [
        pytest.param(
            typed_pod("Pending", init=(container("fetch-artifact", WAITING),)),
            [event("Scheduled", "assigned"), event("FailedMount", "no mount-s3", 1)],
            "",
            ["FailedMount: no mount-s3"],
            id="volume",
        ),
        pytest.param(
            typed_pod("Pending", container("vllm", NO_IMAGE), init=(FETCHED, KEEPING)),
            [],
            "",
            ["vllm ImagePullBackOff: Back-off pulling: 403"],
            id="image",
        ),
        pytest.param(
            typed_pod("Pending", container("vllm", WAITING), init=(FETCHING,)),
            [],
            "waiting for s3://bucket/compiled/key/",
            ["fetch-artifact runs: waiting for s3://bucket/compiled/key/"],
            id="graph",
        ),
        pytest.param(
            typed_pod(
                "Running",
                container("vllm", BACK_OFF, last=CRASHED, restarts=4),
                init=(FETCHED, KEEPING),
            ),
            [],
            "",
            ["CrashLoopBackOff", "restarted 4 times", "status 1", "nrt_init failed"],
            id="crash loop",
        ),
        pytest.param(
            typed_pod(
                "Running",
                container("vllm", BACK_OFF, last=ended(137, reason="OOMKilled"), restarts=1),
                init=(FETCHED, KEEPING),
            ),
            [],
            "",
            ["status 137 (OOMKilled)"],
            id="memory",
        ),
        pytest.param(
            typed_pod("Running", LOADING, init=(FETCHED, KEEPING)),
            [event("Unhealthy", "Startup probe failed: refused")],
            "Loading weights: 40 %",
            ["vllm starts: Loading weights: 40 %: Startup probe failed: refused"],
            id="starts",
        ),
        pytest.param(
            typed_pod(
                "Running",
                container("vllm", RUNNING, started=True, ready=True),
                init=(FETCHED, container("keep-cache", RUNNING, started=True)),
            ),
            [],
            "uploads graph 3 of 9",
            ["keep-cache runs: uploads graph 3 of 9"],
            id="sidecar",
        ),
        pytest.param(
            typed_pod("Failed", reason="Evicted", message="The node was low on resource: disk. "),
            [],
            "",
            ["failed: Evicted: The node was low on resource: disk."],
            id="evicted",
        ),
        pytest.param(
            typed_pod("Failed", init=(container("fetch-artifact", {"terminated": ended(69)}),)),
            [],
            "",
            ["failed: fetch-artifact ended with status 69"],
            id="failed",
        ),
    ],
)
def test_what_is_on_a_node_says_how_its_container_is(
    pod: V1Pod, events: list[CoreV1Event], line: str, words: list[str]
) -> None:
    reason = why(pod, events, line) or ""
    assert [word for word in words if word not in reason] == [], reason


@pytest.mark.parametrize(
    ("phase", "containers"), [("Succeeded", []), ("Running", [container(ready=True)])]
)
def test_what_is_ready_or_has_ended_well_has_no_reason(
    phase: str, containers: list[dict[str, Any]]
) -> None:
    assert why(typed_pod(phase, *containers), [event("Unhealthy", "an old one")]) is None


def test_the_container_whose_log_says_more() -> None:
    waits = container("vllm", WAITING)
    assert working(typed_pod("Pending", waits, init=(FETCHING,))) == "fetch-artifact"
    assert working(typed_pod("Pending", waits, init=(FETCHED, KEEPING))) is None
    assert working(typed_pod("Pending", LOADING, init=(FETCHED, KEEPING))) == "vllm"
