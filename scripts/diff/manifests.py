"""The Kubernetes objects of both sides."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from scripts.diff.section import Section
from scripts.diff.tools import run

Objects = Mapping[tuple[str, str], dict[str, Any]]
"""By kind and name."""


def objects(directory: Path) -> Objects:
    """Those of ``*.k8s.yaml``."""
    yaml = YAML(typ="safe", pure=True)
    found = (its for path in sorted(directory.glob("*.k8s.yaml")) for its in yaml.load_all(path))
    return {(its["kind"], its["metadata"]["name"]): its for its in found if its}


def compare_manifests(base: Path, head: Path, scratch: Path, *, colour: bool) -> Section:
    """The section of ``dist/*.k8s.yaml``."""
    names: dict[str, set[str]] = {}
    for side, directory in (("base", base), ("head", head)):
        (scratch / side).mkdir(parents=True)
        for file in directory.glob("*.k8s.yaml"):
            shutil.copy(file, scratch / side)
        names[side] = {file.name for file in (scratch / side).iterdir()}
    result = run(
        *("git", "diff", "--no-index", "--no-ext-diff", "--no-prefix", "--stat", "--patch"),
        *(f"--color={'always' if colour else 'never'}", "base", "head"),
        cwd=scratch,
    )
    both = names["base"] & names["head"]
    return Section(
        "Kubernetes manifests",
        result.stdout.strip("\n"),
        added=len(names["head"] - names["base"]),
        changed=sum(
            (scratch / "base" / name).read_bytes() != (scratch / "head" / name).read_bytes()
            for name in both
        ),
        removed=len(names["base"] - names["head"]),
    )
