"""What the API server says to the manifests, to the commands that a stack puts out, and to us."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from operations.pods import reason as reason_of
from stacks.limits import ANNOTATIONS, annotations
from tests.cluster.api import NAMESPACE, Cluster, Manifest, Refused
from tests.cluster.deployment import deployed, node_with_label, objects, pods, typed
from tests.cluster.kubelets import Kubelets
from tests.synthesis import Synthesised


@pytest.fixture(scope="module")
def by_the_handler(cluster: Cluster, kubelets: Kubelets, manifests: Path) -> Iterator[Path]:
    """The article's manifests, applied as the CDK's handler applies them."""
    with deployed(cluster, manifests, server_side=False):
        yield manifests


def test_a_second_deploy_changes_nothing(cluster: Cluster, by_the_handler: Path) -> None:
    output = cluster.apply(by_the_handler, server_side=False)
    assert [line for line in output if not line.endswith(" unchanged")] == []
    assert len(output) == len(objects(by_the_handler))


def test_another_run_is_another_pod(
    cluster: Cluster, by_the_handler: Path, synthesised: Synthesised
) -> None:
    node_with_label(cluster, "app", "qwen-llmperf")
    before = _benchmark(cluster)
    typed(cluster, synthesised.template("serving")["Outputs"]["Command5Again"]["Value"])
    node_with_label(cluster, "app", "qwen-llmperf")
    after = _benchmark(cluster)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["containers"] == before["spec"]["containers"]


def test_another_specification_is_another_pod_and_the_old_one_goes(
    cluster: Cluster, by_the_handler: Path, tmp_path: Path
) -> None:
    """A deploy with more memory for the pod: kubectl apply refuses to change a pod in place."""
    before = _benchmark(cluster)
    name = before["metadata"]["name"]
    (file,) = (f for f in by_the_handler.glob("*.yaml") if name in f.read_text(encoding="utf-8"))
    text = file.read_text(encoding="utf-8").replace(name, f"{name[:-8]}00000000")
    changed = tmp_path / file.name
    changed.write_text(text.replace("memory: 4Gi", "memory: 5Gi"), encoding="utf-8")
    # The handler prunes by a label of its own.
    prune = ("--prune", "--selector=app=qwen-llmperf")
    cluster.kubectl("apply", "--filename", str(changed), *prune)
    cluster.until(lambda: _benchmark(cluster)["metadata"]["name"] != name or None, "the old to go")


def test_an_object_is_applied_up_to_the_size_that_synthesis_allows(
    cluster: Cluster, by_the_handler: Path, tmp_path: Path
) -> None:
    metadata = {"name": "large", "namespace": NAMESPACE, "annotations": {"of": "<é>"}}
    large = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    text = "<é&>"
    text += "x" * (ANNOTATIONS - annotations(large | {"data": {"a": text}}))
    file = tmp_path / "large.json"
    for more, refused in (("", False), ("x", True)):
        file.write_text(json.dumps(large | {"data": {"a": text + more}}), encoding="utf-8")
        words = pytest.raises(Refused, match="Too long") if refused else contextlib.nullcontext()
        with words:
            cluster.kubectl("apply", "--filename", str(file))
    cluster.kubectl("delete", "--filename", str(file))


def _benchmark(cluster: Cluster) -> Manifest:
    (pod,) = pods(cluster, "app", "qwen-llmperf")
    return pod


TRAINIUM = {
    "nodeSelector": {"speculative-decoding/node-group": "trainium"},
    "tolerations": [{"key": "aws.amazon.com/neuron", "operator": "Exists"}],
}


def _restricted(resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "c", "image": "any", "securityContext": security, "resources": resources}
    return {"containers": [container], **spec}


@pytest.fixture
def reason(cluster: Cluster, by_the_handler: Path) -> Iterator[Any]:
    created: list[Manifest] = []

    def ask(spec: dict[str, Any], word: str) -> str:
        metadata = {"name": f"asked-{len(created)}", "namespace": NAMESPACE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        created.append(cluster.create(pod, NAMESPACE))
        api = cluster.client.client
        api.namespace = NAMESPACE

        def look() -> str | None:
            read = CoreV1Api(api).read_namespaced_pod(metadata["name"], NAMESPACE)
            explanation = reason_of(api, read)
            return explanation if explanation and word in explanation else None

        return cluster.until(look, f"{word!r} as the reason")

    yield ask
    for pod in created:
        cluster.delete(pod)


def test_the_newest_event_says_why(reason: Any) -> None:
    volume = [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]
    claims = [{"name": "d", "resourceClaimTemplateName": "absent"}]
    for memory, spec, event, words in (
        ("9Ti", TRAINIUM, "FailedScheduling", "Insufficient memory"),
        ("1Mi", {"volumes": volume}, "FailedScheduling", '"absent" not found'),
        ("1Mi", {"resourceClaims": claims}, "FailedResourceClaimCreation", 'template "absent"'),
    ):
        amount = {"memory": memory}
        resources = {"requests": amount, "limits": amount}
        assert words in reason(_restricted(resources, **spec), event)
