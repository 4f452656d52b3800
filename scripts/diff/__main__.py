"""What a change would do, without an AWS account.

usage: python -m scripts.diff BASE EXPERIMENT [--with FILE] [--markdown FILE]

Compares EXPERIMENT in the working tree with the same file in revision BASE; if BASE has no such
file, with the most similar one that it has; with ``--with``, with another file of the working tree.
Both sides are synthesised with the packages that are installed now, each from its own code. Prints
what follows for what runs, the fields of the files that differ, ``cdk diff --method=template`` of
every stack, and the difference of the Kubernetes manifests; FILE of ``--markdown`` gets the same as
a comment for a pull request. Exit status 0 whether or not anything differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.diff import fields, resources, workloads
from scripts.diff.manifests import compare_manifests, objects
from scripts.diff.output import COMMENT_LIMIT, Difference, markdown, plain
from scripts.diff.sides import Side, check_out, synthesise
from scripts.diff.stacks import Assembly, compare, impacts
from scripts.diff.tools import ROOT, DiffError, run

PACKAGES = ("requirements.txt", "constraints.txt", "package-lock.json")


def main(arguments: list[str] | None = None) -> int:
    """Print the difference; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.diff", description="What changes.")
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument("experiment", metavar="EXPERIMENT", help="its file")
    parser.add_argument(
        "--with", dest="other", metavar="FILE", help="another file, in place of BASE"
    )
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="also write a comment")
    given = parser.parse_args(arguments)
    colour = sys.stdout.isatty() and not given.markdown and "NO_COLOR" not in os.environ
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves nothing behind
    with TemporaryDirectory(prefix="diff-") as directory:
        scratch = Path(directory)
        try:
            new = Side("the working tree", ROOT, ROOT / given.experiment)
            said = fields.read(new.file)
            if given.other:
                old, title, remarks = _other(given.other, given.experiment)
            else:
                old, title, remarks = _base(given.base, given.experiment, said, scratch)
            found = difference(old, new, title, remarks, scratch, colour=colour)
        except DiffError as error:
            print(error, file=sys.stderr)
            return 1
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads only the beginning ends this quietly
    print(plain(found), end="")
    if given.markdown:
        given.markdown.write_text(markdown(found, COMMENT_LIMIT))
    return 0


def _other(other: str, experiment: str) -> tuple[Side, str, list[str]]:
    """Another file of the working tree."""
    return Side(other, ROOT, ROOT / other), f"{other} to {experiment}, in the working tree", []


def _base(
    base: str, experiment: str, said: fields.Fields, scratch: Path
) -> tuple[Side | None, str, list[str]]:
    """The same file in another revision, or the one that it was most likely copied from."""
    tree = scratch / "tree"
    revision = check_out(base, tree)
    packages = run("git", "diff", "--quiet", revision, "--", *PACKAGES)
    remarks = (
        ["Pinned packages differ. Both sides are synthesised with those of now."]
        if packages.returncode
        else []
    )
    # Each side has its own, unless the file lies elsewhere.
    path = (ROOT / experiment).resolve()
    title = f"{base} ({revision}) to working tree, {experiment}"
    if path.is_relative_to(ROOT) and (file := tree / path.relative_to(ROOT)).exists():
        return Side(base, tree, file), title, remarks
    there = {str(file.relative_to(tree)): file for file in (tree / "experiments").glob("*.yaml")}
    similar = fields.most_similar(said, {name: fields.read(there[name]) for name in sorted(there)})
    if similar is None:
        return None, title, [*remarks, f"{base} has no {experiment}: everything is new."]
    remarks.append(
        f"{base} has no {experiment}. It is compared with {similar}, the most similar one there."
    )
    return Side(base, tree, there[similar]), title, remarks


def difference(
    old: Side | None, new: Side, title: str, remarks: list[str], scratch: Path, *, colour: bool
) -> Difference:
    """Everything that differs between two sides. Raises DiffError."""
    before, after = (fields.read(side.file) if side else {} for side in (old, new))
    names = before.get("name"), after.get("name")
    beside = old is not None and names[0] != names[1]
    if old and beside:
        old = old.called(str(names[1]), scratch / "called")
        remarks = [*remarks, f"They are compared as if both were called {names[1]}."]
    elif old and old.file.name != new.file.name:
        remarks = [
            *remarks,
            f"Both are called {names[1]}, so they act on the same stacks: a deploy of one changes "
            "what the other deployed. Another name gives it stacks of its own.",
        ]
    synthesise(old, new, scratch)
    folders = scratch / "before", scratch / "after"
    base, head = (Assembly.read(folder / "cdk.out") for folder in folders)
    sections = compare(base, head, scratch / "cdk", colour=colour)
    dist = (folders[0] / "dist", folders[1] / "dist")
    words = (
        [
            f"{names[1]} is made beside {names[0]}, and nothing that runs is touched: they share "
            "no stack and no bucket, so checkpoints and graphs are made anew"
        ]
        if beside
        else [
            *resources.consequences(base, head, impacts(sections)),
            *(workloads.consequences(*map(objects, dist)) if old else ()),
        ]
    )
    return Difference(
        title=title,
        remarks=remarks,
        words=words or (["nothing that runs is touched"] if old else []),
        fields=fields.differences(before, after) if old else [],
        sections=[*sections, compare_manifests(*dist, scratch / "dist", colour=colour)],
    )


if __name__ == "__main__":
    sys.exit(main())
