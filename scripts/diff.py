#!/usr/bin/env python3
"""What the working tree would change against another revision, without an AWS account.

usage: scripts/diff.py BASE EXPERIMENT [--markdown FILE]

Both sides are synthesised with the packages that are installed now, each from its own code.
Prints ``cdk diff --method=template`` of every stack, then the
difference of the Kubernetes manifests; FILE gets the same as a comment for a pull request.
Exit status 0 whether or not anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("requirements.txt", "constraints.txt", "package-lock.json")
COMMENT_LIMIT = 60_000
"""GitHub takes 65,536 characters; the rest is for what the workflow adds."""

NOTICED = {
    "IAM Statement Changes": "IAM",
    "IAM Policy Changes": "IAM",
    "Security Group Changes": "security groups",
    "requires replacement": "replacement",
    "may cause replacement": "possible replacement",
}
"""What the CDK CLI says of a change that a reviewer must not overlook."""


class DiffError(Exception):
    """There is nothing to compare; the message is one line."""


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


@dataclass(frozen=True)
class Section:
    """What differs in one stack, or in all manifests."""

    title: str
    text: str = ""
    added: int = 0
    changed: int = 0
    removed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The notes in words."""
        return ", ".join(self.notes) or ("" if self.text else "unchanged")


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


Result = subprocess.CompletedProcess[str]


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> Result:
    """Runs ``command`` without AWS credentials; returns its result."""
    clean = {key: item for key, item in os.environ.items() if not key.startswith("AWS_")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean | {"AWS_EC2_METADATA_DISABLED": "true"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def cdk(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> Result:
    """Runs the CDK CLI; returns its result. Standard error holds what the app prints."""
    if not shutil.which("cdk"):
        raise DiffError("no cdk on the PATH: `make diff` brings it")
    quiet = {"CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true", **environment}
    return run("cdk", "--no-lookups", "--no-notices", *arguments, cwd=cwd, **quiet)


def synthesise(tree: Path, experiment: str, output: Path) -> str | None:
    """Write the assembly of ``tree`` to ``output/cdk.out`` and its manifests to ``output/dist``.

    Returns what the app said if it refused.
    """
    context = f"experiment={experiment}"
    result = cdk("--context", context, "--output", output / "cdk.out", "synth", "--quiet", cwd=tree)
    if not result.returncode:
        return None
    lines = [line for line in result.stderr.splitlines() if "Subprocess exited" not in line]
    return "\n".join(lines).strip() or "cdk synth failed"


def check_out(base: str, directory: Path) -> str:
    """Put the files of revision ``base`` into ``directory``; returns its short name."""
    found = run("git", "rev-parse", "--verify", "--short", f"{base}^{{commit}}")
    revision = found.stdout.strip()
    if found.returncode or base.startswith("-"):
        raise DiffError(f"no such revision: {base}")
    directory.mkdir()
    # Unlike a worktree, an archive leaves nothing in .git, however this ends.
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "--extract"], cwd=directory, input=archive.stdout, check=True)
    return revision


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


def plain(title: str, remarks: list[str], sections: list[Section]) -> str:
    """Everything, for a terminal."""
    blocks = ["\n".join([title, *remarks])]
    for section in sections:
        heading = f"{section.title}: {section.summary}" if section.summary else section.title
        blocks.append("\n".join(filter(None, [heading, section.text])))
    return "\n\n".join(blocks) + "\n"


def markdown(title: str, remarks: list[str], sections: list[Section], limit: int) -> str:
    """Everything that fits into ``limit`` characters, for a comment."""
    rows = [f"### {title}", "", *(f"{remark}  " for remark in remarks), ""]
    rows += ["| Stack | Added | Changed | Removed | |", "| --- | ---: | ---: | ---: | --- |"]
    rows += [
        f"| {section.title} | {section.added or ''} | {section.changed or ''}"
        f" | {section.removed or ''} | {section.summary} |"
        for section in sections
    ]
    for note in dict.fromkeys(NOTICED.values()):
        if stacks := [section.title for section in sections if note in section.notes]:
            rows += ["", f"> :warning: **{note}** in {', '.join(stacks)}"]
    differing = [section for section in sections if section.text]
    frame = "\n<details><summary>{}</summary>\n\n{}\n{}\n{}\n{}\n\n</details>\n"
    cut = "Cut to fit here; `make diff` and the log of the workflow have all of it."
    # The shortest first: what one does not need of its share is there for the longer ones.
    left = limit - len("\n".join(rows)) - len(differing) * (len(frame) + len(cut) + 200)
    texts: dict[str, tuple[str, bool]] = {}
    for count, section in enumerate(sorted(differing, key=lambda each: len(each.text))):
        share = max(left // (len(differing) - count), 0)
        whole = len(section.text) <= share
        text = section.text if whole else section.text[:share].rpartition("\n")[0]
        texts[section.title] = text, whole
        left -= len(text)
    for section in differing:
        text, whole = texts[section.title]
        fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
        rows.append(
            frame.format(section.title, f"{fence}diff", text, fence, "" if whole else f"\n{cut}")
        )
    return "\n".join(rows) + "\n"


def difference(
    base: str, experiment: str, scratch: Path, *, colour: bool
) -> tuple[str, list[str], list[Section]]:
    """Title, remarks and sections of the whole difference."""
    tree, before, after = scratch / "tree", scratch / "before", scratch / "after"
    revision = check_out(base, tree)
    title = f"{base} ({revision}) to working tree, {experiment}"
    remarks = []
    with ThreadPoolExecutor() as pool:
        head = pool.submit(synthesise, ROOT, experiment, after)
        there = (tree / experiment).exists()
        refused = synthesise(tree, experiment, before) if there else None
        if refusal := head.result():
            raise DiffError(refusal)
    if refused:
        reason = refused.splitlines()[-1]
        raise DiffError(f"{base} does not synthesise with the packages installed now: {reason}")
    if not there:
        remarks.append(f"{base} has no {experiment}: everything is new.")
    if run("git", "diff", "--quiet", revision, "--", *PACKAGES).returncode:
        remarks.append("Pinned packages differ. Both sides are synthesised with those of now.")
    sections = compare(
        Assembly.read(before / "cdk.out"),
        Assembly.read(after / "cdk.out"),
        scratch / "cdk",
        colour=colour,
    )
    manifests = (before / "dist", after / "dist")
    return (
        title,
        remarks,
        [*sections, compare_manifests(*manifests, scratch / "dist", colour=colour)],
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the difference; returns the exit status."""
    parser = argparse.ArgumentParser(description="What the working tree would change.")
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument("experiment", metavar="EXPERIMENT", help="a file of experiments/")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="also write a comment")
    given = parser.parse_args(arguments)
    experiment = Path(given.experiment)
    if experiment.is_absolute() and experiment.is_relative_to(ROOT):
        experiment = experiment.relative_to(ROOT)  # each side has its own
    colour = sys.stdout.isatty() and not given.markdown and "NO_COLOR" not in os.environ
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves nothing behind
    with TemporaryDirectory(prefix="diff-") as scratch:
        try:
            result = difference(given.base, str(experiment), Path(scratch), colour=colour)
        except DiffError as error:
            print(error, file=sys.stderr)
            return 1
    print(plain(*result), end="")
    if given.markdown:
        given.markdown.write_text(markdown(*result, COMMENT_LIMIT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
