"""A stage that cannot reach its end says why, and ends only what is of no more use."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final

import pytest
from botocore.awsrequest import AWSResponse

from charts.indexes import NEVER
from charts.names import DEVICES, NODE_GROUP_LABEL, TRAINIUM_NODES
from charts.namespace import DRIVER
from deployment import guard, nodes
from deployment.account import Deployment, DeploymentError
from deployment.bucket import Bucket
from deployment.nodes import Kind
from deployment.stages import command
from deployment.stages.measure import Serve
from deployment.stages.nodes import Start, why_no_nodes
from deployment.stages.prepare import Compile
from deployment.stages.stage import Context, Progress, Stage, StageFailed
from rehearsal.aws.client import Aws
from tests.deployment import account
from tests.deployment.account import sizes
from tests.deployment.api import Objects
from tests.deployment.conftest import At, performed
from tests.deployment.kube import RUNNING, container, ended, meta, pod

JOB: Final = "compile-qwen-vllm-1"
POD: Final = f"{JOB}-x"
CRASHED: Final = container(
    "vllm", {"waiting": {"reason": "CrashLoopBackOff"}}, last=ended(3), restarts=3
)


@pytest.fixture
def deployed(aws: Aws, at: At, api: Objects) -> Callable[..., Deployment]:
    """Makes deployments whose node groups exist, with so many Trainium nodes."""
    assert api.url

    def make(name: str, size: int = 0, changes: dict[str, Any] | None = None) -> Deployment:
        deployment = at(name, changes)
        account.groups(aws, deployment)
        if size:
            account.scale(aws, deployment, size)
        return deployment

    return make


class Changing(dict[str, list[dict[str, Any]]]):
    """A Job that runs when it is first looked at, and has failed later."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        if key != "jobs":
            return super().get(key, default)
        self.looks += 1
        reason = {"reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
        given_up = [{"type": "Failed", "status": "True", **reason}] if self.looks > 3 else []
        return [{"metadata": meta(JOB, {"step": "compile"}), "status": {"conditions": given_up}}]


def test_a_compile_that_failed_has_its_last_words_and_no_node(
    deployed: Callable[..., Deployment], api: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = deployed("broken")
    died = container("compile", {"terminated": ended(1)})
    labels = {"step": "compile", "batch.kubernetes.io/job-name": JOB}
    api.lists = Changing(pods=[pod(POD, labels, "Failed", died)])
    api.logs[f"{POD}/compile"] = "loading\nthe compiler left no model.pt\n"
    with pytest.raises(StageFailed, match=f"{JOB} failed: BackoffLimitExceeded"):
        performed(Compile(Context(deployment)), sys.stdout)
    shown = capsys.readouterr().out
    assert f"{POD}, container compile, ended with status 1" in shown
    assert "the compiler left no model.pt" in shown
    assert sizes(deployment) == {"trainium": 0, "compile": 0}


def activity(deployment: Deployment, status: str, message: str) -> None:
    """The newest of every Auto Scaling group."""
    newest = {"StatusCode": status, "StatusMessage": message}
    answer = (AWSResponse("", 200, {}, None), {"Activities": [newest]})
    event = "before-call.auto-scaling.DescribeScalingActivities"
    deployment.client("autoscaling").meta.events.register(event, lambda **_: answer)


def test_nodes_that_can_never_start_are_not_left_to_start_later(
    deployed: Callable[..., Deployment],
) -> None:
    deployment = deployed("over-quota")
    activity(deployment, "Failed", "VcpuLimitExceeded: you have requested more vCPU capacity")
    with pytest.raises(StageFailed, match="the trainium nodes cannot start: VcpuLimitExceeded"):
        performed(Start(Context(deployment)))
    assert sizes(deployment)["trainium"] == 0


def test_what_failed_earlier_does_not_fail_a_start(deployed: Callable[..., Deployment]) -> None:
    deployment = deployed("granted")
    activity(deployment, "InProgress", "")

    def add(parsed: dict[str, Any], **_: Any) -> None:
        issue = {"code": "VcpuLimitExceeded", "message": "it failed"}
        parsed["nodegroup"]["health"] = {"issues": [issue]}

    deployment.client("eks").meta.events.register("after-call.eks.DescribeNodegroup", add)
    group = nodes.find(deployment, Kind.TRAINIUM)
    assert [*why_no_nodes(deployment, group)] == ["no node yet: VcpuLimitExceeded: it failed"]


def test_who_does_not_wait_for_the_last_screen_still_gets_the_ways_on(
    deployed: Callable[..., Deployment],
) -> None:
    deployment = deployed("hasty")

    def again(**_: Any) -> None:
        raise KeyboardInterrupt

    events = deployment.client("eks").meta.events
    events.register("before-call.eks.DescribeNodegroup", again)
    lines = [*command.running(deployment)]
    assert "  nodes: not asked" in lines
    assert f"To end the nodes: make stop EXPERIMENT={deployment.file}" in lines


def nodes_with_devices(*states: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """A Trainium node, and pods on it whose containers for the devices are like these."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    pool = {"name": "trainium-0", "generation": 1, "resourceSliceCount": 1}
    labels = {NODE_GROUP_LABEL: TRAINIUM_NODES}
    pods = [
        pod(f"qwen-vllm-{number}", {"app": "qwen-vllm"}, "Pending", init=(status,))
        for number, status in enumerate(container(DEVICES, **state) for state in states)
    ]
    for each in pods:
        each["spec"]["initContainers"] = [{"name": DEVICES}]
    return {
        "nodes": [{"metadata": meta("trainium-0", labels), "status": ready}],
        "resourceslices": [{"spec": {"driver": DRIVER, "nodeName": "trainium-0", "pool": pool}}],
        "pods": pods,
    }


OPENED: Final = {"state": {"terminated": ended(0)}}
REFUSED: Final = {"state": {"terminated": ended(NEVER)}}
RESTARTED: Final = {
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "last": ended(NEVER),
}


@pytest.mark.parametrize(
    ("states", "log"),
    [
        ([REFUSED], f"qwen-vllm-0/{DEVICES}"),
        ([RESTARTED], f"qwen-vllm-0/{DEVICES}/previous"),
        ([OPENED, REFUSED], f"qwen-vllm-1/{DEVICES}"),
    ],
    ids=["refused", "restarted", "beside one that opened them"],
)
def test_devices_that_a_pod_may_not_open_fail_the_start(
    deployed: Callable[..., Deployment], api: Objects, states: list[dict[str, Any]], log: str
) -> None:
    deployment = deployed(f"closed-{len(states)}-{len(log)}")
    api.lists = nodes_with_devices(*states)
    api.logs[log] = "neuron-ls\nuser 10001 cannot open 8 of 8 devices\n"
    with pytest.raises(StageFailed, match=r"user 10001 cannot open 8 of 8 devices$"):
        performed(Start(Context(deployment)))


def test_nodes_are_started_once_a_pod_has_opened_their_devices(
    deployed: Callable[..., Deployment], api: Objects
) -> None:
    deployment = deployed("open", 1)
    stage = Start(Context(deployment))
    api.lists = nodes_with_devices(OPENED)
    assert stage.existing() is None  # unguarded
    guard.start(deployment, Kind.TRAINIUM, 1)
    assert "1 x trn2.48xlarge" in (stage.existing() or "")
    api.lists = nodes_with_devices({"state": RUNNING})
    assert stage.existing() is None


def test_a_service_that_never_serves_is_given_up_and_its_node_stays(
    deployed: Callable[..., Deployment], api: Objects
) -> None:
    deployment = deployed("crashing", 1)
    api.lists["pods"] = [pod("qwen-vllm-1", {"app": "qwen-vllm"}, "Running", CRASHED)]
    api.logs["qwen-vllm-1/vllm/previous"] = "nrt_init failed\n"
    with pytest.raises(StageFailed) as failure:
        performed(Serve(Context(deployment)))
    assert str(failure.value).splitlines() == [
        "qwen-vllm does not come to serve: 3 restarts",
        "qwen-vllm-1, container vllm, ended with status 3",
        "  nrt_init failed",
    ]
    assert sizes(deployment)["trainium"] == 1


def test_services_whose_nodes_are_gone_are_not_waited_for(
    deployed: Callable[..., Deployment],
) -> None:
    with pytest.raises(StageFailed, match="were scaled to 0 meanwhile"):
        performed(Serve(Context(deployed("fallen"))))


def test_services_that_are_ready_exist(at: At, aws: Aws, api: Objects) -> None:
    deployment = at("ready")
    account.cluster(aws, deployment)

    def service(name: str, generation: int) -> dict[str, Any]:
        metadata = {"name": name, "generation": generation, "labels": {"component": "vllm"}}
        return {"metadata": metadata, "status": {"readyReplicas": 1, "observedGeneration": 2}}

    api.lists["deployments"] = [service("qwen-vllm", 2), service("qwen-sd-vllm", 3)]
    # A change of one is not carried out yet.
    assert Serve(Context(deployment)).existing() is None
    api.lists["deployments"] = [service("qwen-vllm", 2), service("qwen-sd-vllm", 2)]
    assert Serve(Context(deployment)).existing() == "qwen-vllm, qwen-sd-vllm are ready"


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Performs one stage, which fails; returns the exit status."""

    def fails(deployment: Deployment, error: DeploymentError, *, terminal: bool = False) -> int:
        class Failing(Stage):
            name: ClassVar[str] = "serve"

            def perform(self, progress: Progress) -> str:
                raise error

        monkeypatch.setattr(command, "stages", lambda context: [Failing(context)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal, raising=False)
        return command.experiment(deployment, yes=True, again=False)

    return fails


@pytest.mark.parametrize(
    ("then", "terminal", "error", "left"),
    [
        ("stop", True, StageFailed, 0),
        ("keep", False, StageFailed, 0),
        ("keep", True, StageFailed, 1),
        # A run in the cluster goes on without who is out of reach, and ends its nodes itself.
        ("stop", False, DeploymentError, 1),
    ],
)
def test_nodes_stay_only_for_somebody_who_wants_to_look(
    deployed: Callable[..., Deployment],
    fails: Callable[..., int],
    then: str,
    terminal: bool,
    error: type[DeploymentError],
    left: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"fails-{then}-{terminal}-{left}".lower()
    deployment = deployed(name, 1, {"capacity.after_failure": then})
    assert fails(deployment, error("it never serves"), terminal=terminal) == 1
    assert sizes(deployment)["trainium"] == left
    printed = capsys.readouterr()
    assert "it never serves" in printed.err
    assert "Warning: alerts.emails is empty: no alarm reaches anybody" in printed.out


def test_the_logs_are_in_the_bucket_first(
    aws: Aws,
    api: Objects,
    deployed: Callable[..., Deployment],
    fails: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    deployment = deployed("fails-logged", 1, {"alerts.emails": ["team@example.com"]})
    account.put(aws, deployment, "any")
    again = container("vllm", RUNNING, last=ended(3), restarts=1)
    api.lists["pods"] = [pod("qwen-vllm-1", {"app": "qwen-vllm"}, "Running", again)]
    api.logs["qwen-vllm-1/vllm"] = "starts\n"
    api.logs["qwen-vllm-1/vllm/previous"] = "nrt_init failed: Größe\n"

    assert fails(deployment, StageFailed("it never serves\n  a\x1b[2J\rb")) == 1

    bucket = Bucket(deployment)
    stored = {entry["Key"] for entry in bucket.entries("logs/")}
    assert {key.partition("/qwen")[2]: bucket.read(key) for key in stored} == {
        "-vllm-1/vllm.log": b"starts\n",
        "-vllm-1/vllm.previous.log": "nrt_init failed: Größe\n".encode(),
    }
    printed = capsys.readouterr()
    assert printed.err.startswith("it never serves\n  a\ufffd[2J\ufffdb\nlogs of all pods: s3://")
    assert "trainium nodes: scaled to 0 (capacity.after_failure)" in printed.err
    assert "no Trainium node and no compile node" in printed.out
    assert "alerts.emails is empty" not in printed.out


def test_logs_that_cannot_be_stored_keep_no_node(
    api: Objects,
    deployed: Callable[..., Deployment],
    fails: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    deployment = deployed("fails-unlogged", 1)
    api.refused.add("pods")
    assert fails(deployment, StageFailed("it never serves")) == 1
    assert "logs are not stored: " in capsys.readouterr().err
    assert sizes(deployment)["trainium"] == 0
