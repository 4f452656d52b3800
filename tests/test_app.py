"""The app in this process, as the CDK's CLI runs it. The CLI itself is that of tests/plain_cdk."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_cdk import App

import app
from experiment import ACCOUNT_PLACEHOLDER, DEFAULT_FILE
from tests.charts.test_snapshots import CHARTS
from tests.conftest import edited
from tests.experiment.files import REGION
from tests.stacks.test_snapshots import STACKS
from tests.synthesis import ACCOUNT, CONTEXT, Synthesised

Main = Callable[[dict[str, str]], int]


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Main:
    """Runs the app in this process, as the CLI would with this context."""

    def run(context: dict[str, str]) -> int:
        output = str(tmp_path / "out")
        monkeypatch.setattr("app.cdk.App", lambda: App(context=CONTEXT | context, outdir=output))
        return app.main()

    return run


def test_synthesises_the_same_twice_without_an_account(
    main: Main, tmp_path: Path, synthesised: Synthesised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CDK_DEFAULT_ACCOUNT", raising=False)
    assert main({}) == 0
    output = tmp_path / "out"
    templates = {path.name: path.read_text() for path in output.glob("*.template.json")}
    assert len(templates) == len(STACKS)
    for name, text in templates.items():
        assert text == (synthesised.directory / name).read_text(), name
    manifests = {path.name: path.read_text() for path in (output / "dist").iterdir()}
    assert len(manifests) == len(CHARTS)
    assert f"article-models-${{AWS_ACCOUNT_ID}}-{REGION}" in manifests["0002-model-store.k8s.yaml"]
    for name, text in manifests.items():
        path = synthesised.directory.parent / "dist" / name
        # A sentence is wrapped at another word where an account is shorter than its placeholder.
        written = text.replace(ACCOUNT_PLACEHOLDER, ACCOUNT).split()
        assert written == path.read_text().split(), name
    manifest = (output / "manifest.json").read_text()
    # The CLI would look this up, for which it needs an account.
    assert '"missing"' not in manifest
    assert f"aws://unknown-account/{REGION}" in manifest


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
    assert f"cdk-mine-container-assets-{ACCOUNT}-{REGION}" in everything
    assert f'"BucketName": "article-models-{ACCOUNT}-{REGION}"' in everything


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
