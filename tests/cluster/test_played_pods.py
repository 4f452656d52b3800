"""Pods that are played by programs of this machine, as the API server and its clients see them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rehearsal.cluster import hardware
from rehearsal.cluster.disk import Container
from rehearsal.cluster.kubelet import Kubelets
from rehearsal.cluster.programs import Program
from rehearsal.process.ports import lasting_port
from tests.cluster.api import Cluster, Manifest, Refused

NODE: Final = "played"
NAMESPACE: Final = "default"
Spec = dict[str, Any]


class AsTheySay:
    """Runs each container's own command. Its port, if it has one, is on loopback."""

    def program(self, container: Container) -> Program:
        """Read as ``StandIns.program``."""
        folders = {
            f"AT{path.upper().replace('/', '_')}": str(folder)
            for path, folder in container.mounts.items()
        }
        variables = {"PATH": os.environ["PATH"], **container.environment, **folders}
        port = container.environment.get("PORT")
        url = f"http://127.0.0.1:{port}" if port else None
        probe = container.spec.get("readinessProbe", {}).get("exec", {}).get("command", ())
        return Program(container.command, variables, url=url, probe=probe)


@pytest.fixture(scope="module")
def played(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelets]:
    """The kubelets of one node."""
    if cluster.plane.lent:
        pytest.skip("a lent cluster does not reach a kubelet on this machine")
    room = hardware.allocatable(4, 16, disk_gib=100, pods=58)
    node = hardware.node(NODE, "m7i.xlarge", "us-east-2a", room, labels={}, taints=[])
    with Kubelets(cluster, AsTheySay(), tmp_path_factory.mktemp("pods")) as kubelets:
        kubelets.nodes.add(node)
        cluster.until(
            lambda: cluster.get("ServiceAccount", "default", NAMESPACE), "the pods' account"
        )
        yield kubelets
        for pod in cluster.all("Pod", NAMESPACE):
            cluster.delete(pod, gracePeriodSeconds=0)
        kubelets.nodes.forget(NODE)


@pytest.fixture
def play(cluster: Cluster, played: Kubelets) -> Callable[..., Callable[[], Manifest]]:
    """Makes a pod of these containers on that node; what it gives asks for the pod."""

    def make(name: str, *containers: Spec, **settings: Any) -> Callable[[], Manifest]:
        spec = {
            "nodeName": NODE,
            "restartPolicy": "Never",
            "containers": [*containers],
            **settings,
        }
        metadata = {"name": name, "namespace": NAMESPACE}
        cluster.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, NAMESPACE
        )

        def look() -> Manifest:
            played.check()
            found = cluster.get("Pod", name, NAMESPACE)
            assert found is not None
            return found

        return look

    return make


def container(name: str, script: str, **settings: Any) -> Spec:
    """A container that runs a script of the shell."""
    return {"name": name, "image": "any", "command": ["/bin/bash", "-c", script], **settings}


def until_phase(cluster: Cluster, look: Callable[[], Manifest], phase: str) -> Manifest:
    cluster.until(lambda: look()["status"].get("phase") == phase, f"phase {phase}")
    return look()


def test_containers_begin_in_their_order_and_share_a_volume(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    mount = {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}
    look = play(
        "ordered",
        container("main", 'cat "$AT_NOTES/order"', **mount),
        initContainers=[
            container("first", 'echo first >>"$AT_NOTES/order"', **mount),
            container("second", 'echo second >>"$AT_NOTES/order"', **mount),
        ],
        volumes=[{"name": "notes", "emptyDir": {}}],
    )
    until_phase(cluster, look, "Succeeded")
    assert cluster.kubectl("logs", "ordered", "--namespace", NAMESPACE) == "first\nsecond\n"


def test_a_log_is_followed_to_its_end_by_way_of_the_api_server(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    look = play("talks", container("main", "echo one; sleep 1; echo two"))
    cluster.until(lambda: look()["status"].get("phase") == "Running", "its start")
    said = cluster.kubectl("logs", "--follow", "talks", "--namespace", NAMESPACE)
    assert said == "one\ntwo\n"
    tail = cluster.kubectl("logs", "--tail=1", "talks", "--namespace", NAMESPACE)
    assert tail == "two\n"
    with pytest.raises(Refused, match="not understood: sinceSeconds"):
        cluster.kubectl("logs", "--since=1m", "talks", "--namespace", NAMESPACE)


def test_a_failed_container_is_started_again_and_its_earlier_log_is_kept(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    once = 'test -e "$AT_NOTES/tried" || { touch "$AT_NOTES/tried"; echo no; exit 3; }; sleep 60'
    look = play(
        "again",
        container("main", once, volumeMounts=[{"name": "notes", "mountPath": "/notes"}]),
        restartPolicy="OnFailure",
        volumes=[{"name": "notes", "emptyDir": {}}],
    )
    cluster.until(
        lambda: look()["status"].get("containerStatuses", [{}])[0].get("restartCount") == 1,
        "its second start",
    )
    (status,) = look()["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["exitCode"] == 3
    before = cluster.kubectl("logs", "--previous", "again", "--namespace", NAMESPACE)
    assert before == "no\n"


def test_a_pod_that_is_not_to_be_started_again_fails(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    look = play(
        "fails",
        container("main", "echo never"),
        initContainers=[container("first", "exit 75")],
    )
    failed = until_phase(cluster, look, "Failed")
    (status,) = failed["status"]["initContainerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 75
    (main,) = failed["status"]["containerStatuses"]
    assert main["state"]["waiting"]["reason"] == "PodInitializing"


def test_a_sidecar_ends_with_the_pod(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    look = play(
        "beside",
        container("main", "sleep 1"),
        initContainers=[container("sidecar", "sleep 600", restartPolicy="Always")],
    )
    over = until_phase(cluster, look, "Succeeded")
    (status,) = over["status"]["initContainerStatuses"]
    assert "terminated" in status["state"] or "waiting" in status["state"]


def test_a_pod_is_ready_once_its_server_answers(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    port = lasting_port()
    probe = {"httpGet": {"path": "/", "port": 8000}}
    serve = f"sleep 2; exec {sys.executable} -m http.server {port} --bind 127.0.0.1"
    look = play(
        "serves",
        container("main", serve, readinessProbe=probe, env=[{"name": "PORT", "value": str(port)}]),
    )
    until_phase(cluster, look, "Running")
    assert not _ready(look())
    cluster.until(lambda: _ready(look()), "it is ready")


def test_a_pod_is_ready_once_the_command_of_its_probe_says_so(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    asked = {"exec": {"command": ["/bin/bash", "-c", 'test -e "$AT_NOTES/ready"']}}
    mount = {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}
    script = 'sleep 2; touch "$AT_NOTES/ready"; sleep 600'
    look = play(
        "settles",
        container("main", script, readinessProbe=asked, **mount),
        volumes=[{"name": "notes", "emptyDir": {}}],
    )
    until_phase(cluster, look, "Running")
    assert not _ready(look())
    cluster.until(lambda: _ready(look()), "it is ready")


def test_a_container_waits_for_its_config_map(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]]
) -> None:
    look = play(
        "waits",
        container(
            "main", 'cat "$AT_TOLD/word"', volumeMounts=[{"name": "told", "mountPath": "/told"}]
        ),
        volumes=[{"name": "told", "configMap": {"name": "told"}}],
    )

    def reason() -> str:
        statuses = look()["status"].get("containerStatuses")
        return str(statuses[0]["state"].get("waiting", {}).get("reason")) if statuses else ""

    cluster.until(lambda: reason() == "CreateContainerConfigError", "that it says so")
    metadata = {"name": "told", "namespace": NAMESPACE}
    cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"word": "hello"}},
        NAMESPACE,
    )
    until_phase(cluster, look, "Succeeded")
    assert cluster.kubectl("logs", "waits", "--namespace", NAMESPACE) == "hello"


def test_nothing_of_a_deleted_pod_runs(
    cluster: Cluster, play: Callable[..., Callable[[], Manifest]], tmp_path: Path
) -> None:
    alive = tmp_path / "alive"
    look = play(
        "goes", container("main", f"touch {alive}; trap 'rm {alive}' EXIT; sleep 600 & wait")
    )
    cluster.until(alive.exists, "its program runs")
    cluster.delete(look())
    cluster.until(lambda: cluster.get("Pod", "goes", NAMESPACE) is None, "its end")
    assert not alive.exists()


def _ready(pod: Manifest) -> bool:
    found = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
    return found.get("Ready") == "True"
