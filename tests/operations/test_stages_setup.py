"""What comes before anything costs: stacks in every state, objects that are gone, the bucket."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from operations import cluster, lifecycle
from operations.account import Deployment, DeploymentError
from operations.lifecycle import Stack
from operations.preflight.check import ok, refused, warning
from operations.stages import setup
from operations.stages.setup import Check, Compile, Download, Restore
from stacks.limits import LAST_APPLIED
from tests.operations.api import Objects, path
from tests.operations.conftest import at, called, performed, put, rendered, with_cluster
from tests.operations.fake_aws import FakeAws
from tests.operations.operators import write_assembly
from tests.run_make import contents


def test_a_deploy_that_goes_on_is_waited_for(
    aws: FakeAws, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = ["CREATE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS", "ROLLBACK_COMPLETE"]
    stack = aws.cloudformation.add("network", states[0])

    def change(moment: str) -> None:
        if moment == "before" and aws.calls[-1] == "cloudformation:DescribeStacks":
            stack.status = states.pop(0) if states else stack.status

    aws.boundary = change
    monkeypatch.setattr(setup, "checks", lambda _: [ok("asked")])
    assert "article-network is CREATE_IN_PROGRESS" in performed(Check(deployment))
    assert stack.status == "ROLLBACK_COMPLETE"

    findings = [ok("well"), warning("dear", "pay less"), refused("taken", "give it another name")]
    monkeypatch.setattr(setup, "checks", lambda _: findings)
    with pytest.raises(DeploymentError, match="1 of 3 checks refuse"):
        performed(Check(deployment))


def test_a_stack_is_unchanged_only_at_rest_with_the_same_template(
    aws: FakeAws, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CloudFormation keeps ASCII of a template's body."""
    aws.cloudformation.add("a", body={"Resources": {"Alarm": {"Text": "Gr??e ?", "Value": 1}}})
    monkeypatch.setattr(lifecycle, "assembly", lambda _: tmp_path)
    for status, value, unchanged in (
        ("UPDATE_COMPLETE", 1, True),  # text beyond ASCII is not deployed each time
        ("UPDATE_COMPLETE", 2, False),
        ("ROLLBACK_COMPLETE", 1, False),
        (None, 1, False),
    ):
        template = {"Resources": {"Alarm": {"Text": "Größe 🎉", "Value": value}}}
        (tmp_path / "article-a.template.json").write_text(json.dumps(template, ensure_ascii=False))
        stack = Stack("article-a", deployment.region, status)
        assert lifecycle.unchanged(deployment, stack) is unchanged


def test_a_synthesis_in_another_terminal_takes_nothing_from_a_command(
    deployment: Deployment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without an account manifests are expressions, as CloudFormation has them."""
    status = 0

    def cli(words: Sequence[str], **_: object) -> CompletedProcess[str]:
        folder = Path(words[words.index("--output") + 1])
        if status == 0:
            (folder / "dist").mkdir(parents=True)
            (folder / "dist" / "0000-namespace.k8s.yaml").touch()
            write_assembly(folder, deployment.experiment, ["serving"], [])
            if "account=none" in words:
                serving = folder / "article-serving.template.json"
                serving.write_text(serving.read_text().replace('"[]"', '{"Fn::Join": []}'))
        said = "\nA warning\nSupply a stack id (a, b)" if status == 0 else "Other CLIs are reading"
        return CompletedProcess([*words], status, "", f"{said}\n")

    monkeypatch.setattr(lifecycle, "ROOT", tmp_path)
    monkeypatch.setattr(lifecycle, "run", cli)
    lifecycle.synthesised(deployment)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "0009-stale.k8s.yaml").touch()
    (tmp_path / "dist" / "spectap.whl").touch()
    assert called("synth", deployment.file) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("cdk.out/article-none/: 1 templates; dist/: 1 manifests\n")
    assert printed.err == "A warning\n"
    assert lifecycle.manifests(deployment) == []

    # Nor does one that fails, at the file or at what another CLI works with.
    written, status = contents(tmp_path), 1
    assert {*contents(tmp_path / "dist")} == {"0000-namespace.k8s.yaml", "spectap.whl"}
    (tmp_path / "broken.yaml").write_text("name: [")
    for words, line in (
        ((deployment.file,), "Other CLIs are reading"),
        ((str(tmp_path / "broken.yaml"),), "broken.yaml"),
        ((deployment.file, "--account", "../12"), "ACCOUNT = '../12': must be 12 digits, or none"),
    ):
        assert called("synth", *words) == 1
        (error,) = capsys.readouterr().err.splitlines()
        assert line in error
    assert contents(tmp_path).items() - {("broken.yaml", b"name: [")} == written.items()

    shutil.rmtree(tmp_path / "cdk.out")
    with pytest.raises(DeploymentError, match="maybe another command writes or removes it"):
        lifecycle.manifests(deployment)


@pytest.fixture
def manifests(
    aws: FakeAws,
    deployment: Deployment,
    api: Objects,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[dict[str, Any]]:
    """All of them, in the assembly and in the cluster."""
    with_cluster(aws)
    manifests = rendered(deployment.experiment)
    write_assembly(tmp_path, deployment.experiment, ["serving"], manifests)
    monkeypatch.setattr(lifecycle, "assembly", lambda _: tmp_path)
    for manifest in manifests:
        api.named[path(manifest)] = manifest
    return manifests


def test_what_is_gone_is_made_again_as_the_deploy_made_it(
    deployment: Deployment, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    stage = Restore(deployment)
    assert f"all {len(manifests)} exist" in performed(stage)
    assert api.created == []

    api.named = dict.fromkeys(api.named)
    assert "Pod qwen-llmperf" in performed(stage)
    for created, expected in zip(api.created, manifests, strict=True):
        assert json.loads(created["metadata"]["annotations"][LAST_APPLIED]) == expected
        assert created.get("spec") == expected.get("spec")
    assert "POST /api/v1/namespaces" in api.requests
    assert "POST /api/v1/namespaces/speculative-decoding/pods" in api.requests


def test_objects_of_groups_and_kinds_that_few_have_are_asked_for(
    aws: FakeAws, api: Objects
) -> None:
    with_cluster(aws)
    deployment = at({"benchmark.rounds": 6, "benchmark.launches": 3})
    with cluster.connected(deployment) as client:
        for manifest in rendered(deployment.experiment):
            api.named[path(manifest)] = None
            assert cluster.find(client, manifest) is None
    paths = {request.partition("/apis/")[2] for request in api.requests}
    assert {
        "rbac.authorization.k8s.io/v1/namespaces/speculative-decoding/roles/qwen-llmperf",
        "admissionregistration.k8s.io/v1/validatingadmissionpolicies/"
        "speculative-decoding-relaunches",
    } <= paths


def test_one_that_is_being_deleted_is_waited_for(
    deployment: Deployment, api: Objects, manifests: list[dict[str, Any]]
) -> None:
    (policy,) = (m for m in manifests if m["metadata"]["name"] == "default-deny")
    ending = {**policy["metadata"], "deletionTimestamp": "2026-11-22T10:00:00Z"}
    key, looks = "networkpolicies/default-deny", iter([True])
    api.named[key] = {**policy, "metadata": ending}

    def go(name: str) -> None:
        """It is still there when it is first looked at."""
        if name == "default-deny" and not next(looks, False):
            api.named[key] = None

    api.on_read = go
    output = performed(Restore(deployment))
    assert "still being deleted: NetworkPolicy default-deny" in output
    assert [created["kind"] for created in api.created] == ["NetworkPolicy"]


def test_checkpoints_and_graphs_are_there_with_their_markers(
    aws: FakeAws, deployment: Deployment
) -> None:
    download, compile_ = Download(deployment), Compile(deployment)
    # Without a bucket nothing is there.
    assert (download.existing(), compile_.existing()) == (None, None)
    assert download.prefixes == [
        "models/Qwen/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137/",
        "models/Qwen/Qwen3-1.7B/70d244cc86ccca08cf5af4e1e306ecf908b1ad5e/",
    ]
    put(aws, *(f"{prefix}config.json" for prefix in download.prefixes))
    put(aws, f"{download.prefixes[0]}_COMPLETE")
    assert download.existing() is None
    put(aws, f"{download.prefixes[1]}_COMPLETE")
    assert download.existing() == "checkpoints: 2"

    put(aws, *(f"{prefix}_COMPLETE" for prefix in compile_.prefixes))
    assert compile_.existing() == "graphs: 2"
