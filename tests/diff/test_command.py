"""`make diff` as a person calls it: of a revision, of a new file, of two files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.diff.tools import ROOT

EXPERIMENT = "experiments/article.yaml"
Run = subprocess.CompletedProcess[str]


class Repository:
    """A copy of the working tree, committed as ``main``."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "repository"
        self.scratch = directory / "scratch"
        self.path.mkdir()
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
        return self._run("git", *arguments, check=True).stdout

    def diff(self, *arguments: str, tools: Path | None = None, **environment: Any) -> Run:
        """Run the script; ``tools`` come first on the path."""
        path = os.pathsep.join(filter(None, [str(tools or ""), os.environ["PATH"]]))
        command = (sys.executable, "-m", "scripts.diff", *arguments)
        return self._run(*command, PATH=path, **environment)

    def _run(self, *command: str, check: bool = False, **environment: Any) -> Run:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        return subprocess.run(
            command,
            cwd=self.path,
            env=clean | {"TMPDIR": str(self.scratch)} | environment,
            capture_output=True,
            text=True,
            check=check,
        )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("diff"))


@pytest.fixture(scope="module")
def shorter_window(repository: Repository) -> tuple[Run, str]:
    """Five speculative tokens instead of seven: what is printed, and the comment."""
    experiment, comment = repository.path / EXPERIMENT, repository.path / "comment.md"
    before = experiment.read_text()
    experiment.write_text(before.replace("num_speculative_tokens: 7", "num_speculative_tokens: 5"))
    result = repository.diff("main", EXPERIMENT, f"--markdown={comment}")
    experiment.write_text(before)
    text = comment.read_text() if comment.exists() else ""
    comment.unlink(missing_ok=True)
    return result, text


def test_names_exactly_what_a_shorter_window_changes(shorter_window: tuple[Run, str]) -> None:
    result, _ = shorter_window
    assert (result.returncode, result.stderr) == (0, "")
    resources = re.findall(r"^\[(.)\] \S+ (\S+) \S+", result.stdout, re.MULTILINE)
    assert sorted(resources) == [
        ("~", "Comparison"),
        ("~", "llmperf/Resource"),
        ("~", "preparation/Resource"),
        ("~", "qwen-sd-vllm/Resource"),
        # Both services take a window less than is compiled.
        ("~", "qwen-vllm/Resource"),
    ]
    manifests = re.findall(r"^\+\+\+ head/\d+-(\S+)\.k8s\.yaml", result.stdout, re.MULTILINE)
    assert sorted(manifests) == ["llmperf", "preparation", "qwen-sd-vllm", "qwen-vllm"]


def test_shows_a_number_inside_a_manifest_as_one_line(shorter_window: tuple[Run, str]) -> None:
    result, _ = shorter_window
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert '[-]     "num_speculative_tokens": 7,' in lines
    assert '[+]     "num_speculative_tokens": 5,' in lines


def test_unchanged_stacks_take_a_line(shorter_window: tuple[Run, str]) -> None:
    result, comment = shorter_window
    for name in ("network", "cluster", "model-store", "trainium"):
        assert f"\narticle-{name}: unchanged\n" in result.stdout
        assert f"| article-{name} |  |  |  | unchanged |" in comment


def test_what_follows_and_what_the_file_says_come_first(shorter_window: tuple[Run, str]) -> None:
    result, comment = shorter_window
    follows = [
        "qwen-vllm restarts, its graph is there",
        "qwen-sd-vllm is down while its graph compiles",
    ]
    first, second, third, *_ = result.stdout.split("\n\n")
    assert first.startswith("main (")
    assert second.splitlines()[:3] == [
        "What a deploy does to what runs",
        *(f"  {sentence}" for sentence in follows),
    ]
    assert third.splitlines() == [
        "What the file says",
        "  speculation.num_speculative_tokens: 7 -> 5",
    ]
    before_the_table = comment.partition("| Stack |")[0].splitlines()
    assert {f"- {sentence}" for sentence in follows} <= {*before_the_table}
    assert "- `speculation.num_speculative_tokens: 7 -> 5`" in before_the_table


def test_comment_sums_up_and_folds(shorter_window: tuple[Run, str]) -> None:
    result, comment = shorter_window
    assert comment.startswith("### main (")
    assert "| article-serving |  | 4 |  |  |" in comment
    assert "| Kubernetes manifests |  | 4 |  |  |" in comment
    summaries = re.findall("<details><summary>(.*)</summary>", comment)
    assert summaries == ["article-serving", "article-observability", "Kubernetes manifests"]
    assert ":warning:" not in comment
    assert len(result.stdout) > 1000


def test_leaves_nothing_behind(repository: Repository, shorter_window: tuple[Run, str]) -> None:
    assert shorter_window
    assert not list(repository.scratch.glob("diff-*"))
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert repository.git("status", "--porcelain") == ""


def one_line(result: Run) -> str:
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("base", ["nowhere", "main:Makefile"])
def test_unknown_base(repository: Repository, base: str) -> None:
    assert one_line(repository.diff(base, EXPERIMENT)) == f"no such revision: {base}"


@pytest.fixture
def cli(tmp_path: Path) -> Callable[[str], Path]:
    """A directory with a CDK CLI that does as it is told."""

    def write(script: str) -> Path:
        path = tmp_path / "cdk"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return tmp_path

    return write


REFUSE = """{
  echo 'a warning of the CLI'
  echo 'mine.yaml: no' >&2
  echo 'python3 app.py: Subprocess exited with error 1' >&2
  exit 1
}"""


def test_head_that_does_not_synthesise(repository: Repository, cli: Callable[[str], Path]) -> None:
    assert one_line(repository.diff("main", EXPERIMENT, tools=cli(REFUSE))) == "mine.yaml: no"


def test_base_that_does_not_synthesise(repository: Repository, cli: Callable[[str], Path]) -> None:
    only_base = f'case "$PWD" in */tree) {REFUSE};; esac'
    assert one_line(repository.diff("main", EXPERIMENT, tools=cli(only_base))) == (
        "main does not synthesise with the packages installed now: mine.yaml: no"
    )


SYNTHESISE = """
while [ "$1" != --output ]; do
  case "$1" in experiment=*) cat "${1#experiment=}" >> "$SEEN/experiments";; esac
  shift
done
mkdir -p "$2"
echo '{"artifacts": {}}' > "$2/manifest.json"
"""


@pytest.fixture
def asked(
    repository: Repository, cli: Callable[[str], Path], tmp_path: Path
) -> Iterator[Callable[..., tuple[Run, str]]]:
    """Runs the script; tells what the CLI was given to synthesise, which makes nothing of it."""
    tools = cli(SYNTHESISE)
    before = set((repository.path / "experiments").iterdir())

    def ask(*arguments: str) -> tuple[Run, str]:
        result = repository.diff(*arguments, tools=tools, SEEN=str(tmp_path))
        seen = tmp_path / "experiments"
        return result, seen.read_text() if seen.exists() else ""

    yield ask
    for path in {*(repository.path / "experiments").iterdir()} - before:
        path.unlink()


def write(repository: Repository, copied: str, fields: Mapping[str, str]) -> None:
    """``experiments/mine.yaml``, a copy with some lines changed."""
    text = (repository.path / "experiments" / copied).read_text()
    for field, value in fields.items():
        text = re.sub(rf"(?m)^( *{field}:).*$", rf"\1 {value}", text, count=1)
    (repository.path / "experiments/mine.yaml").write_text(text)


def test_a_new_file_is_compared_with_the_one_it_was_copied_from(
    repository: Repository, asked: Callable[..., tuple[Run, str]]
) -> None:
    write(repository, "eagle.yaml", {"name": "mine", "num_speculative_tokens": "3"})
    result, seen = asked("main", "experiments/mine.yaml")
    assert (result.returncode, result.stderr) == (0, "")
    assert (
        "main has no experiments/mine.yaml. It is compared with experiments/eagle.yaml, the most "
        "similar one there.\nThey are compared as if both were called mine.\n"
    ) in result.stdout
    assert "mine is made beside eagle, and nothing that runs is touched" in result.stdout
    said = result.stdout.partition("What the file says\n")[2].partition("\n\n")[0]
    assert said.splitlines() == [
        "  name: eagle -> mine",
        "  speculation.num_speculative_tokens: 5 -> 3",
    ]
    # Of both sides, stacks of one name are compared with each other.
    assert re.findall("(?m)^name: .*", seen) == ["name: mine", "name: mine"]


def test_a_file_from_anywhere(
    repository: Repository, asked: Callable[..., tuple[Run, str]], tmp_path: Path
) -> None:
    write(repository, "eagle.yaml", {"name": "mine", "num_speculative_tokens": "3"})
    file = (repository.path / "experiments/mine.yaml").rename(tmp_path / "mine.yaml")
    result, seen = asked("main", str(file))
    assert (result.returncode, result.stderr) == (0, "")
    assert f"main has no {file}. It is compared with experiments/eagle.yaml" in result.stdout
    assert "  speculation.num_speculative_tokens: 5 -> 3\n" in result.stdout
    assert sorted(re.findall(r"num_speculative_tokens: (\d)", seen)) == ["3", "5"]


def test_a_new_file_of_the_same_name_acts_on_the_same_stacks(
    repository: Repository, asked: Callable[..., tuple[Run, str]]
) -> None:
    write(repository, "article.yaml", {"rounds": "9"})
    result, _ = asked("main", "experiments/mine.yaml")
    assert (
        "Both are called article, so they act on the same stacks: a deploy of one changes what "
        "the other deployed. Another name gives it stacks of its own.\n"
    ) in result.stdout
    assert "  benchmark.rounds: 6 -> 9\n" in result.stdout
    assert "is made beside" not in result.stdout


def test_two_files_of_the_working_tree(
    repository: Repository, asked: Callable[..., tuple[Run, str]]
) -> None:
    two = ("experiments/article.yaml", "experiments/eagle.yaml")
    result, seen = asked("main", two[1], "--with", two[0])
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{two[0]} to {two[1]}, in the working tree\n")
    assert "  speculation.mode: fused -> eagle\n" in result.stdout
    assert re.findall("(?m)^name: .*", seen) == ["name: eagle", "name: eagle"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("experiments/none.yaml",), "no such file: .*/experiments/none.yaml"),
        (("experiments/article.yaml", "--with", "none.yaml"), "no such file: .*/none.yaml"),
        (("README.md",), "README.md: .*"),
    ],
)
def test_what_is_no_experiment_is_said_in_a_line(
    repository: Repository, arguments: tuple[str, ...], words: str
) -> None:
    assert re.search(words, one_line(repository.diff("main", *arguments)))
