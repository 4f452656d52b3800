"""Cloud assemblies of stacks that are given by their resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.diff.stacks import Assembly

Stacks = dict[str, dict[str, Any]]


def assembly(directory: Path, stacks: Stacks, asset: str = "0" * 64) -> Assembly:
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
