"""The CloudFormation stacks of both sides, and what the CDK CLI says of their difference."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scripts.diff.section import Section
from scripts.diff.tools import DiffError, cdk

NOTICED = {
    "IAM Statement Changes": "IAM",
    "IAM Policy Changes": "IAM",
    "Security Group Changes": "security groups",
    "requires replacement": "replacement",
    "may cause replacement": "possible replacement",
}
"""What the CDK CLI says of a change that a reviewer must not overlook."""


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_IMPACT = re.compile(
    r"\[[~+-]\] \S+ (?:.* )?(?P<id>\S+) (?P<impact>replace|may be replaced|destroy|orphan)$"
)


@dataclass(frozen=True)
class Assembly:
    """One side: stacks by name, and the hashes of all assets they refer to."""

    stacks: dict[str, dict[str, Any]]
    templates: dict[str, dict[str, Any]]
    assets: frozenset[str] = frozenset()

    @classmethod
    def read(cls, directory: Path) -> Assembly:
        """Read a cloud assembly; a directory that does not exist has no stack."""
        if not directory.exists():
            return cls({}, {})
        artifacts = json.loads((directory / "manifest.json").read_text())["artifacts"]
        stacks = {k: v for k, v in artifacts.items() if v["type"] == "aws:cloudformation:stack"}
        templates = {
            name: json.loads((directory / stack["properties"]["templateFile"]).read_text())
            for name, stack in stacks.items()
        }
        assets = frozenset(file.name.split(".")[1] for file in directory.glob("asset.*"))
        return cls(stacks, templates, assets)


def leaves(value: Any) -> Iterator[str]:
    """Every scalar inside ``value``."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield str(value)


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
            part if isinstance(part, str) else "${" + ".".join(leaves(part)) + "}" for part in parts
        )
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        try:
            return unfold(json.loads(text))
        except ValueError:
            pass
    return text.splitlines() if isinstance(text, str) and "\n" in text else value


def compare(base: Assembly, head: Assembly, scratch: Path, *, colour: bool) -> list[Section]:
    """One section for each stack of either side; new and removed ones against nothing."""
    nothing: dict[str, Any] = {"Resources": {}}
    stacks = head.stacks | {k: v for k, v in base.stacks.items() if k not in head.stacks}
    (scratch / "base").mkdir(parents=True)
    (scratch / "head").mkdir()
    artifacts = {}
    for name, stack in stacks.items():
        file = f"{name}.template.json"
        properties = stack["properties"] | {"templateFile": file}
        kept = {key: stack[key] for key in ("type", "environment", "displayName") if key in stack}
        artifacts[name] = kept | {"properties": properties}
        for side, assembly in (("base", base), ("head", head)):
            template = unfold(assembly.templates.get(name, nothing))
            (scratch / side / file).write_text(json.dumps(template))
    manifest = {"version": "36.0.0", "artifacts": artifacts}  # as old as these fields are
    (scratch / "head/manifest.json").write_text(json.dumps(manifest))
    one = partial(compare_stack, base, head, scratch, colour=colour)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, stacks))


def compare_stack(
    base: Assembly, head: Assembly, scratch: Path, name: str, *, colour: bool
) -> Section:
    """The section of one stack."""
    before, after = base.templates.get(name), head.templates.get(name)
    if before == after:
        return Section(name)
    old, new = (side.get("Resources", {}) if side else {} for side in (before, after))
    result = cdk(
        *("--color" if colour else "--no-color", "--app", scratch / "head", "diff", name),
        *("--method=template", "--template", scratch / f"base/{name}.template.json"),
        FORCE_COLOR="1" if colour else "0",
    )
    if result.returncode:
        raise DiffError(f"cdk diff failed for {name}: {' '.join(result.stderr.split())}")
    # The CLI's own first and last line name and count what the title says.
    text = re.sub(r"\A(.*\n)*?.*Stack .*\n|\n.*✨ .*\s*\Z", "", result.stdout).strip("\n")
    notes = ["new"] if before is None else ["removed"] if after is None else []
    hashes = re.compile("|".join(sorted(base.assets | head.assets)) or "(?!)")
    if hashes.sub("", json.dumps(before)) == hashes.sub("", json.dumps(after)):
        notes.append("only the content of assets")
    if "There were no differences" in text:
        notes.append("only the form of text")
    notes += dict.fromkeys(note for words, note in NOTICED.items() if words in text)
    return Section(
        name,
        text,
        added=len(new.keys() - old.keys()),
        changed=sum(old[key] != new[key] for key in old.keys() & new.keys()),
        removed=len(old.keys() - new.keys()),
        notes=tuple(notes),
    )


def impacts(sections: Sequence[Section]) -> dict[tuple[str, str], str]:
    """What the CLI says becomes of resources: ``replace``, ``may be replaced``, ``destroy``, ...

    By stack and logical id (aws/aws-cdk-cli, ``diff-formatter.ts``, ``formatResourceDifference``).
    """
    found = {}
    for section in sections:
        for line in _COLOUR.sub("", section.text).splitlines():
            if told := _IMPACT.match(line):
                found[section.title, told["id"]] = told["impact"]
    return found
