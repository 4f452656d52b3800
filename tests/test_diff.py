"""`make diff`: which files it compares, what it warns of, and what a deploy does to the pods."""

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
from scripts import diff, review
from tests.experiment.files import ARTICLE_TEXT, edited

EXPERIMENT: Final = "experiments/article.yaml"
NODE_MODULES: Final = diff.ROOT / "node_modules" / ".bin"


def rendered(folder: Path, changes: dict[str, Any], image: str = "image:1") -> review.Objects:
    """The manifests of the article's experiment with these changes."""
    app = cdk8s.App(outdir=str(folder))
    charts(app, parse(edited(changes), "mine.yaml"), Deployed("bucket", image))
    app.synth()
    return review.read(folder)


@pytest.fixture(scope="module")
def article(tmp_path_factory: pytest.TempPathFactory) -> review.Objects:
    return rendered(tmp_path_factory.mktemp("article"), {})


def effects(old: review.Objects, new: review.Objects) -> dict[str, str]:
    return {name: effect for _, name, effect in review.restarts(old, new)}


def test_another_window_compiles_one_graph_and_restarts_both_services(
    article: review.Objects, tmp_path: Path
) -> None:
    new = rendered(tmp_path, {"speculation.num_speculative_tokens": 5})
    assert effects(article, new) == {
        # Both services take a window less than is compiled.
        "qwen-vllm": "restarts, its graph is there",
        "qwen-sd-vllm": "restarts, once its graph is compiled",
        "compile-qwen-sd-vllm": "runs again",
        "qwen-llmperf": "is configured anew: the next make experiment begins a new run",
    }


def test_a_pod_takes_another_image_and_nothing_else(
    article: review.Objects, tmp_path: Path
) -> None:
    image = effects(article, rendered(tmp_path, {}, image="image:2"))
    assert image == {"qwen-llmperf": "restarts with another image, if it still runs"}
    pod = article["Pod", "qwen-llmperf"]
    other = {**pod, "metadata": {**pod["metadata"], "name": "qwen-llmperf-00000000"}}
    replaced = effects(article, {**article, ("Pod", "qwen-llmperf"): other})
    assert replaced == {
        "qwen-llmperf": "is replaced: ends a measurement that runs, and begins a new one"
    }
    # What one side alone has starts or ends.
    without = {key: each for key, each in article.items() if key[0] != "Deployment"}
    services = [name for kind, name in article if kind == "Deployment"]
    assert effects(article, without) == dict.fromkeys(services, "ends")
    assert effects(without, article) == dict.fromkeys(services, "starts, its graph is there")


def test_text_inside_a_template_is_taken_apart() -> None:
    manifest = {"Fn::Join": ["", ['[{"a": "', {"Ref": "Account"}, '", "b": "1\\n2"}]']]}
    expected = [{"a": "${Ref.Account}", "b": ["1", "2"]}]
    assert diff.unfold({"Manifest": manifest}) == {"Manifest": expected}


def cluster(version: str = "1.35", **access: Any) -> dict[str, Any]:
    """The template of a cluster with two node groups."""
    properties = {"Version": version, "ResourcesVpcConfig": access}
    return {
        "Resources": {
            "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": properties},
            "System": {"Type": "AWS::EKS::Nodegroup", "Properties": {}},
            "Chips": {
                "Type": "AWS::EKS::Nodegroup",
                "Properties": {"ReleaseVersion": "1.35.6-20260625"},
            },
        }
    }


def warned(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    return [*review.warnings({"a": old}, {"a": new}, {}, [{}, {}])]


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        (False, ["203.0.113.0/24"], "EndpointPublicAccess false -> true, "),
        (False, None, "EndpointPublicAccess false -> true, PublicAccessCidrs + 0.0.0.0/0"),
        (["203.0.113.0/24"], ["203.0.112.0/23"], "PublicAccessCidrs + 203.0.112.0/23"),
        (["203.0.113.0/24"], ["203.0.113.0/24", "10.0.0.0/8"], "PublicAccessCidrs + 10.0.0.0/8"),
        (["203.0.112.0/23"], ["203.0.113.0/24"], None),
        (None, ["203.0.113.0/24"], None),
        (["203.0.113.0/24"], False, None),
    ],
)
def test_an_api_that_more_addresses_reach_is_a_warning(
    before: Any, after: Any, detail: str | None
) -> None:
    def open_to(blocks: list[str] | bool | None) -> dict[str, Any]:
        if blocks is False:
            return cluster(EndpointPublicAccess=False)
        return cluster(**({"PublicAccessCidrs": blocks} if blocks else {}))

    warnings = warned(open_to(before), open_to(after))
    assert [kind for kind, _ in warnings] == [review.API] * (detail is not None)
    assert all(str(detail) in text for _, text in warnings)


def test_nodes_that_keep_their_kubelet_are_named() -> None:
    assert [text for _, text in warned(cluster(), cluster("1.36"))] == [
        "a/Cluster: 1.35 -> 1.36",
        "a/System: names no version, so its nodes keep their kubelet",
        "a/Chips: nodes stay on kubelet 1.35.6-20260625",
    ]
    newer = cluster("1.36")
    newer["Resources"]["Chips"]["Properties"] = {"ReleaseVersion": "1.36.1-20261001"}
    assert "a/Chips: nodes 1.35.6-20260625 -> 1.36.1-20261001" in dict(
        map(reversed, warned(cluster(), newer))  # type: ignore[arg-type]
    )


def test_what_the_cli_says_of_a_resource_is_a_warning_once() -> None:
    text = """IAM Statement Changes
[-] AWS::S3::Bucket Bucket Bucket12 destroy
[~] AWS::EKS::Cluster Cluster Cluster34 replace
[~] AWS::EKS::Nodegroup Nodes Nodes56 may be replaced
[-] AWS::KMS::Key Key Key78 orphan
[+]     "destroy": 1"""
    costs = [{"nodes": ("2 a", 1.0)}, {"nodes": ("4 a", 2.0)}]
    gone, templates = {"gone": {}, "a": {}}, {"a": {}}
    assert [*review.warnings(gone, templates, {"a": text}, costs)] == [
        (review.STAYS, "gone"),
        (review.DESTROYED, "a: AWS::S3::Bucket Bucket Bucket12"),
        (review.REPLACED, "a: AWS::EKS::Cluster Cluster Cluster34"),
        (review.MAYBE, "a: AWS::EKS::Nodegroup Nodes Nodes56"),
        (review.IAM, "a"),
        (review.COST, "nodes: 2 a 24.00 -> 4 a 48.00"),
        (review.COST, "all that ever runs at once: 24.00 -> 48.00"),
    ]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two experiments committed as ``main``, in the place of this repository."""
    path, scratch = tmp_path / "repository", tmp_path / "scratch"
    scratch.mkdir()
    (path / EXPERIMENT).parent.mkdir(parents=True)
    (path / EXPERIMENT).write_text(ARTICLE_TEXT)
    (path / "experiments/ours.yaml").write_text(OURS)
    (path / "experiments/ours.jsonl").write_text("{}")
    (path / "app.py").touch()
    author = ("-c", "user.name=Author", "-c", "user.email=a@example.com")
    commit = (*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=Base")
    for words in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"), commit):
        subprocess.run(["git", *words], cwd=path, check=True)
    monkeypatch.setattr(diff, "ROOT", path)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("PATH", f"{NODE_MODULES}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(diff, "_synthesise", synthesise)
    return path


OURS: Final = 'name: ours\nspeculation:\n  - {num_speculative_tokens: 1}\nx: {file: "ours.jsonl"}\n'


def synthesise(tree: Path, file: str, output: Path) -> None:
    """Writes what differs by the window alone, for the CLI's own diff."""
    text = (tree / file).read_text()
    name = re.findall(r"^name: (\S+)", text, re.MULTILINE)[0]
    (window,) = re.findall(r"num_speculative_tokens: (\d+)", text)
    if window == "0":
        raise diff.DiffError(f"{file}:2: num_speculative_tokens = 0: must be more")
    pod = {"kind": "Job", "metadata": {"name": "a"}, "window": window}
    assembly, artifacts = output / "cdk.out", {}
    for folder in (assembly, assembly / "dist"):
        folder.mkdir(parents=True)
    (assembly / "dist" / "0001-llmperf.k8s.yaml").write_text(json.dumps(pod))
    for stack, manifest in ((f"{name}-serving", json.dumps([pod])), (f"{name}-network", "[]")):
        everything = {"Type": "Custom::Any", "Properties": {"Manifest": manifest}}
        template = assembly / f"{stack}.template.json"
        template.write_text(json.dumps({"Resources": {"Everything": everything}}))
        artifacts[stack] = {
            "type": "aws:cloudformation:stack",
            "environment": "aws://a/b",
            "properties": {"templateFile": template.name},
        }
    manifest = json.dumps({"version": "38.0.0", "artifacts": artifacts})
    (assembly / "manifest.json").write_text(manifest)


def test_names_exactly_what_a_shorter_window_changes(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = ARTICLE_TEXT.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5")
    (repository / EXPERIMENT).write_text(shorter)
    assert diff.main(["--verbose", "main", EXPERIMENT]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{EXPERIMENT}: changed\n")
    assert re.findall(r"^\[(.)\] \S+ (\S+)", printed, re.MULTILINE) == [("~", "Everything")]
    lines = [line.strip() for line in printed.splitlines()]
    # In a manifest within a template, and in the file.
    assert '[-]     "window": "7"' in lines
    assert any(re.match(r"\+ +num_speculative_tokens: 5", line) for line in lines)
    assert "+++ head/dist/0001-llmperf.k8s.yaml" in lines
    assert str(repository.parent) not in printed
    assert not list((repository.parent / "scratch").iterdir())
    assert diff.main(["main", EXPERIMENT]) == 0
    assert "article-serving: 11 lines; VERBOSE=1 prints them" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, {}),
        ({"experiments/values.yaml": "a: 1", "docs/a.md": "", "tests/a.py": ""}, {}),
        ({"app.py": "1"}, {EXPERIMENT: "unchanged"}),
        ({"experiments/ours.jsonl": "[]"}, {"experiments/ours.yaml": "unchanged"}),
        ({"experiments/ours.yaml": None}, {"experiments/ours.yaml": "deleted"}),
        (
            {"experiments/ours.yaml": None, "experiments/b.yml": OURS},
            {"experiments/b.yml": "unchanged"},
        ),
        ({"experiments/copy.yaml": OURS}, {"experiments/copy.yaml": "unchanged"}),
        (
            {"experiments/ours.yaml": OURS.replace("ours", "mine", 1)},
            {"experiments/ours.yaml": "new deleted"},
        ),
        (
            {
                "experiments/a.yaml": OURS.replace("ours", "a", 1),
                EXPERIMENT: OURS.replace("1", "0"),
            },
            {"experiments/a.yaml": "new", EXPERIMENT: "refused deleted"},
        ),
    ],
)
def test_compares_what_the_change_touches(
    repository: Path, written: dict[str, str | None], expected: dict[str, str]
) -> None:
    for name, text in written.items():
        path = repository / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True) if text is None else path.write_text(text)
    file = repository.parent / "diff.json"
    assert diff.main(["main", f"--json={file}"]) == ("refused" in str(expected))
    states: dict[str, str] = {}
    for experiment in json.loads(file.read_text())["experiments"]:
        name = experiment["file"]
        states[name] = f"{states.get(name, '')} {experiment['state']}".strip()
        if experiment["state"] == "new":
            assert {s["title"]: s["text"] for s in experiment["sections"]}.popitem()[1] == (
                "  1 Custom::Any"
            )
    assert states == expected


def test_what_cannot_be_compared_is_said_in_a_line(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff.main(["nowhere", EXPERIMENT]) == 1
    assert capsys.readouterr() == ("", "no such revision: nowhere\n")
    assert diff.main(["main", "experiments/none.yaml"]) == 1
    assert capsys.readouterr() == ("", "neither side has an experiment experiments/none.yaml\n")
    (repository / EXPERIMENT).write_text(ARTICLE_TEXT.replace("_tokens: 7", "_tokens: 0"))
    assert diff.main(["main"]) == 1
    refused = f"{EXPERIMENT}:2: num_speculative_tokens = 0: must be more"
    assert capsys.readouterr().out == f"{EXPERIMENT}: refused\n  {refused}\n"
