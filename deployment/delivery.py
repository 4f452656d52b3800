"""The roles of GitHub's workflows, and what a pull request would change in the account."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from deployment.account import Deployment, DeploymentError
from deployment.lifecycle import cdk, context, run, say

_DELIVERY_ONLY: Final = ("--context", "delivery=true")
"""``app.py`` then has this stack, and no other."""
_LONGEST: Final = 20_000
"""Characters of a comment, which also has the difference of the code."""


def make(deployment: Deployment, *, yes: bool, remove: bool) -> int:
    """``make delivery``: makes the roles, or removes them; returns the CLI's exit status.

    Raises DeploymentError.
    """
    delivery = deployment.experiment.delivery
    if delivery is None:
        raise DeploymentError(
            f"{deployment.file}: has no section delivery, so nothing may deploy it but you: "
            "docs/delivery.md"
        )
    stack = f"{deployment.name}-delivery"
    say(f"{deployment.headline}: {'removing' if remove else 'deploying'} {stack}")
    options = [*context(deployment), *_DELIVERY_ONLY]
    if remove:
        return cdk("destroy", stack, *(["--force"] if yes else []), *options)
    approval = ["--require-approval", "never"] if yes else []
    status = cdk("deploy", stack, *approval, *options)
    if status == 0:
        address = re.sub(r"@\d+", "", delivery.repository)
        say(
            f"In https://github.com/{address}/settings, set the repository variables DIFF_ROLE, "
            f"DEPLOY_ROLE, AWS_REGION={deployment.region} and EXPERIMENT={deployment.file}, and "
            f"protect the environment {delivery.environment}: docs/delivery.md"
        )
    return status


def compare(deployment: Deployment, markdown: str | None) -> int:
    """``make changes``: ``cdk diff`` against what is deployed; returns its exit status.

    It compares templates and makes no change set, because the code of a pull request runs this
    (docs/assumptions.md, "A change set may read as its role"). ``markdown`` is a file that gets
    the output for a pull request. Raises DeploymentError.
    """
    arguments = ("diff", "--method", "template", "--no-color", "--ci", *context(deployment))
    if markdown is None:
        return cdk(*arguments)
    completed = run(arguments, capture=True)
    say(completed.stdout + completed.stderr)
    output = completed.stdout or completed.stderr
    Path(markdown).write_text(_comment(deployment, output), encoding="utf-8")
    return completed.returncode


def _comment(deployment: Deployment, output: str) -> str:
    """In a fence that nothing in the text can end."""
    text = output.strip()
    cut = f"{text[:_LONGEST]}\n... the log has all of it" if len(text) > _LONGEST else text
    fence = "`" * 3
    while fence in cut:
        fence += "`"
    title = f"Against what is deployed of experiment {deployment.name} in {deployment.region}"
    return f"<details><summary>{title}</summary>\n\n{fence}\n{cut}\n{fence}\n\n</details>\n"
