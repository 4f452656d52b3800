"""What `make diff` says of a change, and of what it cannot compare."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import diff
from scripts.diff import ROOT, Assembly, Section

EXPERIMENT = "experiments/article.yaml"
Run = subprocess.CompletedProcess[str]
Stacks = dict[str, dict[str, Any]]


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

    def diff(self, *arguments: str, tools: Path | None = None) -> Run:
        """Run the script; ``tools`` come first on the path."""
        path = os.pathsep.join(filter(None, [str(tools or ""), os.environ["PATH"]]))
        return self._run(sys.executable, "scripts/diff.py", *arguments, PATH=path)

    def _run(self, *command: str, check: bool = False, **environment: str) -> Run:
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


def test_base_without_the_experiment(repository: Repository, cli: Callable[[str], Path]) -> None:
    result = repository.diff("main", "experiments/new.yaml", tools=cli("exit 0"))
    assert result.returncode == 0
    assert "main has no experiments/new.yaml: everything is new.\n" in result.stdout


ASSET = "0" * 64
NEW_ASSET = "1" * 64
TOPIC = {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "one"}}}
OPEN = {"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
STATEMENT = {
    "Effect": "Allow",
    "Action": "sts:AssumeRole",
    "Principal": {"Service": "lambda.amazonaws.com"},
}
ACCESS = {
    "Group": {
        "Type": "AWS::EC2::SecurityGroup",
        "Properties": {"GroupDescription": "g", "SecurityGroupIngress": [OPEN]},
    },
    "Role": {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": {"Statement": [STATEMENT]}},
    },
}


def function(asset: str) -> dict[str, Any]:
    code = {"S3Bucket": "assets", "S3Key": f"{asset}.zip"}
    return {"Function": {"Type": "AWS::Lambda::Function", "Properties": {"Code": code}}}


def queue(name: str) -> dict[str, Any]:
    return {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}}


def assembly(directory: Path, asset: str, stacks: Stacks) -> Assembly:
    """A cloud assembly of ``stacks``, given by their resources."""
    directory.mkdir()
    (directory / f"asset.{asset}.zip").touch()
    artifacts = {}
    for name, resources in stacks.items():
        file = f"{name}.template.json"
        (directory / file).write_text(json.dumps({"Resources": resources}))
        artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "environment": "aws://unknown-account/us-east-2",
            "properties": {"templateFile": file},
        }
    (directory / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return Assembly.read(directory)


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Section]:
    """Stacks that came, went, stayed and changed."""
    scratch = tmp_path_factory.mktemp("assemblies")
    before: Stacks = {"same": TOPIC, "old": TOPIC, "code": function(ASSET), "risky": queue("one")}
    after: Stacks = {"same": TOPIC, "new": TOPIC, "code": function(NEW_ASSET)}
    after["risky"] = queue("two") | ACCESS
    base = assembly(scratch / "base", ASSET, before)
    head = assembly(scratch / "head", NEW_ASSET, after)
    found = diff.compare(base, head, scratch / "cdk", colour=False)
    return {section.title: section for section in found}


@pytest.mark.parametrize(
    ("stack", "counts", "notes"),
    [
        ("same", (0, 0, 0), ()),
        ("new", (1, 0, 0), ("new",)),
        ("old", (0, 0, 1), ("removed",)),
        ("code", (0, 1, 0), ("only the content of assets",)),
        ("risky", (2, 1, 0), ("IAM", "security groups", "replacement")),
    ],
)
def test_stack(
    sections: dict[str, Section], stack: str, counts: tuple[int, int, int], notes: tuple[str, ...]
) -> None:
    section = sections[stack]
    assert (section.added, section.changed, section.removed) == counts
    assert section.notes == notes


def test_new_and_removed_stacks_are_shown_whole(sections: dict[str, Section]) -> None:
    assert sections["new"].text == "Resources\n[+] AWS::SNS::Topic Topic"
    assert sections["old"].text == "Resources\n[-] AWS::SNS::Topic Topic destroy"


def test_comment_warns_of_access(sections: dict[str, Section]) -> None:
    comment = diff.markdown("title", [], list(sections.values()), 10_000)
    assert "> :warning: **IAM** in risky\n" in comment
    assert "> :warning: **security groups** in risky\n" in comment


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Manifest": '[{"replicas":1}]'}, {"Manifest": [{"replicas": 1}]}),
        ({"args": ['{"top_k": 1}', "--flag"]}, {"args": [{"top_k": 1}, "--flag"]}),
        ("one\ntwo\n", ["one", "two"]),
        ({"Fn::Join": ["", ['["', {"Ref": "Bucket"}, '"]']]}, ["${Bucket}"]),
        ({"Fn::Join": ["", ['["', {"Fn::GetAtt": ["Role", "Arn"]}, '"]']]}, ["${Role.Arn}"]),
        ({"Fn::Join": ["", ["arn:", {"Ref": "A"}]]}, {"Fn::Join": ["", ["arn:", {"Ref": "A"}]]}),
        ("{{resolve:ssm:/name}}", "{{resolve:ssm:/name}}"),
        (7, 7),
    ],
)
def test_unfold(value: object, expected: object) -> None:
    assert diff.unfold(value) == expected


def test_long_comment_is_cut_between_lines() -> None:
    short = Section("short", text="a line")
    long = [Section(name, text="another `line`\n" * 9999) for name in ("first", "second")]
    comment = diff.markdown("title", [], [short, *long], 20_000)
    assert 19_000 < len(comment) <= 20_000
    assert "\na line\n" in comment
    assert comment.count("<details>") == comment.count("</details>") == 3
    assert comment.count("```diff\n") == comment.count("\n```\n") == 3
    assert comment.count("Cut to fit here") == 2
    assert set(re.findall("^another.*", comment, re.MULTILINE)) == {"another `line`"}
