"""`make diff`: which pods a deploy replaces, and what it prints and writes."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import cdk8s
import pytest

from charts.manifests import charts
from charts.names import Deployed
from experiment.loader import parse
from tests.experiment.files import ARTICLE_TEXT, edited
from tools import diff, effects
from tools.effects import DiffWarning

EXPERIMENT: Final = "experiments/article.yaml"
OLD: Final = "experiments/old.yaml"
OLD_TEXT: Final = ARTICLE_TEXT.replace("name: article", "name: old")
NODE_MODULES: Final = diff.ROOT / "node_modules" / ".bin"


def rendered(folder: Path, changes: dict[str, Any], image: str = "image:1") -> effects.Objects:
    """The manifests of the article's experiment with these changes."""
    app = cdk8s.App(outdir=str(folder))
    charts(app, parse(edited(changes), "mine.yaml"), Deployed("bucket", image))
    app.synth()
    return effects.read(folder)


@pytest.fixture(scope="module")
def article(tmp_path_factory: pytest.TempPathFactory) -> effects.Objects:
    return rendered(tmp_path_factory.mktemp("article"), {})


def on_pods(old: effects.Objects, new: effects.Objects) -> dict[str, str]:
    return {name: effect for _, name, effect in effects.on_pods(old, new)}


def test_another_window_compiles_one_graph_and_restarts_both_services(
    article: effects.Objects, tmp_path: Path
) -> None:
    new = rendered(tmp_path, {"speculation.num_speculative_tokens": 5})
    assert on_pods(article, new) == {
        # Both services take a window less than is compiled.
        "qwen-vllm": "restarts, its graph is there",
        "qwen-sd-vllm": "restarts, once its graph is compiled",
        "compile-qwen-sd-vllm": "runs again",
        "qwen-llmperf": "is configured anew: the next make experiment begins a new run",
    }


def test_a_pod_takes_another_image_and_nothing_else(
    article: effects.Objects, tmp_path: Path
) -> None:
    image = on_pods(article, rendered(tmp_path, {}, image="image:2"))
    assert image == {"qwen-llmperf": "restarts with another image, if it still runs"}
    pod = article["Pod", "qwen-llmperf"]
    other = {**pod, "metadata": {**pod["metadata"], "name": "qwen-llmperf-00000000"}}
    replaced = on_pods(article, {**article, ("Pod", "qwen-llmperf"): other})
    assert replaced == {
        "qwen-llmperf": "is replaced: ends a measurement that runs, and begins a new one"
    }
    # What one side alone has starts or ends.
    without = {key: each for key, each in article.items() if key[0] != "Deployment"}
    services = [name for kind, name in article if kind == "Deployment"]
    assert on_pods(article, without) == dict.fromkeys(services, "ends")
    assert on_pods(without, article) == dict.fromkeys(services, "starts, its graph is there")


def test_text_inside_a_template_is_taken_apart() -> None:
    manifest = {"Fn::Join": ["", ['[{"a": "', {"Ref": "Account"}, '", "b": "1\\n2"}]']]}
    expected = [{"a": "${Ref.Account}", "b": ["1", "2"]}]
    assert diff.unfold({"Manifest": manifest}) == {"Manifest": expected}


def _template(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Resources": {"A": {"Type": kind, "Properties": properties}}}


def _cluster(version: str = "1.34", **access: Any) -> dict[str, Any]:
    return _template("AWS::EKS::Cluster", Version=version, ResourcesVpcConfig=access)


@pytest.mark.parametrize(
    ("before", "after", "opened"),
    [
        ({"EndpointPublicAccess": False}, {"EndpointPublicAccess": True}, "0.0.0.0/0"),
        (
            {"EndpointPublicAccess": True, "PublicAccessCidrs": ["192.0.2.1/32"]},
            {"EndpointPublicAccess": "true", "PublicAccessCidrs": ["192.0.2.1/32", "10.0.0.0/8"]},
            "10.0.0.0/8",
        ),
        (None, {"EndpointPublicAccess": True, "PublicAccessCidrs": ["10.0.0.0/8"]}, "10.0.0.0/8"),
        (None, {"EndpointPublicAccess": False}, None),
        ({"EndpointPublicAccess": True}, {"EndpointPublicAccess": False}, None),
        (
            {"EndpointPublicAccess": True, "PublicAccessCidrs": ["203.0.112.0/23"]},
            {"EndpointPublicAccess": True, "PublicAccessCidrs": ["203.0.113.0/24"]},
            None,
        ),
    ],
)
def test_an_api_that_more_may_reach_is_a_warning(
    before: dict[str, Any] | None, after: dict[str, Any], opened: str | None
) -> None:
    old = [] if before is None else [_cluster(**before)]
    warnings = [*effects.of_templates(old, [_cluster(**after)])]
    assert warnings == ([DiffWarning("api", f"to {opened}")] if opened else [])


def test_nodes_that_keep_the_old_kubernetes_are_named() -> None:
    group = "AWS::EKS::Nodegroup"
    follows = _template(group, Version="1.35")
    stays = _template(group, ReleaseVersion="1.34.2-20260714")
    old, new = _cluster(), _cluster("1.35")
    (warning,) = effects.of_templates([old, follows], [new, follows])
    assert warning == ("kubernetes", "1.34 -> 1.35; all nodes follow")
    (warning,) = effects.of_templates([old, stays], [new, stays])
    assert warning == ("kubernetes", "1.34 -> 1.35; nodes that stay behind: A (1.34)")
    (warning,) = effects.of_templates([old], [new, _template(group)])
    assert warning.detail.endswith("A (as at its creation)")


def test_what_is_lost_and_what_is_paid_is_a_warning(tmp_path: Path) -> None:
    text = """IAM Statement Changes
│ + │ arn │
[-] AWS::S3::Bucket Models ModelsA1 orphan
[~] AWS::EKS::Nodegroup Trainium/Nodes NodesB2 replace
 └─ [~] CapacityType (requires replacement)
[~] AWS::EKS::Addon coredns coredns
[-] AWS::SNS::Topic Alarms AlarmsC3 destroy"""
    assert dict(effects.of_differences([("a-stack", text), ("b-stack", "[+] x y")])) == {
        "orphaned": "a-stack: AWS::S3::Bucket Models ModelsA1",
        "replaced": "a-stack: AWS::EKS::Nodegroup Trainium/Nodes NodesB2",
        "destroyed": "a-stack: AWS::SNS::Topic Alarms AlarmsC3",
        "iam": "a-stack",
    }
    prompts = [
        f"IAM Statement Changes\n│ {sign} │ key/{number:064x} │\n│   │ more │"
        for sign, number in (("+", 1), ("-", 2))
    ]
    assert not [*effects.of_differences([("a-stack", "\n".join(prompts))])]
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(ARTICLE_TEXT)
    new.write_text(ARTICLE_TEXT.replace("nodes: 1", "nodes: 2"))
    assert [*effects.of_files(old, old)] == []
    ((kind, detail),) = effects.of_files(old, new)
    assert kind == "cost"
    assert detail == (
        "1 x trn2.48xlarge (on-demand), 858.26 USD a day while they run -> "
        "2 x trn2.48xlarge (on-demand), 1716.52 USD a day while they run"
    )


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The article's experiment committed as ``main``, in the place of this repository."""
    path, scratch = tmp_path / "repository", tmp_path / "scratch"
    scratch.mkdir()
    (path / EXPERIMENT).parent.mkdir(parents=True)
    (path / EXPERIMENT).write_text(ARTICLE_TEXT)
    (path / OLD).write_text(OLD_TEXT)
    author = ("-c", "user.name=Author", "-c", "user.email=a@example.com")
    commit = (*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=Base")
    for words in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"), commit):
        subprocess.run(["git", *words], cwd=path, check=True)
    (path / OLD).unlink()
    monkeypatch.setattr(diff, "ROOT", path)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("PATH", f"{NODE_MODULES}{os.pathsep}{os.environ['PATH']}")
    return path


def synthesise(tree: Path, file: str, output: Path) -> None:
    """Writes what differs by the window alone, for the CLI's own diff."""
    (window,) = re.findall(r"num_speculative_tokens: (\d+)", (tree / file).read_text())
    pod = {"kind": "Job", "metadata": {"name": "a"}, "window": window}
    assembly, artifacts = output / "cdk.out", {}
    for folder in (assembly, assembly / "dist"):
        folder.mkdir(parents=True)
    (assembly / "dist" / "0001-llmperf.k8s.yaml").write_text(json.dumps(pod))
    for name, manifest in (("article-serving", json.dumps([pod])), ("article-network", "[]")):
        everything = {"Type": "Custom::Any", "Properties": {"Manifest": manifest}}
        template = assembly / f"{name}.template.json"
        template.write_text(json.dumps({"Resources": {"Everything": everything}}))
        artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "environment": "aws://a/b",
            "properties": {"templateFile": template.name},
        }
    text = json.dumps({"version": "38.0.0", "artifacts": artifacts})
    (assembly / "manifest.json").write_text(text)


def test_names_exactly_what_a_shorter_window_changes(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diff, "_synthesise", synthesise)
    shorter = ARTICLE_TEXT.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5")
    (repository / EXPERIMENT).write_text(shorter)
    written = repository.parent / "diff.json"
    assert diff.main(["main", EXPERIMENT, "--verbose", f"--json={written}"]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^\[(.)\] \S+ (\S+)", printed, re.MULTILINE) == [("~", "Everything")]
    lines = [line.strip() for line in printed.splitlines()]
    # In a manifest within a template, and in the file.
    assert '[-]     "window": "7"' in lines
    assert any(re.match(r"\+ +num_speculative_tokens: 5", line) for line in lines)
    assert "+++ after/manifests/0001-llmperf.k8s.yaml" in lines
    assert str(repository.parent) not in printed
    (file,) = json.loads(written.read_text())["files"]
    assert (file["file"], file["status"], file["warnings"]) == (EXPERIMENT, "changed", [])
    titles = [section["title"] for section in file["sections"]]
    assert titles == ["The experiment file", "article-serving", "Manifests"]
    assert not list((repository.parent / "scratch").iterdir())
    # At home the details are left out.
    assert diff.main(["main", EXPERIMENT]) == 0
    assert capsys.readouterr().out == (
        f"{EXPERIMENT}: changed\n  Differs: {', '.join(titles)} (VERBOSE=1 shows how)\n\n"
    )


@pytest.mark.parametrize(
    ("changes", "listed", "touched"),
    [
        ({}, "", []),
        ({EXPERIMENT: ARTICLE_TEXT + "#\n"}, "", [EXPERIMENT]),
        ({"experiments/mine.yaml": ARTICLE_TEXT}, "", ["experiments/mine.yaml"]),
        ({"experiments/mine-smoke.yaml": ARTICLE_TEXT}, "", []),
        ({"experiments/values.yaml": "a: 1\n"}, "", []),
        # A file of prompts is a part of the experiments that name it.
        (
            {
                "experiments/mine.yaml": "models:\n  file: 'ours.jsonl'",
                "experiments/ours.jsonl": "{}",
            },
            "",
            ["experiments/mine.yaml"],
        ),
        ({"docs/cost.md": "", "tests/test_x.py": "", "CHANGELOG.md": ""}, EXPERIMENT, []),
        ({"stacks/cluster.py": ""}, "", [EXPERIMENT]),
        ({"stacks/cluster.py": ""}, "experiments/a.yaml, experiments/b.yaml", ["a", "b"]),
    ],
)
def test_what_a_change_touches_is_compared(
    repository: Path,
    changes: dict[str, str],
    listed: str,
    touched: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (repository / OLD).write_text(OLD_TEXT)
    for file, text in changes.items():
        (repository / file).parent.mkdir(exist_ok=True)
        (repository / file).write_text(text)
    monkeypatch.setenv("EXPERIMENTS", listed)
    expected = [name if "/" in name else f"experiments/{name}.yaml" for name in touched]
    assert diff.touched("main", repository) == expected


def test_files_of_one_side_alone_have_their_line(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diff, "_synthesise", synthesise)
    new = ARTICLE_TEXT.replace("name: article", "name: new")
    (repository / "experiments" / "added.yaml").write_text(new)
    (repository / "experiments" / "bad.yaml").write_text("models: 5\n")
    assert diff.main(["main"]) == 1
    printed = capsys.readouterr()
    assert "experiments/added.yaml: added, 55" in printed.out
    assert (
        "its stacks: article-serving, article-network\n"
        "  Warning: Trainium nodes cost another amount: none -> 1 x trn2.48xlarge (on-demand), "
        "858.26 USD a day while they run\n"
        "  Job        a: starts\n"
    ) in printed.out
    assert f"{OLD}: removed, no deploy deletes its stacks: make destroy does" in printed.out
    assert printed.err.startswith("experiments/bad.yaml: failed, experiments/bad.yaml:1: ")


@pytest.mark.parametrize("given", ["", OLD, "experiments/moved.yaml"])
def test_a_renamed_file_is_compared_with_the_old_one(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str,
) -> None:
    monkeypatch.setattr(diff, "_synthesise", synthesise)
    moved = OLD_TEXT.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5")
    (repository / "experiments" / "moved.yaml").write_text(moved)
    assert diff.main(["main", *filter(None, [given])]) == 0
    assert capsys.readouterr().out == (
        f"experiments/moved.yaml: changed, renamed from {OLD}; its stacks are the same\n"
        "  Differs: The experiment file, article-serving, Manifests (VERBOSE=1 shows how)\n\n"
    )


def test_what_cannot_be_compared_is_said_in_a_line(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = repository.parent / "cdk"
    cli.write_text('#!/bin/sh\ncase "$PWD" in */base) ;; *) eval "$REFUSE";; esac\n')
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cli.parent}{os.pathsep}{os.environ['PATH']}")
    exited = "python3 app.py: Subprocess exited with error"
    failed = "experiments/none.yaml: failed, neither main nor the working tree has it"
    refused = f"{EXPERIMENT}: failed, the working tree does not synthesise: "
    for arguments, refuse, expected in (
        (["nowhere", EXPERIMENT], "", "no such revision: nowhere\n"),
        (["main", "experiments/none.yaml"], "", f"{failed}\n"),
        (["main", EXPERIMENT], f"echo 'a\nb\n{exited} 1' >&2; exit 1", f"{refused}a\nb\n"),
        # What ended an app, or the CLI, may leave no word of its own.
        (["main", EXPERIMENT], f"echo {exited} 137 >&2; exit 1", f"{refused}{exited} 137\n"),
        (["main", EXPERIMENT], "kill -9 $$", f"{refused}cdk synth ended with -9\n"),
    ):
        monkeypatch.setenv("REFUSE", refuse)
        assert diff.main(arguments) == 1
        assert capsys.readouterr().err == expected


def test_each_side_reads_its_own_spectap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cdk = tmp_path / "bin" / "cdk"
    cdk.parent.mkdir()
    cdk.write_text('#!/bin/sh\nprintf %s "$PYTHONPATH" > seen\n')
    cdk.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cdk.parent}{os.pathsep}{os.environ['PATH']}")
    for side in ("before", "after"):
        (tmp_path / side).mkdir()
        diff._synthesise(tmp_path / side, EXPERIMENT, tmp_path / "output")
        seen = (tmp_path / side / "seen").read_text()
        assert seen == str(tmp_path / side / "packages" / "spectap" / "src")
