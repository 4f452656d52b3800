"""What the CDK CLI says of the difference between two cloud assemblies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from scripts.diff.tools import DiffError, Section, cdk

NOTICED: Final = {
    "IAM Statement Changes": "IAM",
    "IAM Policy Changes": "IAM",
    "Security Group Changes": "security groups",
    "requires replacement": "replacement",
    "may cause replacement": "possible replacement",
}
"""What the CDK CLI says of a change that a reviewer must not overlook."""

_NOTHING: Final[Mapping[str, Any]] = {"Resources": {}}


def compare(base: Path, head: Path, *, colour: bool) -> list[Section]:
    """A section for each stack of either assembly. Rewrites both. Raises DiffError."""
    old, new = _templates(base), _templates(head)
    for name, file in new.items():
        beside = old.setdefault(name, base / file.name)
        before = json.loads(beside.read_text()) if beside.exists() else _NOTHING
        beside.write_text(json.dumps(unfold(before)))
        file.write_text(json.dumps(unfold(json.loads(file.read_text()))))
    compared = partial(_compare_stack, old, head, colour=colour)
    with ThreadPoolExecutor() as pool:
        sections = list(pool.map(compared, new))
    removed = (name for name in old if name not in new)
    return [*sections, *(Section(name, "a deploy deletes no stack", ("gone",)) for name in removed)]


def _templates(assembly: Path) -> dict[str, Path]:
    """The template's file of each stack."""
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    return {
        name: assembly / artifact["properties"]["templateFile"]
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }


def _compare_stack(old: Mapping[str, Path], head: Path, name: str, *, colour: bool) -> Section:
    result = cdk(
        *("--color" if colour else "--no-color", "--app", head, "diff", name, "--exclusively"),
        *("--method=template", "--template", old[name]),
        FORCE_COLOR="1" if colour else "0",
    )
    if result.returncode:
        raise DiffError(f"cdk diff failed for {name}: {' '.join(result.stderr.split())}")
    if "There were no differences" in result.stdout:
        return Section(name)
    # The CLI's own first and last line name and count the stacks.
    text = re.sub(r"\A(.*\n)*?.*Stack .*\n|\n.*✨ .*\s*\Z", "", result.stdout).strip("\n")
    notes = dict.fromkeys(note for words, note in NOTICED.items() if words in text)
    return Section(name, text, tuple(notes))


def unfold(value: Any) -> Any:
    """``value`` with the JSON and the lines that it carries as text taken apart.

    Manifests, dashboards and scripts are single strings in a template; without this, one changed
    number would show as two lines of 50 kB.
    """
    if isinstance(value, list):
        return [unfold(item) for item in value]
    text = value
    if isinstance(value, dict):
        separator, parts = value.get("Fn::Join", (None, None))
        if separator is None or not isinstance(parts, list):
            return {key: unfold(item) for key, item in value.items()}
        text = separator.join(
            part if isinstance(part, str) else "${" + ".".join(_leaves(part)) + "}"
            for part in parts
        )
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        try:
            return unfold(json.loads(text))
        except ValueError:
            pass
    return text.splitlines() if isinstance(text, str) and "\n" in text else value


def _leaves(value: Any) -> Iterator[str]:
    """Every scalar inside ``value``."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield str(value)
