"""Says what a change would do, without an AWS account.

usage: python -m tools.diff BASE [EXPERIMENT ...] [--verbose] [--json FILE]

Compares experiment files in the working tree with those in revision BASE: without EXPERIMENT each
that the change touches and, where it touches code, those that the variable EXPERIMENTS lists. Both
sides are synthesised with the packages that are installed now, each from its own code. Prints what
a reviewer must not overlook, which pods a deploy replaces and, with --verbose, what differs in the
file and ``cdk diff --method=template`` of every stack, manifests included. FILE gets all of it, for
the comment on a pull request.
"""

import argparse
import contextlib
import difflib
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from experiment import DEFAULT_FILE
from tools import effects
from tools.effects import TITLES, DiffWarning, Effect

ROOT: Final = Path(__file__).resolve().parents[1]
LONGEST: Final = 60_000
"""Characters of a section in FILE: a comment on GitHub takes 65,536 in all."""
MOST_LINES: Final = 12
"""Lines of standard error that are kept where a side does not synthesise."""
_NO_CODE: Final = (
    *("docs/", "tests/", "experiments/", "examples/"),
    *("packages/spectap/tests/", "packages/spectap/benchmarks/"),
)
"""Folders that no template depends on, but for experiments' own files."""
_CDK: Final = ("cdk", "--no-lookups", "--no-notices")
_EXPERIMENT: Final = re.compile(r"^(aws|benchmark|capacity|models|serving):", re.MULTILINE)
"""The mark of an experiment file, also of one that is refused, among other YAML."""


class DiffError(Exception):
    """There is nothing to compare."""


@dataclass(frozen=True)
class Section:
    """The difference in one stack, or in the file."""

    title: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """The effect of the change on one experiment file."""

    file: str
    status: str
    """``changed``, ``unchanged``, ``added``, ``removed`` or ``failed``."""
    summary: str = ""
    warnings: Sequence[DiffWarning] = ()
    pods: Sequence[Effect] = ()
    sections: Sequence[Section] = ()

    def print(self, *, verbose: bool) -> None:
        lines = [
            f"{self.file}: {self.status}{f', {self.summary}' if self.summary else ''}",
            *(f"  Warning: {TITLES[warning.kind]}: {warning.detail}" for warning in self.warnings),
            *(f"  {pod.kind:10} {pod.name}: {pod.effect}" for pod in self.pods),
        ]
        print("\n".join(lines), file=sys.stderr if self.status == "failed" else sys.stdout)
        if verbose:
            for section in self.sections:
                print(f"\n{section.title}:\n{section.text}")
        elif self.sections:
            titles = ", ".join(section.title for section in self.sections)
            print(f"  Differs: {titles} (VERBOSE=1 shows how)")
        print(flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Prints the difference; returns the exit status, 0 whether or not anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.diff", description="What changes.")
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument("experiments", metavar="EXPERIMENT", nargs="*", help="its file")
    parser.add_argument("--verbose", action="store_true", help="print all that differs")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write all of it")
    options = parser.parse_args(arguments)
    comparisons = []
    with TemporaryDirectory(prefix="diff-") as directory:
        tree = Path(directory, "base")
        try:
            commit = _commit(options.base)
            _extract(commit, tree)
            for number, file in enumerate(options.experiments or touched(commit, tree)):
                comparison = compare(options.base, file, tree, Path(directory, str(number)))
                comparisons.append(comparison)
                comparison.print(verbose=options.verbose)
        except DiffError as error:
            print(error, file=sys.stderr)
            return 1
    if not comparisons:
        print(f"{options.base}: no experiment is touched, and no code")
    if options.json:
        files = [asdict(comparison) for comparison in comparisons]
        for section in (section for file in files for section in file["sections"]):
            section["text"] = section["text"][:LONGEST]
        options.json.write_text(json.dumps({"base": options.base, "files": files}), "utf-8")
    return int(any(comparison.status == "failed" for comparison in comparisons))


def touched(commit: str, base: Path) -> list[str]:
    """Experiment files to compare: those that differ from ``commit``, whose tree is ``base``.

    A file of prompts belongs to the experiments beside it that name it.
    """
    differing = ("diff", "--name-only", "--no-renames", commit)
    changed = {*_git(*differing), *_git("ls-files", "--others", "--exclude-standard")}
    texts = _experiments(ROOT)
    names = {*texts, *_experiments(base)}
    files = names & changed
    beside = {Path(name).name for name in changed - names if name.startswith("experiments/")}
    for name, text in texts.items():
        if any(re.search(rf"file: *[\"']?{re.escape(prompts)}", text) for prompts in beside):
            files.add(name)
    if any(not name.startswith(_NO_CODE) and not name.endswith(".md") for name in changed):
        files |= {*re.findall(r"[^\s,]+", os.environ.get("EXPERIMENTS", ""))}
        files = files or {str(DEFAULT_FILE)}
    return sorted(files)


def _experiments(folder: Path) -> dict[str, str]:
    """The texts of the experiments in ``folder``, by name of their files."""
    return {
        f"experiments/{file.name}": text
        for file in (folder / "experiments").glob("*.yaml")
        if _EXPERIMENT.search(text := file.read_text(encoding="utf-8", errors="replace"))
    }


def compare(base: str, file: str, tree: Path, scratch: Path) -> Comparison:
    """Compares ``file`` with that of ``tree``; a side that does not synthesise fails it."""
    old, new = tree / file, ROOT / file
    if not new.is_file():
        if not old.is_file():
            return Comparison(file, "failed", f"neither {base} nor the working tree has it")
        why = f"no deploy deletes its stacks: make destroy does, with the file of {base}"
        return Comparison(file, "removed", why)
    try:
        return _compared(file, tree if old.is_file() else None, scratch)
    except DiffError as error:
        return Comparison(file, "failed", str(error))


def _compared(file: str, base: Path | None, scratch: Path) -> Comparison:
    """Compares with the file of ``base``, a tree; None: it has none."""
    sides = {side: scratch / name for side, name in ((base, "before"), (ROOT, "after")) if side}
    with ThreadPoolExecutor() as pool:
        [*pool.map(_synthesise, sides, itertools.repeat(file), sides.values())]
        old, new = (_templates(sides[side]) if side else {} for side in (base, ROOT))
        none = scratch / "none.json"
        none.write_text('{"Resources": {}}')
        compared = new if base else {}
        stacks = [*pool.map(_stack, compared, [old.get(n, none) for n in compared], new.values())]
    stacks += [Section(name, "gone: a deploy deletes no stack") for name in old if name not in new]
    if base:
        a, b = ((tree / file).read_text("utf-8").splitlines() for tree in (base, ROOT))
        name = Path(file).name
        lines = difflib.unified_diff(a, b, f"before/{name}", f"after/{name}", lineterm="")
        stacks.insert(0, Section("The experiment file", "\n".join(lines)))
    differing = tuple(section for section in stacks if section.text)
    before, after = (effects.read(scratch / name / "dist") for name in ("before", "after"))
    return Comparison(
        file,
        ("changed" if differing else "unchanged") if base else "added",
        "" if base else f"its stacks: {', '.join(new)}",
        warnings=(
            *effects.of_templates(_read(old), _read(new)),
            *effects.of_differences((stack.title, stack.text) for stack in stacks),
            *effects.of_files(base and base / file, ROOT / file),
        ),
        pods=tuple(effects.on_pods(before, after)),
        sections=differing,
    )


def _git(*arguments: str) -> list[str]:
    return _run("git", *arguments).stdout.splitlines()


def _commit(base: str) -> str:
    # A clone of another branch has no branch of this name, but knows that of where it comes from.
    for name in (base, f"origin/{base}"):
        if commit := _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return commit[0]
    raise DiffError(f"no such revision: {base}")


def _extract(commit: str, tree: Path) -> None:
    # Unlike a worktree, it leaves nothing in .git.
    command = ["git", "archive", commit]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    tree.mkdir()
    subprocess.run(["tar", "--extract"], cwd=tree, input=archive.stdout, check=True)


def _synthesise(tree: Path, file: str, assembly: Path) -> None:
    """Writes the cloud assembly of ``file`` by the code of ``tree``. Raises DiffError."""
    context = ("--context", f"experiment={file}", "--context", "account=none")
    # The environment has the working tree's spectap installed; each side reads its own.
    spectap = {"PYTHONPATH": str(tree / "packages" / "spectap" / "src")}
    command = (*_CDK, *context, "--output", assembly, "synth", "--quiet")
    result = _run(*command, cwd=tree, variables=spectap)
    if result.returncode:
        # What the app printed, unless something ended it before it could.
        usual = "Subprocess exited with error 1"
        lines = [line for line in result.stderr.splitlines() if not line.endswith(usual)]
        side = "the working tree" if tree == ROOT else "the base"
        reason = "\n".join(lines[-MOST_LINES:]) or f"cdk synth ended with {result.returncode}"
        raise DiffError(f"{side} does not synthesise: {reason}")


def _templates(assembly: Path) -> dict[str, Path]:
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    files = {
        name: assembly / artifact["properties"]["templateFile"]
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    for file in files.values():
        file.write_text(json.dumps(unfold(json.loads(file.read_text()))))
    return files


def _read(files: Mapping[str, Path]) -> list[effects.Template]:
    return [json.loads(file.read_text()) for file in files.values()]


def unfold(value: Any) -> Any:
    """Expands the strings in ``value``: JSON is parsed, and a text becomes a list of its lines.

    Manifests, dashboards and scripts are single strings in a template. Without this, one changed
    number would show as two lines of 50 kB. A function of CloudFormation inside such a string
    becomes a placeholder: ``${Ref.Account}``.
    """
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        words = (".".join(re.findall(r"\w[\w:.-]*", str(part))) for part in parts)
        texts = zip(parts, words, strict=True)
        value = separator.join(p if isinstance(p, str) else f"${{{word}}}" for p, word in texts)
    match value:
        case list():
            return [unfold(item) for item in value]
        case dict():
            return {key: unfold(item) for key, item in value.items()}
        case str() if value.lstrip()[:1] in ("{", "["):
            with contextlib.suppress(ValueError):
                return unfold(json.loads(value))
    return value.splitlines() if isinstance(value, str) and "\n" in value else value


def _stack(name: str, old: Path, new: Path) -> Section:
    if old.read_bytes() == new.read_bytes():
        return Section(name, "")  # the CLI would take a second to say so
    options = ("--no-color", "--app", new.parent, "--method=template", "--template", old)
    result = _run(*_CDK, "diff", name, "--exclusively", *options)
    if result.returncode:
        raise DiffError(f"cdk diff failed for {name}: {' '.join(result.stderr.split())}")
    if "There were no differences" in result.stdout:
        return Section(name, "")
    # The CLI's own first and last line name and count the stacks.
    text = re.sub(r"\A(.*\n)*?.*Stack .*\n|\n.*✨ .*\s*\Z", "", result.stdout)
    return Section(name, text.strip("\n"))


def _run(
    *command: str | Path, cwd: Path | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` without AWS credentials, and with more ``variables``.

    Of the CDK CLI, standard error holds what the app prints.
    """
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    quiet = {"AWS_EC2_METADATA_DISABLED": "true", "CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    environment = {**clean, **quiet, **(variables or {})}
    return subprocess.run(command, cwd=cwd or ROOT, env=environment, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
