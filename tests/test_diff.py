"""`make diff`: which pods a deploy replaces, and the command as a person calls it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cdk8s
import pytest

from charts.manifests import charts
from charts.names import Deployed
from experiment.loader import parse
from scripts import restarts
from scripts.diff import ROOT, Section, markdown, unfold
from tests.experiment.files import edited

EXPERIMENT: Final = "experiments/article.yaml"
Run = subprocess.CompletedProcess[str]


def rendered(folder: Path, changes: dict[str, Any], image: str = "image:1") -> restarts.Objects:
    """The manifests of the article's experiment with these changes."""
    app = cdk8s.App(outdir=str(folder))
    charts(app, parse(edited(changes), "mine.yaml"), Deployed("bucket", image))
    app.synth()
    return restarts.read(folder)


@pytest.fixture(scope="module")
def article(tmp_path_factory: pytest.TempPathFactory) -> restarts.Objects:
    return rendered(tmp_path_factory.mktemp("article"), {})


def effects(old: restarts.Objects, new: restarts.Objects) -> dict[str, str]:
    return {row.name: row.effect for row in restarts.restarts(old, new)}


def test_another_window_compiles_one_graph_and_restarts_both_services(
    article: restarts.Objects, tmp_path: Path
) -> None:
    new = rendered(tmp_path, {"speculation.num_speculative_tokens": 5})
    assert effects(article, new) == {
        # Both services take a window less than is compiled.
        "qwen-vllm": "restarts, its graph is there",
        "qwen-sd-vllm": "restarts, once its graph is compiled",
        "compile-qwen-sd-vllm": "runs again",
        "qwen-llmperf": "is told something else: the next make experiment begins a new run",
    }


def test_another_image_replaces_the_benchmark_alone(
    article: restarts.Objects, tmp_path: Path
) -> None:
    (row,) = restarts.restarts(article, rendered(tmp_path, {}, image="image:2"))
    assert row == ("Pod", "qwen-llmperf", "restarts with another image, if it still runs")


def test_what_one_side_alone_has_starts_or_ends(article: restarts.Objects) -> None:
    services = [name for kind, name in article if kind == "Deployment"]
    without = {key: each for key, each in article.items() if key[0] != "Deployment"}
    assert effects(article, without) == dict.fromkeys(services, "ends")
    assert effects(without, article) == dict.fromkeys(services, "starts, its graph is there")


def test_text_inside_a_template_is_taken_apart() -> None:
    manifest = {"Fn::Join": ["", ['[{"a": "', {"Ref": "Account"}, '", "b": "1\\n2"}]']]}
    assert unfold({"Manifest": manifest}) == {"Manifest": [{"a": "${Account}", "b": ["1", "2"]}]}


def test_a_comment_has_what_fits_and_warns_first() -> None:
    sections = [
        Section("small", "a\nb", ("replacement",)),
        Section("large", "line\n" * 1000),
        Section("same"),
    ]
    text = markdown("title", [], sections, 2000)
    assert len(text) <= 2000
    assert text.index("> :warning: **replacement** in small") < text.index("<details>")
    assert "same: unchanged" in text
    assert "```diff\na\nb\n```" in text
    assert text.count("Cut to fit here") == 1


class Repository:
    """A repository with the script and two experiments, committed as ``main``."""

    def __init__(self, directory: Path) -> None:
        self.path, self.scratch = directory / "repository", directory / "scratch"
        self.scratch.mkdir()
        for name in ("scripts", "experiments", "README.md"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            self.path.mkdir(exist_ok=True)
            copy(ROOT / name, self.path / name)
        (self.path / ".gitignore").write_text("__pycache__\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        author = ("-c", "user.name=Author", "-c", "user.email=author@example.com")
        self.git(*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=Base")

    def git(self, *arguments: str) -> str:
        result = self._run("git", *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def diff(self, *arguments: str, tools: Path) -> Run:
        """Run the script; ``tools`` come first on the path."""
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        return self._run(sys.executable, "-m", "scripts.diff", *arguments, PATH=path)

    def _run(self, *command: str, **environment: str) -> Run:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        variables = clean | {"TMPDIR": str(self.scratch)} | environment
        return subprocess.run(command, cwd=self.path, env=variables, capture_output=True, text=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("diff"))


@pytest.fixture
def cli(tmp_path: Path) -> Callable[[str], Path]:
    """A directory with a CDK CLI that does as it is told."""

    def write(script: str) -> Path:
        path = tmp_path / "cdk"
        path.write_text(f"{script}\n")
        path.chmod(0o755)
        return tmp_path

    return write


SYNTHESISE: Final = f"""#!{sys.executable}
import json, os, re, sys
from pathlib import Path

words = sys.argv[1:]
if "synth" not in words:
    os.execv("{ROOT}/node_modules/.bin/cdk", ["cdk", *words])
text = Path(next(w for w in words if w.startswith("experiment=")).partition("=")[2]).read_text()
with open("NAMES", "a") as names:
    print(re.search("^name: .*", text, re.M)[0], file=names)
(window,) = re.findall(r"num_speculative_tokens: (\\d+)", text) or ["0"]
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
NO_DIFFERENCE: Final = 'sys.exit(print("There were no differences"))'


def test_names_exactly_what_a_shorter_window_changes(
    repository: Repository, cli: Callable[[str], Path], tmp_path: Path
) -> None:
    experiment, comment = repository.path / EXPERIMENT, repository.scratch / "comment.md"
    before = experiment.read_text()
    experiment.write_text(before.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5"))
    tools = cli(SYNTHESISE.replace("NAMES", str(tmp_path / "names")))
    result = repository.diff("main", EXPERIMENT, f"--markdown={comment}", tools=tools)
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
    assert "No pod is replaced." in comment.read_text()
    comment.unlink()
    assert not list(repository.scratch.iterdir())
    assert repository.git("status", "--porcelain") == ""


REFUSE: Final = "echo 'mine.yaml: no' >&2; echo 'Subprocess exited with error 1' >&2; exit 1"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nowhere", EXPERIMENT), "no such revision: nowhere"),
        (("main", "experiments/none.yaml"), "main has no none.yaml: compare it with another"),
        (("main", EXPERIMENT, "--with=none.yaml"), "no such file: .*/none.yaml"),
        (("main", "README.md"), "README.md: is no experiment"),
        (("main", EXPERIMENT), "the working tree does not synthesise: mine.yaml: no"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    repository: Repository,
    cli: Callable[[str], Path],
    arguments: tuple[str, ...],
    expected: str,
) -> None:
    only_head = f'#!/bin/sh\ncase "$PWD" in */tree) mkdir -p x;; *) {REFUSE};; esac'
    result = repository.diff(*arguments, tools=cli(only_head))
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert re.search(expected, line)


def test_files_of_two_names_are_compared_as_one_experiment(
    repository: Repository, cli: Callable[[str], Path], tmp_path: Path
) -> None:
    """So that stacks are compared with their counterparts."""
    names = tmp_path / "names"
    result = repository.diff(
        *("main", "experiments/eagle.yaml", "--with=experiments/article.yaml"),
        tools=cli(re.sub("os.execv.*", NO_DIFFERENCE, SYNTHESISE.replace("NAMES", str(names)))),
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "\n-  mode: fused" in result.stdout
    assert names.read_text().splitlines() == ["name: eagle"] * 2
    assert repository.git("status", "--porcelain") == ""
