"""The app as a user runs it: through the real CDK CLI, with no account and no network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.charts.test_snapshots import CHARTS
from tests.conftest import edited
from tests.stacks.test_snapshots import STACKS
from tests.synthesis import ROOT

CLI = ROOT / "node_modules" / ".bin" / "cdk"
# Where jsii keeps the packages it has unpacked: without it each run would unpack 270 MB again.
PACKAGES = Path.home() / ".cache" / "aws" / "jsii" / "package-cache"


def cdk(*arguments: str, output: Path) -> subprocess.CompletedProcess[str]:
    """Run the pinned CLI with neither credentials nor a home to find any in."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(output.parent),
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(PACKAGES),
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        # Whatever would call AWS after all fails at once.
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NODE_OPTIONS": os.environ["NODE_OPTIONS"],
    }
    return subprocess.run(
        [str(CLI), "--no-lookups", "--no-notices", *arguments, "--output", str(output)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Everything the first synthesis writes."""
    return _synthesise(tmp_path_factory.mktemp("first"))


def test_synthesises_without_an_account(first: dict[str, bytes]) -> None:
    templates = [name for name in first if name.endswith(".template.json")]
    manifests = [name for name in first if name.endswith(".k8s.yaml")]
    assert (len(templates), len(manifests)) == (len(STACKS), len(CHARTS))


def test_a_second_run_changes_no_byte(
    first: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    second = _synthesise(tmp_path_factory.mktemp("second"))
    assert [name for name in first | second if first.get(name) != second.get(name)] == []


def test_no_stack_needs_to_know_its_account(first: dict[str, bytes]) -> None:
    assert b'"missing"' not in first["manifest.json"]
    assert b"aws://unknown-account/us-east-2" in first["manifest.json"]


def test_manifests_hold_a_placeholder_for_the_account(first: dict[str, bytes]) -> None:
    assert b"article-models-${AWS_ACCOUNT_ID}-us-east-2" in first["0002-model-store.k8s.yaml"]
    assert all(b"Token[" not in text for name, text in first.items() if name.endswith(".yaml"))


def test_a_refused_experiment_ends_in_one_line(tmp_path: Path) -> None:
    file = edited(tmp_path, {"serving.tensor_parallel": 16})
    result = cdk("--context", f"experiment={file}", "synth", "--quiet", output=tmp_path / "out")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    lines = file.read_text(encoding="utf-8").splitlines()
    [line] = [n for n, text in enumerate(lines, 1) if "tensor_parallel: 16" in text]
    assert f"{file}:{line}: serving.tensor_parallel = 16: must be 32" in result.stderr


def _synthesise(directory: Path) -> dict[str, bytes]:
    output = directory / "cdk.out"
    result = cdk("synth", "--quiet", output=output)
    assert result.returncode == 0, result.stderr
    written = [*output.glob("*.json"), *(directory / "dist").glob("*.k8s.yaml")]
    return {path.name: path.read_bytes() for path in written}
