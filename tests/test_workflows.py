"""What the workflows on GitHub are allowed to do, and the one comment they write."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.made import checkout, without_make
from tests.spectap import generated_runs

FOLDER = Path(__file__).parent.parent / ".github" / "workflows"
COMMENTING = "pull-request-comment.yml"
FILES = sorted(FOLDER.glob("*.yml"))
DELIVERING = ("deploy.yml", "experiment.yml")
CREDENTIALS = "aws-actions/configure-aws-credentials"
ROLES = {"deploy": "DEPLOY_ROLE", "measure": "DEPLOY_ROLE", "changes": "DIFF_ROLE"}
"""Jobs that act in an account, and the repository variable that names their role."""

Workflow = dict[str, Any]


def load(path: Path) -> Workflow:
    workflow: Workflow = YAML(typ="safe", pure=True).load(path)
    return workflow


def steps(workflow: Workflow) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


every_workflow = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


@every_workflow
def test_actions_are_pinned(path: Path) -> None:
    uses = re.findall(r"\buses:.*", path.read_text())
    for use in uses:
        allowed = f"{CREDENTIALS}|aquasecurity/trivy-action|pypa/gh-action-pypi-publish"
        pinned = rf"uses: (actions/[a-z-]+|{allowed})@[0-9a-f]{{40}} # v\d+\.\d+\.\d+"
        assert re.fullmatch(pinned, use)
    assert len(uses) == sum("uses" in step for step in steps(load(path)))


def test_an_action_has_one_version() -> None:
    assert not list(FOLDER.glob("*.yaml"))  # all are looked at
    uses = {step["uses"] for path in FILES for step in steps(load(path)) if "uses" in step}
    names = [use.partition("@")[0] for use in uses]
    assert len(names) == len(set(names))


READS: Final = {"contents": "read"}
PERMISSIONS: Final[dict[str, dict[str, str]]] = {
    "comment": {"pull-requests": "write"},
    "attest": {"id-token": "write", "attestations": "write"},
    "publish": {"id-token": "write"},
    **dict.fromkeys(ROLES, READS | {"id-token": "write"}),
}
"""Of jobs by name; of all others to read."""


@every_workflow
def test_a_job_may_do_what_it_must_and_ends(path: Path) -> None:
    workflow, longest = load(path), {"deploy": 120, "measure": 355}
    assert workflow["permissions"] == {}
    assert workflow["concurrency"]
    for name, job in workflow["jobs"].items():
        expected = PERMISSIONS.get(name, READS)
        if path.name == COMMENTING:
            expected = {"actions": "read", "pull-requests": "write"}
        assert job["permissions"] == expected
        # A role meets no token that writes.
        assert path.name not in DELIVERING or not {"id-token", "pull-requests"} <= set(expected)
        assert job["timeout-minutes"] <= longest.get(name, 20)


@every_workflow
def test_no_secrets_and_nothing_foreign_in_a_script(path: Path) -> None:
    assert set(re.findall(r"secrets\.(\w+)", path.read_text())) <= {"GITHUB_TOKEN"}
    assert not re.search(r"aws-access|AWS_(?!REGION)|aws-secret", path.read_text())
    for step in steps(load(path)):
        script = step.get("run", "") + step.get("with", {}).get("script", "")
        assert set(re.findall(r"\$\{\{(.*?)\}\}", script)) <= {" matrix.target "}
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        assert "ref" not in step.get("with", {})


@every_workflow
def test_an_account_is_reached_by_role_alone_after_everything_is_installed(path: Path) -> None:
    for name, job in load(path)["jobs"].items():
        used = [step for step in job["steps"] if step.get("uses", "").startswith(CREDENTIALS)]
        assert len(used) == (name in ROLES), name
        for step in used:
            role = ROLES[name]
            assert job["if"].startswith(f"vars.{role} != ''")
            assert step["with"]["role-to-assume"] == f"${{{{ vars.{role} }}}}"
            assert (job.get("environment") == "aws") == (role == "DEPLOY_ROLE")
            # Everything is installed before there are credentials.
            assert job["steps"][job["steps"].index(step) - 1] == {"run": "make install"}


def test_a_fork_reaches_no_account() -> None:
    condition = load(FOLDER / "pull-request.yml")["jobs"]["changes"]["if"]
    condition_end = "github.event.pull_request.head.repo.full_name == github.repository"
    assert condition.endswith(f" && {condition_end}")


def test_nodes_end_whatever_happens() -> None:
    job = load(FOLDER / "experiment.yml")["jobs"]["measure"]
    lines = [step.get("run", step.get("uses", "")) for step in job["steps"]]
    measured = lines.index("exec make experiment YES=1")
    after = job["steps"][measured + 1 :]
    # A file that was refused is not acted on after all, by a checkout of another time.
    (check,) = (step for step in job["steps"] if step.get("id") == "check")
    assert "experiment: must be experiments/NAME.yaml" in check["run"]
    checked = "always() && steps.check.outcome == 'success'"
    assert after[0] == {"if": checked, "run": "make stop"}
    assert all(step["if"] == checked for step in after[:-1])
    assert after[-1]["if"] == f"{checked} && inputs.afterwards == 'destroy'"
    assert after[-1]["run"] == "make destroy YES=1"
    # Neither may be cut off by the end of the job, nor by that of the credentials.
    spent = sum(step.get("timeout-minutes", 0) for step in job["steps"])
    assert spent < job["timeout-minutes"] < 360
    (credentials,) = (s["with"] for s in job["steps"] if s.get("uses", "").startswith(CREDENTIALS))
    assert credentials["role-duration-seconds"] >= 60 * job["timeout-minutes"]


WAITING = """#!/usr/bin/env python3
import signal
import sys
from pathlib import Path

def told(*_: object) -> None:
    Path("told").write_text(" ".join(sys.argv[1:4]))
    sys.exit(1)

signal.signal(signal.SIGTERM, told)
print("waits", flush=True)
signal.pause()
"""
"""In the place of Python: waits to be told."""


def test_a_step_that_is_cancelled_tells_the_command(tmp_path: Path) -> None:
    """As the runner cancels one (actions/runner, ``CancelAndKillProcessTree``): to the step's own
    process SIGINT, and a while later SIGTERM."""
    checkout(tmp_path, WAITING)
    job = load(FOLDER / "experiment.yml")["jobs"]["measure"]
    (line,) = (s["run"] for s in job["steps"] if "make experiment" in s.get("run", ""))
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    with subprocess.Popen(
        ["bash", "-e", "-c", line],
        cwd=tmp_path,
        env=outside | {"EXPERIMENT": "experiments/mine.yaml"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
    assert (tmp_path / "told").read_text() == "-m deployment experiment"


BENCHMARK = f"""#!/bin/sh
PYTHONPATH={FOLDER.parents[1]} exec {sys.executable} "$@"
"""


def test_the_newest_run_is_drawn_and_no_name_is_code(tmp_path: Path) -> None:
    """As the shell of the step, where the last that came home has a name that a pod has chosen."""
    config = generated_runs.config(cases=generated_runs.CASES[:1], rounds=2)
    for name in ("run-1", "run-2", "`touch ran`", "$(shell touch ran)", "a\n::error::x"):
        folder = checkout(tmp_path, BENCHMARK) / "results" / name
        generated_runs.write(folder, config, generated_runs.ledger(config, seed=1))
    job = load(FOLDER / "experiment.yml")["jobs"]["measure"]
    (line,) = (s["run"] for s in job["steps"] if "make report" in s.get("run", ""))
    ended = subprocess.run(
        ["bash", "-e", "-c", line],
        cwd=tmp_path,
        env=without_make() | {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not (tmp_path / "ran").exists()
    assert len(ended.stderr.splitlines()) == 3
    assert "spectap: results/: '`touch ran`' is no name of a run: left out" in ended.stderr
    table = (tmp_path / "table.txt").read_text()
    assert table.endswith("report: results/run-2/report.html\n")
    assert (tmp_path / "summary").read_text() == re.sub("^", "    ", table[:-1], flags=re.M) + "\n"


@pytest.mark.parametrize("name", DELIVERING)
@pytest.mark.parametrize(
    ("file", "accepted"),
    [
        ("experiments/mine.yaml", True),
        ("experiments/two-cores_2.yaml", True),
        ("experiments/../secrets.yaml", False),
        ("$(shell id)a.yaml", False),
        ('experiments/a.yaml"; id; : "', False),
        ("experiments/a.yaml\nid", False),
        ("", False),
    ],
)
def test_a_file_is_a_name_and_no_code(name: str, file: str, accepted: bool) -> None:
    for job in load(FOLDER / name)["jobs"].values():
        if "EXPERIMENT" not in job.get("env", {}):
            continue
        checked, *rest = job["steps"]
        assert not any(step.get("uses", "").startswith(CREDENTIALS) for step in [checked])
        assert any(step.get("uses", "").startswith(CREDENTIALS) for step in rest)
        ended = subprocess.run(
            ["bash", "-e", "-c", checked["run"]],
            env={"EXPERIMENT": file, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode == 0) == accepted
        assert ended.stderr == ("" if accepted else "experiment: must be experiments/NAME.yaml\n")


def test_two_never_act_on_the_account_at_once() -> None:
    groups = {str(load(FOLDER / name)["concurrency"]) for name in DELIVERING}
    assert groups == {str({"group": "account"})}


@every_workflow
def test_triggers(path: Path) -> None:
    expected = {
        "main.yml": {"push"},
        "release.yml": {"push"},
        "pull-request.yml": {"pull_request"},
        COMMENTING: {"workflow_run"},
        **{name: {"workflow_dispatch"} for name in DELIVERING},
    }
    assert set(load(path)["on"]) == expected[path.name]


def test_a_release_is_of_a_tag_and_only_where_somebody_has_turned_it_on() -> None:
    workflow = load(FOLDER / "release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert workflow["jobs"]["build"]["if"] == "vars.RELEASES == 'on'"
    assert [job.get("needs") for job in workflow["jobs"].values()] == [None, "build", "attest"]
    assert workflow["jobs"]["publish"]["environment"] == "pypi"
    # What may sign or publish runs no code of a package.
    for name in ("attest", "publish"):
        assert not any("run" in step for step in workflow["jobs"][name]["steps"])


def test_token_that_writes_meets_no_foreign_code() -> None:
    workflow = load(FOLDER / COMMENTING)
    assert workflow["on"]["workflow_run"]["workflows"] == [
        load(FOLDER / "pull-request.yml")["name"]
    ]
    used = [step["uses"].partition("@")[0] for step in steps(workflow)]
    assert used == ["actions/download-artifact"] * 2 + ["actions/github-script"]
    assert not any("run" in step for step in steps(workflow))


# Runs the script of a workflow against a GitHub that records what it is told.
HARNESS = """
const { script, pulls, comments, run } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const calls = [];
const record = (name) => async (given) => { calls.push({ name, ...given }); };
const github = {
  paginate: async (list) => list(),
  rest: {
    pulls: { list: () => pulls },
    issues: {
      listComments: () => comments,
      createComment: record('create'),
      updateComment: record('update'),
    },
  },
};
const repo = { owner: 'us', repo: 'here' };
const payload = { workflow_run: run };
const context = { repo, payload, runId: 5, serverUrl: 'https://example.com' };
const core = { info: () => {} };
const AsyncFunction = (async () => {}).constructor;
new AsyncFunction('github', 'context', 'core', 'require', script)(github, context, core, require)
  .then(() => console.log(JSON.stringify(calls)));
"""
MARKER = "<!-- diff of base and head -->"
RUN = {
    "head_sha": "abc",
    "head_branch": "change",
    "head_repository": {"id": 7, "owner": {"login": "them"}},
    "html_url": "https://example.com/run",
}
PULL = {"number": 12, "head": {"sha": "abc", "repo": {"id": 7}}}


def calls_of(
    path: str, job: str, environment: dict[str, str], **inputs: Any
) -> list[dict[str, Any]]:
    """What the last script of a job asks of GitHub."""
    script = load(FOLDER / path)["jobs"][job]["steps"][-1]["with"]["script"]
    result = subprocess.run(
        ["node", "--eval", HARNESS],
        env={"PATH": os.environ["PATH"]} | environment,
        input=json.dumps({"script": script, "run": RUN} | inputs),
        capture_output=True,
        text=True,
        check=True,
    )
    calls: list[dict[str, Any]] = json.loads(result.stdout)
    return calls


def comment(
    directory: Path, *, pulls: list[Any] | None = None, comments: list[Any] | None = None
) -> list[dict[str, Any]]:
    """What the commenting workflow writes, with ``directory`` as the runner's own."""
    (job,) = load(FOLDER / COMMENTING)["jobs"]
    environment = {"RUNNER_TEMP": str(directory)}
    return calls_of(COMMENTING, job, environment, pulls=pulls or [], comments=comments or [])


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    (tmp_path / "diff").mkdir()
    path = tmp_path / "diff" / "diff.md"
    path.write_text("| table |\n")
    return path


def test_first_comment(tmp_path: Path, artifact: Path) -> None:
    assert artifact.exists()
    (call,) = comment(tmp_path, pulls=[PULL])
    assert (call["name"], call["issue_number"]) == ("create", 12)
    assert call["body"] == f"{MARKER}\n| table |\n\nabc ([log](https://example.com/run))\n"


def test_comment_is_updated_in_place(tmp_path: Path, artifact: Path) -> None:
    assert artifact.exists()
    comments = [
        {"id": 1, "user": {"login": "github-actions[bot]"}, "body": "something else"},
        {"id": 2, "user": {"login": "them"}, "body": f"{MARKER} forged"},
        {"id": 3, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\nold"},
    ]
    (call,) = comment(tmp_path, pulls=[PULL], comments=comments)
    assert (call["name"], call["comment_id"]) == ("update", 3)


@pytest.mark.parametrize(
    "head", [{"sha": "later", "repo": {"id": 7}}, {"sha": "abc", "repo": {"id": 8}}]
)
def test_no_comment_on_another_pull_request(
    tmp_path: Path, artifact: Path, head: dict[str, Any]
) -> None:
    assert artifact.exists()
    assert comment(tmp_path, pulls=[{"number": 12, "head": head}]) == []


def test_comment_without_a_diff(tmp_path: Path) -> None:
    (call,) = comment(tmp_path, pulls=[PULL])
    assert "There is no diff: the log says why." in call["body"]


def test_comment_has_what_would_change_in_the_account_calls_nobody_and_fits(
    tmp_path: Path, artifact: Path
) -> None:
    artifact.write_text("@everyone " * 10_000)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "changes.md").write_text("against what is deployed @them\n")
    (call,) = comment(tmp_path, pulls=[PULL])
    assert "against what is deployed" in call["body"]
    assert "@everyone" not in call["body"]
    assert "@them" not in call["body"]
    assert len(call["body"]) < 65_536


@pytest.mark.parametrize(
    ("table", "expected"),
    [("Variant\n```escape\n", f"Variant\n{3 * chr(39)}escape"), (None, "There is no table")],
)
def test_table_of_a_run_is_a_comment(tmp_path: Path, table: str | None, expected: str) -> None:
    if table is not None:
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "table.txt").write_text(table)
    environment = {
        "RUNNER_TEMP": str(tmp_path),
        "EXPERIMENT": "experiments/x.yaml",
        "PULL_REQUEST": "12",
        "RESULT": "failure",
    }
    (call,) = calls_of("experiment.yml", "comment", environment)
    assert call["issue_number"] == 12
    assert expected in call["body"]
    begin = "Experiment `experiments/x.yaml`: failure ([log and report](https://example.com/us/here"
    assert call["body"].startswith(begin)


def test_artifact_cannot_point_elsewhere(tmp_path: Path, artifact: Path) -> None:
    artifact.rename(tmp_path / "token")
    artifact.symlink_to(tmp_path / "token")
    (call,) = comment(tmp_path, pulls=[PULL])
    assert "table" not in call["body"]
