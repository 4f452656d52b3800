"""The script that restarts the services, against what stands in for the API server."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from charts.benchmark import CONFIG_PATH
from charts.scripts.relaunch import Deployments, relaunch, services
from experiment import Experiment
from tests.synthesis import by_name, render


class Api(HTTPServer):
    """One Deployment, ``sd``, whose new pod is ready after some looks. It counts them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.generation, self.looks, self.ready_after = 1, 0, 3
        self.asked: list[tuple[str, str, str | None]] = []

    def deployment(self) -> dict[str, Any]:
        self.looks += 1
        replaced, ready = self.looks > 1, self.looks > self.ready_after
        return {
            "metadata": {"generation": self.generation},
            "spec": {"replicas": 1},
            "status": {
                # At first, all that it tells is of the old pod.
                "observedGeneration": self.generation if replaced else self.generation - 1,
                "replicas": 1,
                "updatedReplicas": 1,
                **({"readyReplicas": 1} if ready or not replaced else {}),
            },
        }


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert [*change["spec"]["template"]["metadata"]["annotations"]]
        self.server.generation += 1
        self._answer()

    def _answer(self) -> None:
        self.server.asked.append((self.command, self.path, self.headers["Authorization"]))
        known = self.path.endswith("/sd")
        self.send_response(200 if known else 403)
        self.end_headers()
        looked = self.server.deployment() if self.command == "GET" else {}
        self.wfile.write(json.dumps(looked).encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def deployments(api: Api, tmp_path: Path) -> Deployments:
    for name, text in (("namespace", "qwen"), ("token", "sesame")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Deployments(f"http://127.0.0.1:{api.server_port}", tmp_path)


def test_it_returns_once_new_pods_are_ready(api: Api, deployments: Deployments) -> None:
    assert relaunch(["sd"], deployments, poll_seconds=0.01) == []
    path = "/apis/apps/v1/namespaces/qwen/deployments/sd"
    assert api.asked == [(m, path, "Bearer sesame") for m in ("PATCH", "GET", "GET", "GET", "GET")]


def test_it_says_what_was_not_restarted(api: Api, deployments: Deployments) -> None:
    api.ready_after = 10**6
    assert relaunch(["sd"], deployments, limit_seconds=0.1, poll_seconds=0.01) == [
        "sd: after 0 s: its new pod is not ready"
    ]
    (problem,) = relaunch(["another"], deployments)
    assert problem == "another was not restarted: HTTP Error 403: Forbidden"


Vary = Callable[[dict[str, Any]], Experiment]


def test_a_pod_that_launches_its_services_may_patch_these_alone(variation: Vary) -> None:
    objects = by_name(render(variation({"benchmark.rounds": 6, "benchmark.launches": 3})))
    name = "qwen-llmperf"
    pod, settings = objects["Pod", name], objects["ConfigMap", name]["data"]
    assert json.loads(settings["config.json"])["load"]["launches"] == 3
    assert pod["spec"]["automountServiceAccountToken"] is True
    account = pod["spec"]["serviceAccountName"]
    others = [
        spec
        for (kind, of), manifest in objects.items()
        if kind in ("Pod", "Job", "Deployment") and of != name
        for spec in [manifest["spec"]["template"]["spec"]]
    ]
    assert account not in {spec["serviceAccountName"] for spec in others}
    assert {spec["automountServiceAccountToken"] for spec in others} == {False}
    assert objects["Role", name]["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments"],
            "resourceNames": ["qwen-vllm", "qwen-sd-vllm"],
            "verbs": ["get", "patch"],
        }
    ]
    binding = objects["RoleBinding", name]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", name)
    assert [subject["name"] for subject in binding["subjects"]] == [account]
    (container,) = pod["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    command, _, path = (variables["RELAUNCH"] or "").partition(" ")
    folder, _, script = path.rpartition("/")
    assert (command, folder, script in settings) == ("python", CONFIG_PATH, True)
    assert services(json.loads(settings["config.json"])) == ["qwen-vllm", "qwen-sd-vllm"]
