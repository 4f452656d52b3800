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
from scripts.diff import restarts
from scripts.diff.__main__ import markdown
from scripts.diff.stacks import unfold
from scripts.diff.tools import ROOT, Section
from tests.experiment.files import edited

EXPERIMENT: Final = "experiments/article.yaml"
Run = subprocess.CompletedProcess[str]


def made(folder: Path, changes: dict[str, Any], image: str = "image:1") -> restarts.Objects:
    """The manifests of the article's experiment with these changes."""
    app = cdk8s.App(outdir=str(folder))
    charts(app, parse(edited(changes), "mine.yaml"), Deployed("bucket", image))
    app.synth()
    return restarts.read(folder)


def effects(old: restarts.Objects, new: restarts.Objects) -> dict[str, str]:
    return {row.name: row.effect for row in restarts.restarts(old, new)}


def test_nothing_is_replaced_by_nothing(tmp_path: Path) -> None:
    objects = made(tmp_path, {})
    assert restarts.restarts(objects, objects) == []


def test_another_window_compiles_one_graph_and_restarts_both_services(tmp_path: Path) -> None:
    new = made(tmp_path / "new", {"speculation.num_speculative_tokens": 5})
    assert effects(made(tmp_path / "old", {}), new) == {
        # Both services take a window less than is compiled.
        "qwen-vllm": "restarts, its graph is there",
        "qwen-sd-vllm": "restarts, once its graph is compiled",
        "compile-qwen-sd-vllm": "runs again",
        "qwen-llmperf": "is told something else: the next make experiment begins a new run",
    }


def test_another_image_replaces_the_benchmark_alone(tmp_path: Path) -> None:
    new = made(tmp_path / "new", {}, image="image:2")
    (row,) = restarts.restarts(made(tmp_path / "old", {}), new)
    assert row == ("Pod", "qwen-llmperf", "restarts with another image, if it still runs")


def test_what_one_side_alone_has_starts_or_ends(tmp_path: Path) -> None:
    old, new = made(tmp_path / "old", {}), made(tmp_path / "new", {})
    services = {key: each for key, each in old.items() if key[0] == "Deployment"}
    without = {key: each for key, each in new.items() if key not in services}
    assert effects(old, without) == {name: "ends" for _, name in services}
    begun = effects(without, new)
    assert begun == {name: "starts, its graph is there" for _, name in services}


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
    """A copy of the working tree, committed as ``main``."""

    def __init__(self, directory: Path) -> None:
        self.path, self.scratch = directory / "repository", directory / "scratch"
        self.scratch.mkdir()
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.path / name)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        author = ("-c", "user.name=Author", "-c", "user.email=author@example.com")
        self.git(*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=Base")

    def git(self, *arguments: str) -> str:
        result = self._run("git", *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def diff(self, *arguments: str, tools: Path | None = None) -> Run:
        """Run the script; ``tools`` come first on the path."""
        path = os.pathsep.join(filter(None, [str(tools or ""), os.environ["PATH"]]))
        return self._run(sys.executable, "-m", "scripts.diff", *arguments, PATH=path)

    def _run(self, *command: str, **environment: str) -> Run:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        variables = clean | {"TMPDIR": str(self.scratch)} | environment
        return subprocess.run(command, cwd=self.path, env=variables, capture_output=True, text=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("diff"))


def test_names_exactly_what_a_shorter_window_changes(repository: Repository) -> None:
    experiment, comment = repository.path / EXPERIMENT, repository.scratch / "comment.md"
    before = experiment.read_text()
    experiment.write_text(before.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5"))
    result = repository.diff("main", EXPERIMENT, f"--markdown={comment}")
    experiment.write_text(before)
    assert (result.returncode, result.stderr) == (0, "")
    resources = re.findall(r"^\[(.)\] \S+ (\S+) \S+", result.stdout, re.MULTILINE)
    assert sorted(resources) == [
        ("~", "Comparison"),
        ("~", "llmperf/Resource"),
        ("~", "preparation/Resource"),
        ("~", "qwen-sd-vllm/Resource"),
        ("~", "qwen-vllm/Resource"),
    ]
    lines = [line.strip() for line in result.stdout.splitlines()]
    # In a manifest within a template, and in the file.
    assert '[-]     "num_speculative_tokens": 7,' in lines
    assert any(re.match(r"\+ +num_speculative_tokens: 5", line) for line in lines)
    manifests = re.findall(r"^\+\+\+ .*/\d+-(\S+)\.k8s\.yaml", result.stdout, re.MULTILINE)
    assert sorted(manifests) == ["llmperf", "preparation", "qwen-sd-vllm", "qwen-vllm"]
    assert "\narticle-network: unchanged\n" in result.stdout
    assert "| Deployment | qwen-vllm | restarts, its graph is there |" in comment.read_text()
    comment.unlink()
    assert not list(repository.scratch.iterdir())
    assert repository.git("status", "--porcelain") == ""


@pytest.fixture
def cli(tmp_path: Path) -> Callable[[str], Path]:
    """A directory with a CDK CLI that does as it is told."""

    def write(script: str) -> Path:
        path = tmp_path / "cdk"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return tmp_path

    return write


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
    only_head = f'case "$PWD" in */tree) mkdir -p x;; *) {REFUSE};; esac'
    result = repository.diff(*arguments, tools=cli(only_head))
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert re.search(expected, line)


def test_files_of_two_names_are_compared_as_one_experiment(
    repository: Repository, cli: Callable[[str], Path], tmp_path: Path
) -> None:
    """So that stacks are compared with their counterparts."""
    synthesise = f"""
while [ "$1" != --output ]; do
  case "$1" in experiment=*) grep ^name: "${{1#experiment=}}" >> {tmp_path}/names;; esac
  shift
done
mkdir -p "$2"
echo '{{"artifacts": {{}}}}' > "$2/manifest.json"
"""
    result = repository.diff(
        "main", "experiments/eagle.yaml", "--with=experiments/article.yaml", tools=cli(synthesise)
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "\n-  mode: fused" in result.stdout
    assert (tmp_path / "names").read_text().splitlines() == ["name: eagle"] * 2
    assert repository.git("status", "--porcelain") == ""
