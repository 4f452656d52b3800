"""What a change would do, without an AWS account.

usage: python -m scripts.diff BASE EXPERIMENT [--with FILE] [--markdown FILE]

Compares EXPERIMENT in the working tree with the same file in revision BASE or with another file of
the working tree. Both sides are synthesised with the packages that are installed now, each from its
own code. Prints which pods a deploy replaces, what differs in the file,
``cdk diff --method=template`` of every stack, and what differs in the manifests; FILE of
``--markdown`` gets the same as a comment for a pull request. Exit status 0 whether or not anything
differs.
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts import restarts
from scripts.restarts import Restart

ROOT: Final = Path(__file__).resolve().parents[1]
COMMENT_LIMIT: Final = 60_000
"""GitHub takes 65,536 characters; the rest is for what the workflow adds."""
NOTICED: Final = {
    "IAM Statement Changes": "IAM",
    "IAM Policy Changes": "IAM",
    "Security Group Changes": "security groups",
    "requires replacement": "replacement",
    "may cause replacement": "possible replacement",
}
"""What the CDK CLI says of a change that a reviewer must not overlook."""

_NAME: Final = re.compile(r"^name: *(.*?) *(#.*)?$", re.MULTILINE)
_CUT: Final = "Cut to fit here; `make diff` and the log of the workflow have all of it."
_FRAME: Final = 200
"""Characters of a comment around a section's text."""


class DiffError(Exception):
    """There is nothing to compare; the message is one line."""


@dataclass(frozen=True)
class Section:
    """What differs in one stack, in the manifests or in the file; without text nothing does."""

    title: str
    text: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        heading = ", ".join([*self.notes] if self.text else ["unchanged"])
        return "\n".join(filter(None, [f"{self.title}: {heading}".removesuffix(": "), self.text]))


@dataclass(frozen=True)
class Side:
    """An experiment file, and the code that synthesises it."""

    title: str
    tree: Path
    file: Path

    @property
    def name(self) -> str:
        """The experiment's, of which stacks have theirs. Raises DiffError."""
        try:
            match = _NAME.search(self.file.read_text(encoding="utf-8"))
        except OSError:
            raise DiffError(f"no such file: {self.file}") from None
        if match is None:
            raise DiffError(f"{self.file}: is no experiment: it has no name")
        return match[1]

    def renamed(self, name: str) -> Side:
        """The same under another name, so that its stacks are compared with their counterparts."""
        copy = self.file.with_name(f".{self.file.stem}-as-{name}.yaml")
        text = _NAME.sub(f"name: {name}", self.file.read_text(encoding="utf-8"), count=1)
        copy.write_text(text, encoding="utf-8")
        return replace(self, file=copy)

    def synthesise(self, output: Path) -> Path:
        """Writes ``cdk.out`` and ``dist`` into the folder, and returns it. Raises DiffError."""
        result = _cdk(
            *("--context", f"experiment={self.file}", "--output", output / "cdk.out"),
            *("synth", "--quiet"),
            cwd=self.tree,
        )
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if "Subprocess exited" not in line]
            reason = lines[-1] if lines else "cdk synth failed"
            raise DiffError(f"{self.title} does not synthesise: {reason}")
        return output


def main(arguments: list[str] | None = None) -> int:
    """Prints the difference; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.diff", description="What changes.")
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument("experiment", metavar="EXPERIMENT", type=Path, help="its file")
    parser.add_argument("--with", dest="other", type=Path, help="another file, in place of BASE")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="also write a comment")
    options = parser.parse_args(arguments)
    is_coloured = sys.stdout.isatty() and not options.markdown and "NO_COLOR" not in os.environ
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves nothing behind
    with TemporaryDirectory(prefix="diff-") as directory:
        scratch = Path(directory)
        try:
            new = Side("the working tree", ROOT, ROOT / options.experiment)
            if options.other:
                old = Side(str(options.other), ROOT, ROOT / options.other)
            else:
                old = _base(options.base, new, scratch)
            title = f"{old.title} to {options.experiment} in the working tree"
            replaced, sections = compare(old, new, scratch, is_coloured=is_coloured)
        except DiffError as error:
            print(error, file=sys.stderr)
            return 1
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads only the beginning ends this quietly
    print("\n\n".join([title, restarts.table(replaced), *map(str, sections)]))
    if options.markdown:
        comment = markdown(title, replaced, sections, COMMENT_LIMIT)
        options.markdown.write_text(comment, encoding="utf-8")
    return 0


def compare(
    old: Side, new: Side, scratch: Path, *, is_coloured: bool
) -> tuple[list[Restart], list[Section]]:
    """Which pods are replaced, and what differs. Raises DiffError."""
    git_diff = partial(_git_diff, is_coloured=is_coloured)
    file = git_diff("The experiment file", old.file, new.file)
    renamed = old.renamed(new.name) if old.name != new.name else old
    try:
        with ThreadPoolExecutor() as pool:
            sides = pool.map(
                Side.synthesise, (renamed, new), (scratch / "before", scratch / "after")
            )
            before, after = sides
    finally:
        if renamed is not old:
            renamed.file.unlink()
    replaced = restarts.restarts(restarts.read(before / "dist"), restarts.read(after / "dist"))
    stacks = compare_stacks(before / "cdk.out", after / "cdk.out", is_coloured=is_coloured)
    return replaced, [file, *stacks, git_diff("Manifests", before / "dist", after / "dist")]


def _base(base: str, new: Side, scratch: Path) -> Side:
    """The same file in another revision. Raises DiffError."""
    # A clone of another branch has no branch of this name, but knows that of where it comes from.
    for name in (base, f"origin/{base}"):
        result = _run("git", "rev-parse", "--verify", "--short", f"{name}^{{commit}}")
        if not result.returncode:
            break
    if result.returncode or base.startswith("-"):
        raise DiffError(f"no such revision: {base}")
    revision, tree = result.stdout.strip(), scratch / "tree"
    tree.mkdir()
    # Unlike a worktree, an archive leaves nothing in .git, however this ends.
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "--extract"], cwd=tree, input=archive.stdout, check=True)
    path = new.file.resolve()
    old = tree / path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
    if old is None or not old.exists():
        raise DiffError(f"{base} has no {new.file.name}: compare it with another, WITH=FILE")
    return Side(f"{base} ({revision})", tree, old)


def _git_diff(title: str, old: Path, new: Path, *, is_coloured: bool) -> Section:
    colour = f"--color={'always' if is_coloured else 'never'}"
    result = _run(
        *("git", "diff", "--no-index", "--no-ext-diff", "--no-prefix", colour),
        *(os.path.relpath(old), os.path.relpath(new)),
        cwd=Path.cwd(),
    )
    return Section(title, result.stdout.strip("\n"))


def compare_stacks(base: Path, head: Path, *, is_coloured: bool) -> list[Section]:
    """A section for each stack of either assembly. Rewrites both. Raises DiffError."""
    old, new = _templates(base), _templates(head)
    for name, file in new.items():
        counterpart = old.setdefault(name, base / file.name)
        before = counterpart.read_text() if counterpart.exists() else '{"Resources": {}}'
        counterpart.write_text(json.dumps(unfold(json.loads(before))))
        file.write_text(json.dumps(unfold(json.loads(file.read_text()))))
    with ThreadPoolExecutor() as pool:
        compared = partial(_compare_stack, old, head, is_coloured=is_coloured)
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


def _compare_stack(old: Mapping[str, Path], head: Path, name: str, *, is_coloured: bool) -> Section:
    result = _cdk(
        *("--color" if is_coloured else "--no-color", "--app", head, "diff", name, "--exclusively"),
        *("--method=template", "--template", old[name]),
        FORCE_COLOR="1" if is_coloured else "0",
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


def markdown(
    title: str, replaced: Sequence[Restart], sections: Sequence[Section], limit: int
) -> str:
    """Everything that fits into ``limit`` characters, for a comment."""
    rows = [f"### {title}", "", restarts.markdown(replaced), ""]
    for note in dict.fromkeys(NOTICED.values()):
        if titles := [section.title for section in sections if note in section.notes]:
            rows += [f"> :warning: **{note}** in {', '.join(titles)}", ""]
    rows += [f"{section.title}: unchanged  " for section in sections if not section.text]
    comment = "\n".join(rows)
    # The shortest first, so that long ones are cut.
    differing = sorted((s for s in sections if s.text), key=lambda section: len(section.text))
    for number, section in enumerate(differing):
        room = (limit - len(comment)) // (len(differing) - number) - _FRAME
        comment += _folded(section, max(room, 0))
    return comment


def _folded(section: Section, room: int) -> str:
    """A section, cut to so many characters, in a fence that nothing in the text can end."""
    text, note = section.text, ""
    if len(text) > room:
        text, note = text[:room].rpartition("\n")[0], f"\n\n{_CUT}"
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", section.text))])
    summary = f"\n<details><summary>{section.title}</summary>\n\n"
    return f"{summary}{fence}diff\n{text}\n{fence}{note}\n\n</details>\n"


def _run(
    *command: str | Path, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` without AWS credentials; returns its result."""
    clean = {key: item for key, item in os.environ.items() if not key.startswith("AWS_")}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean | {"AWS_EC2_METADATA_DISABLED": "true"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _cdk(
    *arguments: str | Path, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the CDK CLI; returns its result. Standard error holds what the app prints."""
    if not shutil.which("cdk"):
        raise DiffError("no cdk on the PATH: `make diff` brings it")
    quiet = {"CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true", **environment}
    return _run("cdk", "--no-lookups", "--no-notices", *arguments, cwd=cwd, **quiet)


if __name__ == "__main__":
    sys.exit(main())
