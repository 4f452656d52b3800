"""What commands and pods install: all of it, and all of it pinned by version and hash."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from charts import scripts as pod_scripts
from charts.pods import PYTHON
from tests.charts.conftest import SCRIPTS
from tests.synthesis import ROOT, Synthesised
from tools import lock

PACKAGE = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n"
)
CONSTRAINTS = ROOT / lock.LOCKS / "constraints.txt"


def exact(path: Path) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)(?:\[\w+\])?==(\S+)$", path.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def modules_of(path: Path) -> set[str]:
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("name", lock.COMMANDS)
def test_commands_install_what_is_asked_for_at_the_constrained_versions(name: str) -> None:
    """A changed line of such a file or of constraints.txt needs ``make locks``."""
    text = (ROOT / lock.LOCKS / f"{name}.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
    assert locked.items() >= exact(ROOT / lock.COMMANDS[name]).items()
    versions = exact(CONSTRAINTS)
    assert {package: versions.get(package, pin) for package, pin in locked.items()} == locked
    assert len(re.findall(r"^\S+==.*\\\n    --hash=sha256:", text, re.MULTILINE)) == len(locked)


@pytest.mark.parametrize("name", lock.COMPLETE)
def test_a_lock_of_complete_requirements_has_them_all_by_hash(name: str) -> None:
    """A changed line of such a file needs ``make locks``."""
    text = (ROOT / f"{name}.lock").read_text()
    hashed = re.findall(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:", text, re.MULTILINE)
    assert dict(hashed) == exact(ROOT / f"{name}.txt")
    assert len(hashed) == text.count("==")


def test_a_lock_has_what_its_script_asks_for_and_what_that_needs() -> None:
    """A changed line of requirements-*.txt or constraints.txt needs ``make locks``."""
    header, _, packages = pod_scripts.read()["download.lock"].partition("make locks\n")
    assert all(line.startswith("#") for line in header.splitlines())
    assert f"/python:{lock.PYTHON}-" in PYTHON
    assert PACKAGE.sub("", packages) == ""
    locked = {match["name"]: match["version"] for match in PACKAGE.finditer(packages)}
    lines = (SCRIPTS / "requirements-download.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    imported = modules_of(SCRIPTS / "download.py") - sys.stdlib_module_names
    asked_for = {canonicalize_name(requirement.name) for requirement in requirements}
    assert {canonicalize_name(module) for module in imported} <= asked_for
    for requirement in requirements:
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])
    # The pods run what the tests run.
    versions = exact(CONSTRAINTS)
    assert {package: versions.get(package, pin) for package, pin in locked.items()} == locked
    assert {"boto3", "botocore", "huggingface-hub"} <= locked.keys() & versions.keys()


def test_scripts_and_locks_fit_where_kubectl_keeps_them(synthesised: Synthesised) -> None:
    """As an annotation, which holds 256 KiB: what was applied last, beside the thing itself."""
    config_map = synthesised.object("ConfigMap", "scripts")
    assert config_map["data"] == pod_scripts.read()
    assert len(json.dumps(json.dumps(config_map))) < 128 * 2**10
