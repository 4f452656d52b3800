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
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scripts.diff import restarts, stacks
from scripts.diff.restarts import Restart
from scripts.diff.tools import ROOT, DiffError, Section, cdk, run

COMMENT_LIMIT: Final = 60_000
"""GitHub takes 65,536 characters; the rest is for what the workflow adds."""

_NAME: Final = re.compile(r"^name: *(.*?) *(#.*)?$", re.MULTILINE)
_CUT: Final = "Cut to fit here; `make diff` and the log of the workflow have all of it."
_FRAME: Final = 200
"""Characters of a comment around a section's text."""


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
        result = cdk(
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
    colour = sys.stdout.isatty() and not options.markdown and "NO_COLOR" not in os.environ
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves nothing behind
    with TemporaryDirectory(prefix="diff-") as directory:
        scratch = Path(directory)
        try:
            new = Side("the working tree", ROOT, ROOT / options.experiment)
            old = _other(options.other) if options.other else _base(options.base, new, scratch)
            title = f"{old.title} to {options.experiment} in the working tree"
            restarting, sections = compare(old, new, scratch, colour=colour)
        except DiffError as error:
            print(error, file=sys.stderr)
            return 1
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads only the beginning ends this quietly
    print("\n\n".join([title, restarts.table(restarting), *map(str, sections)]))
    if options.markdown:
        comment = markdown(title, restarting, sections, COMMENT_LIMIT)
        options.markdown.write_text(comment, encoding="utf-8")
    return 0


def compare(
    old: Side, new: Side, scratch: Path, *, colour: bool
) -> tuple[list[Restart], list[Section]]:
    """Which pods are replaced, and what differs. Raises DiffError."""
    file = _git_diff("The experiment file", old.file, new.file, colour=colour)
    renamed = old.renamed(new.name) if old.name != new.name else old
    try:
        with ThreadPoolExecutor() as pool:
            synthesised = [
                pool.submit(side.synthesise, scratch / folder)
                for side, folder in ((renamed, "before"), (new, "after"))
            ]
            before, after = (each.result() for each in synthesised)
    finally:
        if renamed is not old:
            renamed.file.unlink()
    replaced = restarts.restarts(*(restarts.read(side / "dist") for side in (before, after)))
    differing = stacks.compare(before / "cdk.out", after / "cdk.out", colour=colour)
    manifests = _git_diff("Manifests", before / "dist", after / "dist", colour=colour)
    return replaced, [file, *differing, manifests]


def _other(file: Path) -> Side:
    """Another file of the working tree."""
    return Side(str(file), ROOT, ROOT / file)


def _base(base: str, new: Side, scratch: Path) -> Side:
    """The same file in another revision. Raises DiffError."""
    # A clone of another branch has no branch of this name, but knows that of where it comes from.
    for name in (base, f"origin/{base}"):
        result = run("git", "rev-parse", "--verify", "--short", f"{name}^{{commit}}")
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


def _git_diff(title: str, old: Path, new: Path, *, colour: bool) -> Section:
    result = run(
        *("git", "diff", "--no-index", "--no-ext-diff", "--no-prefix"),
        *(f"--color={'always' if colour else 'never'}", os.path.relpath(old), os.path.relpath(new)),
        cwd=Path.cwd(),
    )
    return Section(title, result.stdout.strip("\n"))


def markdown(
    title: str, restarting: Sequence[Restart], sections: Sequence[Section], limit: int
) -> str:
    """Everything that fits into ``limit`` characters, for a comment."""
    rows = [f"### {title}", "", restarts.markdown(restarting), ""]
    for note in stacks.NOTICED.values():
        if titles := [section.title for section in sections if note in section.notes]:
            rows += [f"> :warning: **{note}** in {', '.join(titles)}", ""]
    rows += [f"{section.title}: unchanged  " for section in sections if not section.text]
    head = "\n".join(rows)
    return head + "".join(_folded(sections, limit - len(head)))


def _folded(sections: Sequence[Section], limit: int) -> Iterator[str]:
    """Each section that has something to show; the shortest first, so that long ones are cut."""
    differing = sorted((s for s in sections if s.text), key=lambda section: len(section.text))
    for number, section in enumerate(differing):
        fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", section.text))])
        summary = f"\n<details><summary>{section.title}</summary>\n\n"
        room = max(limit // (len(differing) - number) - len(summary) - _FRAME, 0)
        whole = len(section.text) <= room
        text = section.text if whole else section.text[:room].rpartition("\n")[0]
        cut = "" if whole else f"\n\n{_CUT}"
        folded = f"{summary}{fence}diff\n{text}\n{fence}{cut}\n\n</details>\n"
        limit -= len(folded)
        yield folded


if __name__ == "__main__":
    sys.exit(main())
