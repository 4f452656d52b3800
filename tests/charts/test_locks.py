"""What commands and pods install: all of it, and all of it pinned by version and hash."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from cdk8s import App
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from charts import scripts as pod_scripts
from charts.preparation import PreparationChart
from charts.quality import QualityChart
from charts.scripts import Scripts
from experiment import Experiment
from experiment.images import PYTHON
from scripts import lock
from tests.spectap.test_image import modules_of
from tests.synthesis import ROOT, Synthesised

SCRIPTS = ROOT / "charts" / "scripts"
# What decides in the pod which of its requirements a package has there.
POD = {
    "python_version": lock.PYTHON,
    "python_full_version": f"{lock.PYTHON}.0",
    "platform_machine": "x86_64",
    "platform_system": "Linux",
    "sys_platform": "linux",
}
PACKAGE = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?: \\\n    --hash=sha256:[0-9a-f]{64})+"
    r"\n    # via (?P<why>.+)\n"
)


@dataclass(frozen=True)
class Locked:
    """A line of a lock."""

    version: str
    why: frozenset[str]


def read(name: str) -> dict[str, Locked]:
    matches = PACKAGE.finditer(pod_scripts.read()[f"{name}.lock"])
    return {m["name"]: Locked(m["version"], frozenset(m["why"].split(", "))) for m in matches}


def direct(name: str) -> dict[str, Requirement]:
    lines = (SCRIPTS / f"requirements-{name}.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def exact(path: Path) -> dict[str, str]:
    """The version of each package that a file pins by ``==``."""
    pins = re.findall(r"^([\w.-]+)(?:\[\w+\])?==(\S+)$", path.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def constraints() -> dict[str, str]:
    return exact(ROOT / "constraints.txt")


def needs(name: str) -> dict[str, Requirement]:
    """What an installed package would need in the pod."""
    environment: Mapping[str, Any] = default_environment() | POD | {"extra": ""}
    needed = map(Requirement, metadata.requires(name) or ())
    return {
        canonicalize_name(requirement.name): requirement
        for requirement in needed
        if requirement.marker is None or requirement.marker.evaluate(dict(environment))
    }


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_commands_install_what_is_asked_for_at_the_constrained_versions(name: str) -> None:
    """A changed line of requirements*.txt or constraints.txt needs ``make locks``."""
    text = (ROOT / f"{name}.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
    assert locked.items() >= exact(ROOT / f"{name}.txt").items()
    versions = constraints()
    assert {package: versions.get(package, pin) for package, pin in locked.items()} == locked
    assert len(re.findall(r"^\S+==.*\\\n    --hash=sha256:", text, re.MULTILINE)) == len(locked)


each_lock = pytest.mark.parametrize("name", ["download", "quality"])


@each_lock
def test_a_lock_has_all_that_its_script_needs_and_nothing_else(name: str) -> None:
    """A changed line of requirements-*.txt or constraints.txt needs ``make locks``."""
    header, _, packages = pod_scripts.read()[f"{name}.lock"].partition("make locks\n")
    assert all(line.startswith("#") for line in header.splitlines())
    assert PACKAGE.sub("", packages) == ""
    locked, versions, asked_for = read(name), constraints(), direct(name)
    imported = set(modules_of(SCRIPTS / f"{name}.py")) - sys.stdlib_module_names
    assert {canonicalize_name(module) for module in imported} <= set(asked_for)
    for package, requirement in asked_for.items():
        assert requirement.specifier.contains(locked[package].version)
    source = f"-r charts/scripts/requirements-{name}.txt"
    assert {p for p, line in locked.items() if source in line.why} == set(asked_for)
    # The pods run what the tests run.
    installed = {package: versions[package] for package in locked if package in versions}
    assert {"boto3", "botocore", "huggingface-hub"} <= set(installed)
    assert {package: locked[package].version for package in installed} == installed
    for package, line in locked.items():
        assert line.why - {"-c constraints.txt"}
        assert line.why - {"-c constraints.txt", source} <= set(locked)
        if package not in versions:
            continue  # not installed here: what it needs is known to `make locks` alone
        for required, requirement in needs(package).items():
            assert package in locked[required].why
            assert requirement.specifier.contains(locked[required].version)


@each_lock
def test_the_pod_installs_its_lock_and_no_more(name: str, synthesised: Synthesised) -> None:
    job = {"download": "download", "quality": "qwen-lmeval"}[name]
    pod = synthesised.object("Job", job)["spec"]["template"]["spec"]
    *_, shell, _ = pod["containers"][0]["command"]
    install, _, program = shell.partition(" && ")
    assert install.endswith(
        f"--no-deps --require-hashes --only-binary :all: --requirement /scripts/{name}.lock"
    )
    assert f"/scripts/{name}.py" in program
    scripts = synthesised.object("ConfigMap", "scripts")["data"]
    assert scripts[f"{name}.lock"] == pod_scripts.read()[f"{name}.lock"]


@pytest.mark.parametrize("file", ["download.py", "download.lock", "quality.py", "quality.lock"])
def test_another_script_or_lock_is_another_job(file: str, article: Experiment) -> None:
    chart = PreparationChart if file.startswith("download") else QualityChart

    def jobs(scripts: Scripts) -> set[str]:
        objects = chart(App(), "chart", experiment=article, scripts=scripts).to_json()
        return {o["metadata"]["name"] for o in objects if o["kind"] == "Job"}

    assert len(jobs(pod_scripts.read()) - jobs({**pod_scripts.read(), file: "another"})) == 1


def test_locks_are_for_the_pods_python() -> None:
    assert f"/python:{lock.PYTHON}-" in PYTHON


def test_scripts_and_locks_fit_where_kubectl_keeps_them(synthesised: Synthesised) -> None:
    """As an annotation, which holds 256 KiB: what was applied last, beside the thing itself."""
    applied = json.dumps(synthesised.object("ConfigMap", "scripts"))
    assert len(json.dumps(applied)) < 128 * 2**10


def test_hashes_of_other_platforms_are_dropped() -> None:
    ours, theirs = "a" * 64, "b" * 64
    for hashes in ([ours, theirs], [theirs, ours], [theirs, ours, theirs]):
        lines = "".join(f" \\\n    --hash=sha256:{digest}" for digest in hashes)
        of_these = lock.of_these([ours], f"x==1{lines}\n    # via y\n")
        assert of_these == f"x==1 \\\n    --hash=sha256:{ours}\n    # via y\n"
