"""The two sides of a difference: files of a revision or of the working tree, synthesised."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scripts.diff.tools import ROOT, DiffError, cdk, run

_NAME = re.compile(r"^name:.*$", re.MULTILINE)


@dataclass(frozen=True)
class Side:
    """An experiment file, and the code that synthesises it."""

    said: str
    """In words."""
    tree: Path
    file: Path

    def called(self, name: str, directory: Path) -> Side:
        """The same with another name, in a copy of the folder that the file lies in.

        So stacks are compared with their counterparts, where two experiments have two names.
        """
        directory.mkdir()
        for beside in self.file.parent.iterdir():
            if beside.name != self.file.name:
                (directory / beside.name).symlink_to(beside.resolve())
        text = _NAME.sub(f"name: {name}", self.file.read_text(encoding="utf-8"), count=1)
        (directory / self.file.name).write_text(text, encoding="utf-8")
        return Side(self.said, self.tree, directory / self.file.name)

    def synthesise(self, output: Path) -> str | None:
        """Write the assembly to ``output/cdk.out`` and the manifests to ``output/dist``.

        Returns what the app said if it refused.
        """
        where = (
            self.file.relative_to(self.tree) if self.file.is_relative_to(self.tree) else self.file
        )
        result = cdk(
            *("--context", f"experiment={where}", "--output", output / "cdk.out"),
            *("synth", "--quiet"),
            cwd=self.tree,
        )
        if not result.returncode:
            return None
        lines = [line for line in result.stderr.splitlines() if "Subprocess exited" not in line]
        return "\n".join(lines).strip() or "cdk synth failed"


def synthesise(old: Side | None, new: Side, scratch: Path) -> None:
    """Both sides at once, below ``scratch/before`` and ``scratch/after``. Raises DiffError."""
    with ThreadPoolExecutor() as pool:
        after = pool.submit(new.synthesise, scratch / "after")
        refused = old.synthesise(scratch / "before") if old else None
        if refusal := after.result():
            raise DiffError(refusal)
    if old and refused:
        reason = refused.splitlines()[-1]
        now = " with the packages installed now" if old.tree != ROOT else ""
        raise DiffError(f"{old.said} does not synthesise{now}: {reason}")


def check_out(base: str, directory: Path) -> str:
    """Put the files of revision ``base`` into ``directory``; returns its short name."""
    # A clone of another branch has no branch of this name, but knows that of where it comes from.
    for name in (base, f"origin/{base}"):
        found = run("git", "rev-parse", "--verify", "--short", f"{name}^{{commit}}")
        if not found.returncode:
            break
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
