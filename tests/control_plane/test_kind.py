"""Which cluster of others the tests may use, and that they ask before they write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stacks.cluster import KUBERNETES_VERSION
from tests.control_plane.choice import chosen, kind_cluster, prepare
from tests.control_plane.programs import ControlPlaneError

KUBECTL = """#!/bin/sh
echo "$@" >> "$ASKED"
cat "$ANSWERS/$1.json"
"""


def environment(
    directory: Path,
    context: str = "kind-kind",
    server: str = "https://127.0.0.1:34567",
    version: str = f"v{KUBERNETES_VERSION}.1",
) -> dict[str, str]:
    """One whose kubectl, a stand-in, knows a cluster like this."""
    answers: dict[str, Any] = {
        "config": {"current-context": context, "clusters": [{"cluster": {"server": server}}]},
        "version": {"serverVersion": {"gitVersion": version}},
    }
    for name, answer in answers.items():
        (directory / f"{name}.json").write_text(json.dumps(answer))
    kubectl = directory / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    return {
        "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(directory / "config"),
        "ASKED": str(directory / "asked"),
        "ANSWERS": str(directory),
    }


def test_a_kind_cluster_is_taken(tmp_path: Path) -> None:
    with chosen(environment(tmp_path), tmp_path) as plane:
        assert plane.lent
        assert plane.kubeconfig == tmp_path / "config"
    questions = (tmp_path / "asked").read_text().splitlines()
    assert [question.split()[0] for question in questions] == ["config", "version"]


@pytest.mark.parametrize(
    ("differently", "message"),
    [
        ({"context": "production"}, "context production is not a kind cluster's"),
        ({"server": "https://10.0.0.1:6443"}, "at https://10.0.0.1:6443; must be on loopback"),
        ({"server": "https://127.0.0.1.example.com"}, "must be on loopback"),
        ({"version": "v1.34.2"}, f"is v1.34.2; must be v{KUBERNETES_VERSION}"),
    ],
)
def test_any_other_is_refused(differently: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match=message):
        prepare(environment(tmp_path, **differently))


def test_kubectl_must_be_there_and_its_words_are_passed_on(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match="no kubectl on the PATH"):
        kind_cluster({"PATH": str(tmp_path), "KUBECONFIG": "config"})
    asking = environment(tmp_path)
    (tmp_path / "kubectl").write_text("#!/bin/sh\necho 'error: no context' >&2\nexit 1\n")
    with pytest.raises(ControlPlaneError, match=r"^KUBECONFIG: error: no context$"):
        kind_cluster(asking)
