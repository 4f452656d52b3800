"""The app as a user runs it: through the real CDK CLI, with no account and no network."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

import app
from experiment import ACCOUNT_PLACEHOLDER, DEFAULT_FILE
from tests.charts.test_snapshots import CHARTS
from tests.conftest import edited
from tests.stacks.test_snapshots import STACKS
from tests.synthesis import ACCOUNT, CONTEXT, ROOT, Synthesised

CLI = ROOT / "node_modules" / ".bin" / "cdk"


def cdk(*arguments: str, output: Path) -> subprocess.CompletedProcess[str]:
    """Run the pinned CLI with neither credentials nor a home to find any in."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(output.parent),
        # Where jsii keeps the packages it has unpacked: 270 MB.
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / ".cache/aws/jsii/package-cache"),
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


def test_synthesises_the_same_twice_without_an_account(
    tmp_path: Path, synthesised: Synthesised
) -> None:
    output = tmp_path / "cdk.out"
    result = cdk("synth", "--quiet", output=output)
    assert result.returncode == 0, result.stderr
    templates = {path.name: template(path) for path in output.glob("*.template.json")}
    assert len(templates) == len(STACKS)
    for name, content in templates.items():
        assert content == template(synthesised.directory / name), name
    manifests = {path.name: path.read_text() for path in (output / "dist").iterdir()}
    assert len(manifests) == len(CHARTS)
    assert "article-models-${AWS_ACCOUNT_ID}-us-east-2" in manifests["0002-model-store.k8s.yaml"]
    for name, text in manifests.items():
        path = synthesised.directory.parent / "dist" / name
        # A sentence is wrapped at another word where an account is shorter than its placeholder.
        written = text.replace(ACCOUNT_PLACEHOLDER, ACCOUNT).split()
        assert written == path.read_text().split(), name
    manifest = (output / "manifest.json").read_text()
    assert '"missing"' not in manifest
    assert "aws://unknown-account/us-east-2" in manifest


def template(path: Path) -> dict[str, Any]:
    """A template without the metadata by which the CLI finds constructs and assets."""
    content: dict[str, Any] = json.loads(path.read_text())
    for resource in content["Resources"].values():
        metadata = resource.pop("Metadata", {})
        ours = {key: value for key, value in metadata.items() if not key.startswith("aws:")}
        resource |= {"Metadata": ours} if ours else {}
    return content


Main = Callable[[dict[str, str]], int]


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Main:
    """Runs the app in this process, as the CLI would with this context."""

    def run(context: dict[str, str]) -> int:
        output = str(tmp_path / "out")
        monkeypatch.setattr("app.cdk.App", lambda: App(context=CONTEXT | context, outdir=output))
        return app.main()

    return run


def test_writes_into_its_output_alone_for_the_account_and_bootstrap_given(
    main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "dist" / "0001-foreign.k8s.yaml"
    foreign.parent.mkdir()
    foreign.touch()
    earlier = tmp_path / "out" / "dist" / "0099-earlier.k8s.yaml"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    # From the CLI, which has it from the credentials.
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", ACCOUNT)
    qualifier = {"@aws-cdk/core:bootstrapQualifier": "mine"}
    assert main({"experiment": DEFAULT_FILE} | qualifier) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"dist", "out"}
    assert [*foreign.parent.iterdir()] == [foreign]
    assert not earlier.exists()
    files = [*tmp_path.glob("out/*.json"), *tmp_path.glob("out/dist/*")]
    everything = "".join(path.read_text() for path in files)
    assert "hnb659fds" not in everything
    assert f"cdk-mine-container-assets-{ACCOUNT}-us-east-2" in everything
    assert f'"BucketName": "article-models-{ACCOUNT}-us-east-2"' in everything


def test_refusals_are_one_line(
    main: Main,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", ACCOUNT)
    file = str(edited(tmp_path, {"serving.tensor_parallel": 16}))
    for context, line in (
        ({"experiment": file}, r".*: serving.tensor_parallel = 16: must be 32.*"),
        ({"experiment": file, "account": "12"}, "account = '12': must be 12 digits, or none"),
        (
            {},
            f"experiment is not given, .* {ACCOUNT} .*: say -c experiment=FILE, .*{DEFAULT_FILE}.*",
        ),
    ):
        assert main(context) == 1
        assert re.fullmatch(f"{line}\n", capsys.readouterr().err)
