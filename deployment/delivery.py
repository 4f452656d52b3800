"""The roles of GitHub's workflows, and what a pull request would change in the account."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deployment.errors import DeploymentError
from deployment.lifecycle import cdk, context, run, say, synthesised
from deployment.place import Place

_ALONE: Final = ("--context", "delivery=true")
"""``app.py`` then has this stack, and no other."""
_LONGEST: Final = 20_000
"""Characters of a comment, which also has the difference of the code."""


def make(place: Place, *, yes: bool, remove: bool) -> int:
    """``make delivery``: makes the roles, or removes them; returns the CLI's exit status.

    Raises DeploymentError.
    """
    told = place.experiment.delivery
    if told is None:
        raise DeploymentError(
            f"{place.file}: has no section delivery, so nothing may deploy it but you: "
            "docs/delivery.md"
        )
    stack = f"{place.name}-delivery"
    say(f"{place.headline}: {'removing' if remove else 'deploying'} {stack}")
    where = [*context(place.file, place.account), *_ALONE]
    if remove:
        return cdk("destroy", stack, *(["--force"] if yes else []), *where)
    approval = ["--require-approval", "never"] if yes else []
    status = cdk("deploy", stack, *approval, *where)
    if status == 0:
        address = re.sub(r"@\d+", "", told.repository)
        say(
            f"In https://github.com/{address}/settings, set the repository variables "
            f"DIFF_ROLE, DEPLOY_ROLE, AWS_REGION={place.region} and EXPERIMENT={place.file}, and "
            f"protect the environment {told.environment}: docs/delivery.md"
        )
    return status


def compare(place: Place, markdown: str | None) -> int:
    """``make changes``: ``cdk diff`` against what is deployed; returns its exit status.

    With change sets, which are deleted again, as far as the credentials may make them. ``markdown``
    is a file that gets the same for a pull request. Raises DeploymentError.
    """
    said, ended = list[str](), 0
    with tempfile.TemporaryDirectory(prefix="changes-") as folder:
        for arguments in _comparisons(place, Path(folder)):
            if markdown is None:
                ended = max(ended, cdk(*arguments))
                continue
            done = run(arguments, capture=True)
            say(done.stdout + done.stderr)
            said.append(done.stdout or done.stderr)
            ended = max(ended, done.returncode)
    if markdown is not None:
        Path(markdown).write_text(_comment(place, "\n".join(said)), encoding="utf-8")
    return ended


def _comparisons(place: Place, assembly: Path) -> Iterator[tuple[str, ...]]:
    """Arguments of the CLI: for stacks that are there, and for those that are to be made.

    A change set of a stack that is not there would make an empty one first.
    """
    stacks = synthesised(place, assembly)
    _send_templates(assembly)
    there = [each.name for each in stacks if each.status not in (None, "REVIEW_IN_PROGRESS")]
    new = [each.name for each in stacks if each.name not in there]
    common = ("--exclusively", "--no-color", "--ci", "--app", str(assembly))
    if there:
        yield "diff", *there, *common
    if new:
        yield "diff", *new, "--method", "template", *common


def _send_templates(assembly: Path) -> None:
    """Has the CLI send templates with its calls, and not by way of the bootstrap's bucket.

    Whoever may write there could replace a template that is deployed later (aws-cdk 2.1148.1,
    ``makeBodyParameter``, ``uploadStackTemplateAssets``).
    """
    manifest = assembly / "manifest.json"
    told = json.loads(manifest.read_text(encoding="utf-8"))
    for artifact in told["artifacts"].values():
        artifact.get("properties", {}).pop("stackTemplateAssetObjectUrl", None)
    manifest.write_text(json.dumps(told), encoding="utf-8")
    for file in assembly.glob("*.assets.json"):
        assets = json.loads(file.read_text(encoding="utf-8"))
        assets["files"] = {
            key: asset
            for key, asset in assets["files"].items()
            if not asset["source"]["path"].endswith(".template.json")
        }
        file.write_text(json.dumps(assets), encoding="utf-8")


def _comment(place: Place, said: str) -> str:
    """In a fence that nothing in the text can end."""
    text = said.strip()
    cut = f"{text[:_LONGEST]}\n... the log has all of it" if len(text) > _LONGEST else text
    fence = "`" * 3
    while fence in cut:
        fence += "`"
    title = f"Against what is deployed of experiment {place.name} in {place.region}"
    return f"<details><summary>{title}</summary>\n\n{fence}\n{cut}\n{fence}\n\n</details>\n"
