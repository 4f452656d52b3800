"""`make diff`: which pods a deploy replaces, and what it prints and writes."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from experiment import Experiment
from experiment.loader import parse
from tests.experiment.files import ARTICLE_TEXT, edited
from tests.operations.operators import write_assembly
from tests.synthesis import by_name, render
from tools import diff, effects
from tools.effects import DiffWarning

EXPERIMENT: Final = "experiments/article.yaml"
GONE: Final = "experiments/gone.yaml"
SHORTER: Final = ARTICLE_TEXT.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5")


def on_pods(old: effects.Objects, new: effects.Objects) -> dict[str, str]:
    return {pod.name: pod.effect for pod in effects.on_pods(old, new)}


def rendered(changes: dict[str, Any], tag: str = "1") -> effects.Objects:
    return by_name(render(parse(edited(changes), "mine.yaml"), tag=tag))


def test_pods_that_a_deploy_starts_replaces_or_ends() -> None:
    article = rendered({})
    window = rendered({"speculation.num_speculative_tokens": 5})
    assert on_pods(article, window) == {
        # Both services take a window less than is compiled.
        "qwen-vllm": "restarts",
        "qwen-sd-vllm": "restarts",
        "compile-qwen-sd-vllm": "runs again",
        "qwen-llmperf": "is configured anew: the next make experiment begins a new run",
    }
    image = on_pods(article, rendered({}, tag="2"))
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
    assert on_pods(without, article) == dict.fromkeys(services, "starts")


def test_text_inside_a_template_is_taken_apart() -> None:
    manifest = {"Fn::Join": ["", ['[{"a": "', {"Ref": "Account"}, '", "b": "1\\n2"}]']]}
    expected = [{"a": "${Ref.Account}", "b": ["1", "2"]}]
    assert diff.unfold({"Manifest": manifest}) == {"Manifest": expected}


def _template(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Resources": {"A": {"Type": kind, "Properties": properties}}}


def _cluster(version: str, public: object = True, *cidrs: str) -> dict[str, Any]:
    access = {"EndpointPublicAccess": public} | ({"PublicAccessCidrs": cidrs} if cidrs else {})
    return _template("AWS::EKS::Cluster", Version=version, ResourcesVpcConfig=access)


@pytest.mark.parametrize(
    ("before", "after", "opened"),
    [
        ([False], [True], "0.0.0.0/0"),
        ([True, "192.0.2.1/32"], ["true", "192.0.2.1/32", "10.0.0.0/8"], "10.0.0.0/8"),
        (None, [True, "10.0.0.0/8"], "10.0.0.0/8"),
        (None, [False], None),
        ([True], [False], None),
        ([True, "203.0.112.0/23"], [True, "203.0.113.0/24"], None),
    ],
)
def test_an_api_that_more_may_reach_is_a_warning(
    before: list[Any] | None, after: list[Any], opened: str | None
) -> None:
    old = [] if before is None else [_cluster("1.34", *before)]
    warnings = [*effects.of_templates(old, [_cluster("1.34", *after)])]
    assert warnings == ([DiffWarning("api", f"to {opened}")] if opened else [])


def test_another_kubernetes_is_a_warning() -> None:
    (warning,) = effects.of_templates([_cluster("1.34")], [_cluster("1.35")])
    assert warning == DiffWarning("kubernetes", "1.34 -> 1.35")


def test_what_is_lost_and_what_is_paid_is_a_warning(tmp_path: Path) -> None:
    text = """IAM Statement Changes
│ + │ arn │
[-] AWS::S3::Bucket Models ModelsA1 orphan
[~] AWS::EKS::Nodegroup Trainium/Nodes NodesB2 replace
 └─ [~] CapacityType (requires replacement)
[~] AWS::EKS::Addon coredns coredns
[-] AWS::SNS::Topic Alarms AlarmsC3 destroy"""
    assert [*effects.of_differences([("a-stack", text), ("b-stack", "[+] x y")])] == [
        DiffWarning("orphaned", "a-stack: AWS::S3::Bucket Models ModelsA1"),
        DiffWarning("replaced", "a-stack: AWS::EKS::Nodegroup Trainium/Nodes NodesB2"),
        DiffWarning("destroyed", "a-stack: AWS::SNS::Topic Alarms AlarmsC3"),
        DiffWarning("iam", "a-stack"),
    ]
    prompts = [
        f"IAM Statement Changes\n│ {sign} │ key/{number:064x} │\n│   │ more │"
        for sign, number in (("+", 1), ("-", 2))
    ]
    assert not [*effects.of_differences([("a-stack", "\n".join(prompts))])]
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(ARTICLE_TEXT)
    new.write_text(ARTICLE_TEXT.replace("nodes: 1", "nodes: 2"))
    assert [*effects.of_files(old, old)] == []
    detail = (
        "1 x trn2.48xlarge (on-demand), 858.26 USD a day while they run -> "
        "2 x trn2.48xlarge (on-demand), 1716.52 USD a day while they run"
    )
    assert [*effects.of_files(old, new)] == [DiffWarning("cost", detail)]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The article's experiment committed as ``main``, in the place of this repository."""
    path, scratch = tmp_path / "repository", tmp_path / "scratch"
    scratch.mkdir()
    (path / EXPERIMENT).parent.mkdir(parents=True)
    for file in (EXPERIMENT, GONE):
        (path / file).write_text(ARTICLE_TEXT)
    author = ("-c", "user.name=Author", "-c", "user.email=a@example.com")
    commit = (*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=Base")
    for words in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"), commit):
        subprocess.run(["git", *words], cwd=path, check=True)
    (path / GONE).unlink()
    monkeypatch.setattr(diff, "ROOT", path)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    return path


Install = Callable[[str], None]


@pytest.fixture
def cdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a script in the place of the CDK's CLI."""

    def install(script: str) -> None:
        path = tmp_path / "bin" / "cdk"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")

    return install


@pytest.fixture
def synthesised(article: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthesis writes what differs by the window alone, for the CLI's own diff."""

    def synthesise(tree: Path, file: str, assembly: Path) -> None:
        (window,) = re.findall(r"num_speculative_tokens: (\d+)", (tree / file).read_text())
        pod = {"kind": "Job", "metadata": {"name": f"a-{window:0>8}"}, "window": window}
        (assembly / "dist").mkdir(parents=True)
        (assembly / "dist" / "0001-llmperf.k8s.yaml").write_text(json.dumps(pod, indent=1))
        write_assembly(assembly, article, ["serving", "network"], [pod])

    monkeypatch.setattr(diff, "_synthesise", synthesise)
    clis = Path(__file__).parents[1] / "node_modules" / ".bin"
    monkeypatch.setenv("PATH", f"{clis}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("synthesised")
def test_names_exactly_what_a_shorter_window_changes(
    repository: Path, cdk: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / EXPERIMENT).write_text(SHORTER)
    written = repository.parent / "diff.json"
    assert diff.main(["main", EXPERIMENT, "--verbose", f"--json={written}"]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^\[(.)\] \S+ (\S+)", printed, re.MULTILINE) == [("~", "Everything")]
    lines = [line.strip() for line in printed.splitlines()]
    # In a manifest within a template, and in the file.
    assert '[-]     "window": "7"' in lines
    assert any(re.match(r"\+ +num_speculative_tokens: 5", line) for line in lines)
    assert str(repository.parent) not in printed
    (file,) = json.loads(written.read_text())["files"]
    assert (file["file"], file["status"], file["warnings"]) == (EXPERIMENT, "changed", [])
    assert file["pods"] == [{"kind": "Job", "name": "a", "effect": "runs again"}]
    titles = [section["title"] for section in file["sections"]]
    assert titles == ["The experiment file", "article-serving"]
    assert not list((repository.parent / "scratch").iterdir())
    # At home the details are left out, so that any do.
    cdk("echo different")
    assert diff.main(["main", EXPERIMENT]) == 0
    assert capsys.readouterr().out == (
        f"{EXPERIMENT}: changed\n  Job        a: runs again\n"
        f"  Differs: {', '.join(titles)} (VERBOSE=1 shows how)\n\n"
    )


@pytest.mark.parametrize(
    ("changes", "listed", "touched"),
    [
        ({}, "", []),
        ({EXPERIMENT: ARTICLE_TEXT + "#\n"}, "", ["article"]),
        ({"experiments/mine.yaml": ARTICLE_TEXT}, "", ["mine"]),
        ({"experiments/values.yaml": "a: 1\n"}, "", []),
        # A file of prompts is a part of the experiments that name it.
        (
            {"experiments/mine.yaml": "models:\n  file: 'a.jsonl'", "experiments/a.jsonl": "{}"},
            "",
            ["mine"],
        ),
        ({"docs/cost.md": "", "tests/test_x.py": "", "CHANGELOG.md": ""}, EXPERIMENT, []),
        ({"stacks/cluster.py": ""}, "", ["article"]),
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
    for file, text in (changes | {GONE: ARTICLE_TEXT}).items():
        (repository / file).parent.mkdir(exist_ok=True)
        (repository / file).write_text(text)
    monkeypatch.setenv("EXPERIMENTS", listed)
    assert diff.touched("main", repository) == [f"experiments/{name}.yaml" for name in touched]


@pytest.mark.usefixtures("synthesised")
def test_files_of_one_side_alone_have_their_line(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "experiments" / "added.yaml").write_text(ARTICLE_TEXT)
    assert diff.main(["main"]) == 0
    printed = capsys.readouterr()
    assert (
        "experiments/added.yaml: added, its stacks: article-serving, article-network\n"
        "  Warning: Trainium nodes cost another amount: none -> 1 x trn2.48xlarge (on-demand), "
        "858.26 USD a day while they run\n"
        "  Job        a: starts\n"
    ) in printed.out
    assert f"{GONE}: removed, no deploy deletes its stacks: make destroy does" in printed.out


NONE: Final = "experiments/none.yaml"
EXITED: Final = "python3 app.py: Subprocess exited with error"
REFUSED: Final = f"{EXPERIMENT}: failed, the working tree does not synthesise: "


@pytest.mark.parametrize(
    ("base", "file", "refuse", "expected"),
    [
        ("nowhere", EXPERIMENT, "", "no such revision: nowhere\n"),
        ("main", NONE, "", f"{NONE}: failed, neither main nor the working tree has it\n"),
        ("main", EXPERIMENT, f"echo 'a\nb\n{EXITED} 1' >&2; exit 1", f"{REFUSED}a\nb\n"),
        # What ended an app, or the CLI, may leave no word of its own.
        ("main", EXPERIMENT, f"echo {EXITED} 137 >&2; exit 1", f"{REFUSED}{EXITED} 137\n"),
        ("main", EXPERIMENT, "kill -9 $$", f"{REFUSED}cdk synth ended with -9\n"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    repository: Path,
    cdk: Install,
    capsys: pytest.CaptureFixture[str],
    base: str,
    file: str,
    refuse: str,
    expected: str,
) -> None:
    cdk(f'case "$PWD" in */base) ;; *) {refuse or ":"};; esac')
    assert diff.main([base, file]) == 1
    assert capsys.readouterr().err == expected


def test_each_side_reads_its_own_spectap(tmp_path: Path, cdk: Install) -> None:
    cdk('printf %s "$PYTHONPATH" > seen')
    for side in (tmp_path / "before", tmp_path / "after"):
        side.mkdir()
        diff._synthesise(side, EXPERIMENT, tmp_path / "output")
        assert (side / "seen").read_text() == str(side / "packages" / "spectap" / "src")
