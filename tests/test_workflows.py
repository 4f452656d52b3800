"""What the workflows on GitHub may do, the comments they write, and the Pythons they try."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.run_make import ROOT, make
from tools.diff import Comparison
from tools.effects import TITLES

FOLDER = ROOT / ".github" / "workflows"
COMMENTING = "pull-request-comment.yml"
FILES = sorted(FOLDER.glob("*.yml"))
DELIVERING = ("deploy.yml", "experiment.yml")
CREDENTIALS = "aws-actions/configure-aws-credentials"
ROLES = {"deploy": "DEPLOY_ROLE", "measure": "DEPLOY_ROLE", "changes": "DIFF_ROLE"}
"""Jobs that act in an account, and the repository variable that names their role."""
READS: Final = {"contents": "read"}
PERMISSIONS: Final[dict[tuple[str, str], dict[str, str]]] = {
    (COMMENTING, "comment"): {"actions": "read", "pull-requests": "write"},
    ("experiment.yml", "comment"): {"pull-requests": "write"},
    ("release.yml", "attest"): {"id-token": "write", "attestations": "write"},
    ("release.yml", "publish"): {"id-token": "write"},
    ("deploy.yml", "deploy"): READS | {"id-token": "write"},
    ("experiment.yml", "measure"): READS | {"id-token": "write"},
    ("pull-request.yml", "changes"): READS | {"id-token": "write"},
}
"""Of jobs by file and name; of all others to read."""
TRIGGERS: Final = {
    "main.yml": "push",
    "release.yml": "push",
    "pull-request.yml": "pull_request",
    COMMENTING: "workflow_run",
    **dict.fromkeys(DELIVERING, "workflow_dispatch"),
}

Workflow = dict[str, Any]


def load(path: Path) -> Workflow:
    workflow: Workflow = YAML(typ="safe", pure=True).load(path)
    return workflow


def steps(workflow: Workflow) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


every_workflow = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def test_actions_are_pinned() -> None:
    assert not list(FOLDER.glob("*.yaml"))  # all are looked at
    action = ROOT / "packages/spectap/action.yml"
    uses = {use for path in (*FILES, action) for use in re.findall(r"\buses:.*", path.read_text())}
    for use in uses:
        allowed = f"{CREDENTIALS}|aquasecurity/trivy-action|pypa/gh-action-pypi-publish"
        pinned = rf"uses: (actions/[a-z-]+|{allowed})@[0-9a-f]{{40}} # v\d+\.\d+\.\d+"
        assert re.fullmatch(pinned, use)
    assert len({use.partition("@")[0] for use in uses}) == len(uses), "an action has one version"


@every_workflow
def test_a_job_may_do_what_it_must_and_ends(path: Path) -> None:
    workflow, longest = load(path), {"deploy": 120, "measure": 355}
    assert set(workflow["on"]) == {TRIGGERS[path.name]}
    assert workflow["permissions"] == {}
    assert workflow["concurrency"] == {"group": "account"} or path.name not in DELIVERING
    for name, job in workflow["jobs"].items():
        assert job["permissions"] == PERMISSIONS.get((path.name, name), READS)
        assert job["timeout-minutes"] <= longest.get(name, 20)


@every_workflow
def test_no_secrets_and_nothing_foreign_in_a_script(path: Path) -> None:
    assert set(re.findall(r"secrets\.(\w+)", path.read_text())) <= {"GITHUB_TOKEN"}
    assert not re.search(r"aws-access|AWS_(?!REGION)|aws-secret", path.read_text())
    for step in steps(load(path)):
        given = step.get("with", {})
        script = step.get("run", "") + given.get("script", "")
        assert set(re.findall(r"\$\{\{(.*?)\}\}", script)) <= {" matrix.target "}
        is_checkout = step.get("uses", "").startswith("actions/checkout@")
        assert given.get("persist-credentials") is (False if is_checkout else None)
        assert "ref" not in given


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
    assert condition.endswith(
        " && github.event.pull_request.head.repo.full_name == github.repository"
    )


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


@pytest.mark.parametrize("name", DELIVERING)
def test_a_file_is_a_name_and_no_code(name: str) -> None:
    (job,) = (j for j in load(FOLDER / name)["jobs"].values() if "EXPERIMENT" in j.get("env", {}))
    script = job["steps"][0]["run"]  # before there are credentials
    refused = ("experiments/../secrets.yaml", "$(shell id)a.yaml", "experiments/a.yaml\nid", "")
    for file in ("experiments/mine.yaml", "experiments/two-cores_2.yaml", *refused):
        ended = subprocess.run(
            ["bash", "-e", "-c", script],
            env={"EXPERIMENT": file, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
        )
        assert (ended.returncode != 0) == (file in refused)
        assert ended.stderr == "experiment: must be experiments/NAME.yaml\n" * (file in refused)


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
    pull_request = load(FOLDER / "pull-request.yml")["name"]
    assert workflow["on"]["workflow_run"]["workflows"] == [pull_request]
    used = [step["uses"].partition("@")[0] for step in steps(workflow)]
    assert used == ["actions/download-artifact"] * 2 + ["actions/github-script"]
    assert not any("run" in step for step in steps(workflow))


# Runs the script of a workflow against a GitHub that records what it is told.
HARNESS = """
const { script, pulls, comments, run } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const calls = [];
const record = (name) => async (given) => { calls.push({ name, ...given }); };
const issues = {
  listComments: () => comments,
  createComment: record('create'),
  updateComment: record('update'),
};
const github = { paginate: async (list) => list(), rest: { pulls: { list: () => pulls }, issues } };
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
ENVIRONMENT = {"EXPERIMENT": "experiments/x.yaml", "PULL_REQUEST": "12", "RESULT": "failure"}
NO_DIFF = "There is no diff: the log says why."


def calls_of(runner: Path, path: str = COMMENTING, **given: Any) -> list[dict[str, Any]]:
    """What the last script of the commenting job asks of GitHub, with ``runner`` as its folder."""
    script = load(FOLDER / path)["jobs"]["comment"]["steps"][-1]["with"]["script"]
    result = subprocess.run(
        ["node", "--eval", HARNESS],
        env={"PATH": os.environ["PATH"], "RUNNER_TEMP": str(runner)} | ENVIRONMENT,
        input=json.dumps({"script": script, "run": RUN, "pulls": [PULL], "comments": []} | given),
        capture_output=True,
        text=True,
        check=True,
    )
    calls: list[dict[str, Any]] = json.loads(result.stdout)
    return calls


def artifact(folder: Path, name: str, text: str) -> Path:
    """A file of the runner, as the other workflow has left it."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def compared(**given: Any) -> dict[str, Any]:
    """One experiment of ``make diff``, as its JSON has it."""
    return asdict(Comparison("experiments/a.yaml", "changed")) | given


def comment_on(folder: Path, *files: dict[str, Any], **changes: str) -> str:
    """The body of the comment on a pull request that changes ``files``, and an account."""
    artifact(folder, "diff/diff.json", json.dumps({"base": "main", "files": files}))
    if changes:
        artifact(folder, "changes/changes.json", json.dumps(changes))
    (call,) = calls_of(folder)
    return str(call["body"])


def test_a_comment_is_made_once_and_then_updated(tmp_path: Path) -> None:
    body = comment_on(tmp_path, compared())
    assert body.startswith(f"{MARKER}\n\n<h3><code>experiments/a.yaml</code>: changed</h3>")
    assert body.endswith('abc (<a href="https://example.com/run">log</a>)</p>\n')
    bot, them = ({"login": login} for login in ("github-actions[bot]", "them"))
    comments: list[dict[str, Any]] = [
        {"id": 1, "user": bot, "body": "something else"},
        {"id": 2, "user": them, "body": f"{MARKER} forged"},
    ]
    (call,) = calls_of(tmp_path, comments=comments)
    assert (call["name"], call["issue_number"]) == ("create", 12)
    (call,) = calls_of(tmp_path, comments=[*comments, {"id": 3, "user": bot, "body": MARKER}])
    assert (call["name"], call["comment_id"]) == ("update", 3)
    for head in ({"sha": "later", "repo": {"id": 7}}, {"sha": "abc", "repo": {"id": 8}}):
        assert calls_of(tmp_path, pulls=[{"number": 12, "head": head}]) == []


FOREIGN = """Approved</code></pre></details> <!-- by --> <img src=x>
![i](https://a.b) @team #1 `a|b`

**Approved by CI** https://a.b\u200b\u202e\r\n```\n"""


def test_a_comment_speaks_for_the_project_alone(tmp_path: Path) -> None:
    experiment = compared(
        file=FOREIGN,
        summary=FOREIGN,
        warnings=[{"kind": "api", "detail": FOREIGN}],
        pods=[{"kind": FOREIGN, "name": FOREIGN, "effect": FOREIGN}],
        sections=[{"title": FOREIGN, "text": FOREIGN}],
    )
    body = comment_on(tmp_path, experiment, experiment=FOREIGN, region=FOREIGN, text=FOREIGN)
    # A line of HTML ends at a blank one, text in <pre> at </pre> alone: nothing is Markdown.
    pre = r'<pre lang="diff">\n[^<>]*</pre>'
    assert len(re.findall(pre, body)) == 2
    own = re.sub(rf"{pre}|<code>[^<>\n]*</code>", "", body)
    for foreign in ("Approved", "img", "@", "#", "`", "by CI", "a.b", "\u200b", "\u202e"):
        assert foreign not in own
    assert all(line.startswith("<") for line in own.splitlines() if line)
    assert not re.search("[\u200b\u202e\r]", body)
    assert own.index(TITLES["api"]) < own.index("Pods of") < own.index("<details>")


def test_a_comment_fits_and_takes_only_what_make_diff_writes(tmp_path: Path) -> None:
    sections = [{"title": "a", "text": "&\n" * 25_000}, {"title": "b", "text": "b\n"}] * 5
    warned = [{"kind": kind, "detail": "a"} for kind in TITLES]
    experiments = [
        compared(status=status, sections=sections, warnings=warned)
        for status in ("changed", "unchanged", "added", "removed", "failed")
    ]
    body = comment_on(tmp_path, *experiments, experiment="a", region="a", text="&" * 60_000)
    assert 30_000 < len(body) < 65_536
    assert all(f"<b>{title}</b>" in body for title in TITLES.values())
    assert "cut to fit here" in body
    assert NO_DIFF not in body
    assert len(comment_on(tmp_path, *[compared(summary="a" * 200)] * 400)) < 65_536
    wrongs: list[dict[str, Any]] = [
        {"status": "approved"},
        {"warnings": [{"kind": "Approved by CI", "detail": ""}]},
        {"summary": 5},
        {"more": ""},
        {"pods": [[]]},
    ]
    for wrong in wrongs:
        assert NO_DIFF in comment_on(tmp_path, compared(**wrong))
    for text in ("{", "null", "[]", '{"base": "main", "files": {}}'):
        artifact(tmp_path, "diff/diff.json", text)
        assert NO_DIFF in calls_of(tmp_path)[0]["body"]
    # Nor does it follow a link.
    text = json.dumps({"base": "main", "files": [compared(summary="token")]})
    path = artifact(tmp_path, "diff/diff.json", text)
    path.rename(tmp_path / "token")
    path.symlink_to(tmp_path / "token")
    body = calls_of(tmp_path)[0]["body"]
    assert "token" not in body
    assert NO_DIFF in body


def test_table_of_a_run_is_a_comment(tmp_path: Path) -> None:
    (call,) = calls_of(tmp_path, "experiment.yml")
    assert "There is no table" in call["body"]
    artifact(tmp_path, "results/table.txt", "Variant\n```escape\n")
    (call,) = calls_of(tmp_path, "experiment.yml")
    assert call["issue_number"] == 12
    assert "Variant\n'''escape" in call["body"]
    assert call["body"].startswith("Experiment `experiments/x.yaml`: failure ([log and report](")


README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMED = re.findall(r"3\.\d+", README.partition("\nNeeded: Python ")[2].partition(", GNU")[0])
OLDEST, NEWEST = NAMED[0], NAMED[-1]


@pytest.mark.parametrize(
    ("version", "status", "message"),
    [
        *((int(version[2:]), 0, "") for version in (OLDEST, NEWEST)),
        (int(OLDEST[2:]) - 1, 2, f"Python {OLDEST} to {NEWEST} is needed; Python"),
        (int(NEWEST[2:]) + 1, 2, f"Python {OLDEST} to {NEWEST} is needed; Python"),
    ],
)
def test_make_says_what_it_takes(tmp_path: Path, version: int, status: int, message: str) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f'-c) exec {sys.executable} -c "import sys; sys.version_info = (3, {version}, 0); $2";;\n'
        f"--version) echo Python 3.{version}.0;;\n"
        "esac\n"
    )
    python.chmod(0o755)
    result = make(tmp_path, {}, ".venv/bin/pip", f"PYTHON={python}")
    assert result.returncode == status
    assert result.stderr.startswith(message)
    assert bool(result.stderr) is bool(message)


def test_the_oldest_and_the_newest_are_tried_and_checks_are_for_the_oldest() -> None:
    job = load(FOLDER / "main.yml")["jobs"]["make"]
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == [OLDEST]
    assert matrix["include"] == [{"target": "test", "python": NEWEST}]
    (setup,) = (s["with"] for s in job["steps"] if "setup-python" in s.get("uses", ""))
    assert setup["python-version"] == "${{ matrix.python }}"
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tool["mypy"]["python_version"] == OLDEST
    assert tool["ruff"]["target-version"] == f"py{OLDEST.replace('.', '')}"
