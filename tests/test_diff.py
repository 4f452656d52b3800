"""`make diff`: which pods a deploy replaces, and the command as a person calls it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import cdk8s
import pytest

from charts.manifests import charts
from charts.names import Deployed
from experiment.loader import parse
from scripts import diff
from scripts.diff import ROOT, Restart, Section
from tests.experiment.files import edited

EXPERIMENT: Final = "experiments/article.yaml"
Run = subprocess.CompletedProcess[str]


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
    return {row.name: row.effect for row in diff.restarts(old, new)}


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
    (row,) = diff.restarts(article, rendered(tmp_path, {}, image="image:2"))
    assert row == ("Pod", "qwen-llmperf", "restarts with another image, if it still runs")
    pod = article["Pod", "qwen-llmperf"]
    other = {**article, ("Pod", "qwen-llmperf"): {**pod, "spec": pod["spec"] | {"hostname": "a"}}}
    assert "AGAIN=1" in effects(article, other)["qwen-llmperf"]


def test_what_one_side_alone_has_starts_or_ends(article: diff.Objects) -> None:
    services = [name for kind, name in article if kind == "Deployment"]
    without = {key: each for key, each in article.items() if key[0] != "Deployment"}
    assert effects(article, without) == dict.fromkeys(services, "ends")
    assert effects(without, article) == dict.fromkeys(services, "starts, its graph is there")


def test_text_inside_a_template_is_taken_apart() -> None:
    manifest = {"Fn::Join": ["", ['[{"a": "', {"Ref": "Account"}, '", "b": "1\\n2"}]']]}
    expected = [{"a": "${Ref.Account}", "b": ["1", "2"]}]
    assert diff.unfold({"Manifest": manifest}) == {"Manifest": expected}


def test_a_comment_has_what_fits_and_warns_first() -> None:
    sections = [
        Section("small", "a\nb (requires replacement)"),
        Section("large", "line\n" * 1000),
        Section("same", ""),
    ]
    text = diff.markdown("title", [Restart("Pod", "a", "starts")], sections, 3000)
    assert len(text) <= 3000
    assert "| Pod | a | starts |" in text
    assert text.index("> :warning: **replacement** in small") < text.index("<details>")
    assert "same: unchanged" in text
    assert "```diff\na\nb (requires replacement)\n```" in text
    assert text.count("Cut to fit here") == 1


class Repository:
    """A repository with the script and an experiment, committed as ``main``."""

    def __init__(self, directory: Path) -> None:
        self.path, self.scratch = directory / "repository", directory / "scratch"
        self.scratch.mkdir()
        for name in ("scripts", "experiments"):
            shutil.copytree(ROOT / name, self.path / name)
        (self.path / ".gitignore").write_text("__pycache__\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        author = ("-c", "user.name=Author", "-c", "user.email=author@example.com")
        self.git(*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=Base")

    def git(self, *arguments: str) -> str:
        result = self._run("git", *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def diff(self, *arguments: str, cli: str, tools: Path) -> Run:
        """Run the script, with ``cli`` in the place of the CDK's, written into ``tools``."""
        (tools / "cdk").write_text(f"{cli}\n")
        (tools / "cdk").chmod(0o755)
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        return self._run(sys.executable, "-m", "scripts.diff", *arguments, PATH=path)

    def _run(self, *command: str, **environment: str) -> Run:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        variables = clean | {"TMPDIR": str(self.scratch)} | environment
        return subprocess.run(command, cwd=self.path, env=variables, capture_output=True, text=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("diff"))


SYNTHESISE: Final = f"""#!{sys.executable}
import json, os, re, sys
from pathlib import Path

words = sys.argv[1:]
if "synth" not in words:
    os.execv("{ROOT}/node_modules/.bin/cdk", ["cdk", *words])
text = Path(next(w for w in words if w.startswith("experiment=")).partition("=")[2]).read_text()
(window,) = re.findall(r"num_speculative_tokens: (\\d+)", text)
output = Path(words[words.index("--output") + 1])
output.mkdir(parents=True)
(output.parent / "dist").mkdir()
pod = {{"kind": "Job", "metadata": {{"name": "a"}}, "window": window}}
(output.parent / "dist" / "0001-llmperf.k8s.yaml").write_text(json.dumps(pod))
artifacts = {{}}
for name, manifest in (("article-serving", json.dumps([pod])), ("article-network", "[]")):
    properties = {{"Manifest": manifest}}
    resources = {{"Everything": {{"Type": "Custom::Any", "Properties": properties}}}}
    file = f"{{name}}.template.json"
    (output / file).write_text(json.dumps({{"Resources": resources}}))
    artifacts[name] = {{"type": "aws:cloudformation:stack", "environment": "aws://a/b"}}
    artifacts[name]["properties"] = {{"templateFile": file}}
manifest = {{"version": "38.0.0", "artifacts": artifacts}}
(output / "manifest.json").write_text(json.dumps(manifest))
"""
"""Writes what differs by the window alone, for the CLI's own diff."""


def test_names_exactly_what_a_shorter_window_changes(
    repository: Repository, tmp_path: Path
) -> None:
    experiment, comment = repository.path / EXPERIMENT, repository.scratch / "comment.md"
    before = experiment.read_text()
    experiment.write_text(before.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5"))
    result = repository.diff(
        "main", EXPERIMENT, f"--markdown={comment}", cli=SYNTHESISE, tools=tmp_path
    )
    experiment.write_text(before)
    assert (result.returncode, result.stderr) == (0, "")
    resources = re.findall(r"^\[(.)\] \S+ (\S+)", result.stdout, re.MULTILINE)
    assert resources == [("~", "Everything")]
    lines = [line.strip() for line in result.stdout.splitlines()]
    # In a manifest within a template, and in the file.
    assert '[-]     "window": "7"' in lines
    assert any(re.match(r"\+ +num_speculative_tokens: 5", line) for line in lines)
    assert re.findall(r"^\+\+\+ .*/\d+-(\S+)\.k8s\.yaml", result.stdout, re.M) == ["llmperf"]
    assert "\narticle-network: unchanged\n" in result.stdout
    assert "| none |  |  |" in comment.read_text()
    comment.unlink()
    assert not list(repository.scratch.iterdir())
    assert repository.git("status", "--porcelain") == ""


REFUSE: Final = "echo 'mine.yaml: no' >&2; echo 'Subprocess exited with error 1' >&2; exit 1"
ONLY_BASE: Final = f'#!/bin/sh\ncase "$PWD" in */tree) mkdir -p x;; *) {REFUSE};; esac'


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nowhere", EXPERIMENT), "no such revision: nowhere"),
        (("main", "experiments/none.yaml"), "main has no experiments/none.yaml"),
        (("main", EXPERIMENT), "the working tree does not synthesise: mine.yaml: no"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    repository: Repository, tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    result = repository.diff(*arguments, cli=ONLY_BASE, tools=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [expected]
