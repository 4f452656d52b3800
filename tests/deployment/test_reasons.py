"""Why a pod is not ready, of what the scheduler, the claim controller and kubelets write.

The scheduler's messages are those of a real one (``tests/cluster/test_reasons.py`` asks it again).
What kubelets write is modelled on the source that ``deployment.reasons`` names.
"""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import CoreV1Event

from deployment.reasons import why, working
from tests.deployment.kube import container, ended, event, pod, unplaced

PREEMPTION = " no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is..."
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINT = "node(s) had untolerated taint(s)"
RUNNING = {"running": {"startedAt": "2026-11-22T10:00:00Z"}}
WAITING = {"waiting": {"reason": "PodInitializing"}}
FETCHED = container("fetch-artifact", {"terminated": ended(0)}, ready=True)
KEEPING = container("keep-cache", RUNNING, started=True, ready=True)


@pytest.mark.parametrize(
    ("message", "group", "words"),
    [
        (
            f"0/2 nodes are available: 2 {AFFINITY}.{PREEMPTION}",
            "trainium",
            "no Trainium node is ready: their group is at 0, or the node is on its way",
        ),
        (
            f"0/3 nodes are available: 1 {TAINT}, 2 {AFFINITY}.{PREEMPTION}",
            "compile",
            "no compile node is ready: their group is at 0, or the node is on its way",
        ),
        (
            "no nodes available to schedule pods",
            None,
            "no system node is ready: they are on their way, or cordoned",
        ),
        (
            f"0/2 nodes are available: 1 Insufficient memory, 1 {AFFINITY}.{PREEMPTION}",
            "trainium",
            "the Trainium node has too little memory free",
        ),
        (
            f"0/2 nodes are available: 1 Insufficient cpu, 1 {TAINT}.{PREEMPTION}",
            None,
            "the system node has too few CPUs free",
        ),
        (
            f"0/2 nodes are available: 1 cannot allocate all claims, 1 {AFFINITY}. still not "
            "schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful",
            "trainium",
            "the Trainium node has too few free devices for its claim",
        ),
        (
            "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, "
            f"1 {AFFINITY}.{PREEMPTION}",
            "trainium",
            "waits until the pod that compiles or measures on the Trainium node has ended",
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "models" not found. not found',
            "trainium",
            'has no place: persistentvolumeclaim "models" not found',
        ),
        (
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            "trainium",
            "its volume is not bound to its claim yet",
        ),
    ],
)
def test_no_place(message: str, group: str | None, words: str) -> None:
    assert why(pod(unplaced(message), node=None, group=group)) == words


def _pending(*statuses: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "phase": "Pending",
        "initContainerStatuses": [*init],
        "containerStatuses": [*statuses],
    }


VLLM_WAITS = container("vllm", WAITING)
CRASHED = ended(1, message="Traceback\nRuntimeError: nrt_init failed")
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting ..."}}


@pytest.mark.parametrize(
    ("status", "events", "said", "words"),
    [
        pytest.param({"phase": "Pending"}, [], None, "its containers are made", id="just bound"),
        pytest.param(
            _pending(VLLM_WAITS, init=(container("fetch-artifact", WAITING),)),
            [event("Scheduled", "Successfully assigned", type="Normal")],
            None,
            "its containers are made",
            id="containers are made",
        ),
        pytest.param(
            _pending(VLLM_WAITS, init=(container("fetch-artifact", WAITING),)),
            [
                event("Scheduled", "assigned", type="Normal", lastTimestamp="2026-11-22T09:59:00Z"),
                event("FailedMount", 'MountVolume.SetUp failed for volume "models": no mount-s3'),
            ],
            None,
            'a volume is not mounted: MountVolume.SetUp failed for volume "models": no mount-s3',
            id="volume",
        ),
        pytest.param(
            _pending(VLLM_WAITS, init=(container("fetch-artifact", WAITING),)),
            [event("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: strict")],
            None,
            "its devices are not prepared: Failed to prepare dynamic resources: strict",
            id="claim not prepared",
        ),
        pytest.param(
            _pending(VLLM_WAITS, init=(FETCHED, KEEPING)),
            [event("Pulling", 'Pulling image "neuron"', type="Normal")],
            None,
            'brings an image: Pulling image "neuron"',
            id="image comes",
        ),
        pytest.param(
            _pending(
                container(
                    "vllm",
                    {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling: 403"}},
                ),
                init=(FETCHED, KEEPING),
            ),
            [],
            None,
            "the image of vllm does not come: Back-off pulling: 403",
            id="image does not come",
        ),
        pytest.param(
            _pending(VLLM_WAITS, init=(container("fetch-artifact", RUNNING, started=True),)),
            [],
            "waiting for s3://bucket/compiled/key/",
            "fetch-artifact runs: waiting for s3://bucket/compiled/key/",
            id="graph",
        ),
        pytest.param(
            _pending(container("vllm", BACK_OFF, last=CRASHED, restarts=4), init=(FETCHED, KEEPING))
            | {"phase": "Running"},
            [],
            None,
            "vllm ended with status 1: RuntimeError: nrt_init failed (restarted 4 times), and is "
            "tried again in a while",
            id="crash loop",
        ),
        pytest.param(
            _pending(
                container("vllm", BACK_OFF, last=ended(137, reason="OOMKilled"), restarts=1),
                init=(FETCHED, KEEPING),
            ),
            [],
            None,
            "vllm was killed: it took more memory than its limit (status 137) (restarted once), "
            "and is tried again in a while",
            id="memory",
        ),
        pytest.param(
            _pending(container("vllm", RUNNING, started=False), init=(FETCHED, KEEPING))
            | {"phase": "Running"},
            [
                event("Unhealthy", "Startup probe failed: refused", path="spec.containers{vllm}"),
                event("Unhealthy", "Readiness probe failed", path="spec.containers{keep-cache}"),
            ],
            "Loading weights: 40 %",
            "vllm starts: Startup probe failed: refused; Loading weights: 40 %",
            id="starts",
        ),
        pytest.param(
            _pending(
                container("vllm", RUNNING, started=True, restarts=2, last=CRASHED),
                init=(FETCHED, KEEPING),
            ),
            [event("Unhealthy", "of another pod", uid="u-2", path="spec.containers{vllm}")],
            None,
            "vllm runs: restarted 2 times, the last one ended with status 1: "
            "RuntimeError: nrt_init failed",
            id="restarted",
        ),
        pytest.param(
            _pending(
                container("vllm", RUNNING, started=True, ready=True),
                init=(FETCHED, container("keep-cache", RUNNING, started=True)),
            ),
            [],
            "uploads graph 3 of 9",
            "keep-cache runs: uploads graph 3 of 9",
            id="sidecar is not ready",
        ),
        pytest.param(
            _pending(
                container("vllm", {"waiting": {"reason": "CreateContainerConfigError"}}),
                init=(FETCHED, KEEPING),
            ),
            [],
            None,
            "vllm: CreateContainerConfigError: no more is said",
            id="configuration",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "The node was low on resource: ephemeral-storage. ",
            },
            [],
            None,
            "was evicted: The node was low on resource: ephemeral-storage.",
            id="evicted",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "reason": "DeadlineExceeded",
                "message": "Pod was active on the node longer than the specified deadline",
            },
            [],
            None,
            "failed (DeadlineExceeded): Pod was active on the node longer than the specified "
            "deadline",
            id="deadline",
        ),
        pytest.param(
            _pending(init=(container("fetch-artifact", {"terminated": ended(69)}),))
            | {"phase": "Failed"},
            [],
            None,
            "failed: fetch-artifact ended with status 69",
            id="failed",
        ),
    ],
)
def test_on_a_node(
    status: dict[str, Any], events: list[CoreV1Event], said: str | None, words: str
) -> None:
    assert why(pod(status), events, said) == words


def test_a_claim_without_its_template_is_said_by_the_claim_controller() -> None:
    said = 'PodResourceClaim devices: resource claim template "xl-trn2": not found'
    waiting = pod({"phase": "Pending"}, node=None)
    assert why(waiting) == "waits for the scheduler"
    assert why(waiting, [event("FailedResourceClaimCreation", said)]) == (
        f"its device claim is not made: {said}"
    )


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]},
        {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    ],
)
def test_what_is_ready_or_has_ended_well_has_no_reason(status: dict[str, Any]) -> None:
    assert why(pod(status), [event("Unhealthy", "an old one")]) is None


def test_the_newest_event_counts() -> None:
    earlier, later = "2026-11-22T10:00:00Z", "2026-11-22T10:00:30Z"
    events = [
        event("FailedMount", "not registered", lastTimestamp=earlier),
        event("Pulling", 'Pulling image "aws-cli"', type="Normal", lastTimestamp=later),
    ]
    status = _pending(VLLM_WAITS, init=(container("fetch-artifact", WAITING),))
    for ordered in (events, events[::-1]):
        assert why(pod(status), ordered) == 'brings an image: Pulling image "aws-cli"'


def test_the_container_whose_log_says_more() -> None:
    fetching = _pending(VLLM_WAITS, init=(container("fetch-artifact", RUNNING),))
    assert working(pod(fetching)) == "fetch-artifact"
    assert working(pod(_pending(VLLM_WAITS, init=(FETCHED, KEEPING)))) is None
    loading = _pending(container("vllm", RUNNING, started=False), init=(FETCHED, KEEPING))
    assert working(pod(loading)) == "vllm"
