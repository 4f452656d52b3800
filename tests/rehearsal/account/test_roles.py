"""What runs in the containers' places: the pods' own scripts, or a stand-in that is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from charts.names import QUALITY_JOB
from experiment import load
from experiment.smoke import REQUESTS
from experiment.variants import variants
from rehearsal.account.roles.table import ROLES
from rehearsal.account.small import IMAGE, write_small
from tests.experiment.files import EXPERIMENTS
from tests.matrix import MATRIX
from tests.synthesis import ROOT, Synthesised, containers


@pytest.mark.parametrize("name", MATRIX)
def test_every_container_has_a_stand_in_or_is_a_script(name: str, of_matrix: Any) -> None:
    for component, container in _containers(of_matrix(name)):
        script = container.get("command", [])[:1] == ["/bin/bash"]
        assert script or (component, container["name"]) in ROLES, container["name"]


def test_every_stand_in_is_of_a_container_that_there_is(of_matrix: Any) -> None:
    found = {
        (component, container["name"])
        for name in MATRIX
        for component, container in _containers(of_matrix(name))
    }
    assert set(ROLES) <= found


@pytest.mark.parametrize("file", sorted(path.name for path in EXPERIMENTS.glob("*.yaml")))
def test_the_rehearsed_experiment_is_small_and_needs_no_docker(file: str, tmp_path: Path) -> None:
    own = load(str(EXPERIMENTS / file))
    small = load(str(write_small(str(EXPERIMENTS / file), tmp_path)))
    assert small.benchmark.image == IMAGE
    assert small.benchmark.requests == REQUESTS
    assert [its.artifact for its in variants(small)] == [its.artifact for its in variants(own)]
    assert (small.name, small.workload, small.apart) == (own.name, own.workload, own.apart)


def test_the_compiler_leaves_each_part_of_an_artifact(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rehearsal.account.compiler", str(tmp_path)]
    subprocess.run([*command, "model.pt", "weights"], cwd=ROOT, check=True)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        "model.pt",
        "weights/shard",
    }


def _containers(synthesised: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those of all pods that ``make experiment`` runs, with the value of the label."""
    for kind in ("Pod", "Deployment", "Job"):
        for manifest in synthesised.objects(kind):
            pod = manifest if kind == "Pod" else manifest["spec"]["template"]
            if manifest["metadata"]["name"].startswith(QUALITY_JOB):
                continue  # suspended until somebody starts it
            for container in containers(pod["spec"]):
                yield pod["metadata"]["labels"]["component"], container
