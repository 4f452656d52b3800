"""Preflight looks for what the stacks create, and asks for what they need."""

from __future__ import annotations

import json

from deployment.account import Deployment
from deployment.preflight.account import BOOTSTRAP_VERSION, stack_names
from tests.synthesis import ACCOUNT, Synthesised


def test_the_names_of_all_stacks_are_known(each: Synthesised) -> None:
    deployment = Deployment(each.experiment, "mine.yaml", ACCOUNT)
    known = {name for name, _ in stack_names(deployment)}
    assert known == {f"{deployment.name}-{stack}" for stack in each.stacks}


def test_the_version_of_the_bootstrap_is_what_the_assembly_needs(synthesised: Synthesised) -> None:
    manifest = json.loads((synthesised.directory / "manifest.json").read_text(encoding="utf-8"))
    needed = {
        artifact["properties"]["requiresBootstrapStackVersion"]
        for artifact in manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    assert max(needed) == BOOTSTRAP_VERSION
