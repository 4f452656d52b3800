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
from scripts import diff
from scripts.diff import Section
from tests.experiment.files import ARTICLE_TEXT, edited

EXPERIMENT: Final = "experiments/article.yaml"
NODE_MODULES: Final = diff.ROOT / "node_modules" / ".bin"


def rendered(folder: Path, changes: dict[str, Any], image: str = "image:1") -> diff.Objects:
    """The manifests of the article's experiment with these changes."""
    app = cdk8s.App(outdir=str(folder))
    charts(app, parse(edited(changes), "mine.yaml"), Deployed("bucket", image))
    app.synth()
    return diff.read(folder)


@pytest.fixture(scope="module")
def article(tmp_path_factory: pytest.TempPathFactory) -> diff.Objects:
    return rendered(tmp_path_factory.mktemp("article"), {})


def effects(old: diff.Objects, new: diff.Objects) -> dict[str, str]:
    return {name: effect for _, name, effect in diff.restarts(old, new)}


def test_another_window_compiles_one_graph_and_restarts_both_services(
    article: diff.Objects, tmp_path: Path
) -> None:
    new = rendered(tmp_path, {"speculation.num_speculative_tokens": 5})
    assert effects(article, new) == {
        # Both services take a window less than is compiled.
        "qwen-vllm": "restarts, its graph is there",
        "qwen-sd-vllm": "restarts, once its graph is compiled",
        "compile-qwen-sd-vllm": "runs again",
        "qwen-llmperf": "is configured anew: the next make experiment begins a new run",
    }


def test_a_pod_takes_another_image_and_nothing_else(article: diff.Objects, tmp_path: Path) -> None:
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


def test_a_comment_has_what_fits_warns_first_and_ends_its_own_fences() -> None:
    sections = [
        Section("small", "a\nb (requires replacement)"),
        Section("large", "```\n" * 30_000),
        Section("same", ""),
    ]
    text = diff.markdown("title", [("Pod", "a", "starts")], sections)
    assert len(text) <= diff.COMMENT_LIMIT
    assert text.count("```") == 4
    assert "| Pod | a | starts |" in text
    assert text.index("> :warning: **replacement** in small") < text.index("<details>")
    assert "same: unchanged" in text
    assert "```diff\na\nb (requires replacement)\n```" in text
    assert text.count("Cut to fit here") == 1


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The article's experiment committed as ``main``, in the place of this repository."""
    path, scratch = tmp_path / "repository", tmp_path / "scratch"
    scratch.mkdir()
    (path / EXPERIMENT).parent.mkdir(parents=True)
    (path / EXPERIMENT).write_text(ARTICLE_TEXT)
    author = ("-c", "user.name=Author", "-c", "user.email=a@example.com")
    commit = (*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=Base")
    for words in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"), commit):
        subprocess.run(["git", *words], cwd=path, check=True)
    (path / "new.yaml").touch()
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
    comment = repository.parent / "comment.md"
    assert diff.main(["main", EXPERIMENT, f"--markdown={comment}"]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^\[(.)\] \S+ (\S+)", printed, re.MULTILINE) == [("~", "Everything")]
    lines = [line.strip() for line in printed.splitlines()]
    # In a manifest within a template, and in the file.
    assert '[-]     "window": "7"' in lines
    assert any(re.match(r"\+ +num_speculative_tokens: 5", line) for line in lines)
    assert re.findall(r"^\+\+\+ .*/\d+-(\S+)\.k8s\.yaml", printed, re.M) == ["llmperf"]
    assert "article-network: unchanged" in lines
    assert "| none |  |  |" in comment.read_text()
    assert not list((repository.parent / "scratch").iterdir())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nowhere", EXPERIMENT), "no such revision: nowhere"),
        (("main", "experiments/none.yaml"), "the working tree has no experiments/none.yaml"),
        (
            ("main", "new.yaml"),
            "main has no new.yaml: it is all new; make synth writes its templates",
        ),
        (("main", EXPERIMENT), "the working tree does not synthesise: mine.yaml: no"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    repository: Path,
    arguments: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli = repository.parent / "cdk"
    refuse = "echo 'mine.yaml: no' >&2; echo 'Subprocess exited with error 1' >&2; exit 1"
    cli.write_text(f'#!/bin/sh\ncase "$PWD" in */tree) mkdir -p x;; *) {refuse};; esac\n')
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cli.parent}{os.pathsep}{os.environ['PATH']}")
    assert diff.main([*arguments]) == 1
    assert capsys.readouterr() == ("", f"{expected}\n")
