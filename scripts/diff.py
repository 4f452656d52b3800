"""What a change would do, without an AWS account.

usage: python -m scripts.diff [--json FILE] [--experiments LIST] [--verbose] BASE [EXPERIMENT ...]

Compares experiments in the working tree with revision BASE: the files given; otherwise those that
the change touches, and those of LIST where it touches code. Both sides are synthesised with the
packages that are installed now, each from its own code. Prints warnings and what a deploy does to
the pods; with --verbose also the difference of the file, ``cdk diff --method=template`` of every
stack, and that of the manifests. FILE gets all of it, for the comment on a pull request.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from experiment import DEFAULT_FILE
from scripts.review import Costs, Row, Warned, read, restarts, warnings

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = "experiments/"
NO_CODE: Final = (FOLDER, "docs/", "tests/", ".github/")
LONGEST: Final = 60_000
"""Characters of one section in FILE: a comment has 65,536."""
STATES: Final = {
    "changed": "changed",
    "unchanged": "unchanged",
    "new": "all new",
    "deleted": "deleted: its stacks stay until make destroy from the base",
    "refused": "refused",
}

_COSTS: Final = """\
import json, sys
from experiment import load
from experiment.cost.prices import parts
costs = {}
for part in parts(load(sys.argv[1])):
    costs[f"{part.name} ({part.group})"] = (f"{part.count} {part.kind}", part.usd_per_hour)
print(json.dumps(costs))
"""


class DiffError(Exception):
    """There is nothing to compare; the message is one line, or one for each error of a file."""


class Section(NamedTuple):
    """What differs in one stack, in the manifests or in the file."""

    title: str
    text: str


class Comparison(NamedTuple):
    """One experiment: ``state`` is a key of ``STATES``."""

    file: str
    state: str
    note: str = ""
    warnings: Iterable[Warned] = ()
    pods: Iterable[Row] = ()
    sections: Iterable[Section] = ()


class Side(NamedTuple):
    """What one revision makes of a file; by default nothing."""

    templates: Mapping[str, Path] = {}
    costs: Costs | None = {}


def main(arguments: list[str] | None = None) -> int:
    """Prints the difference; returns 0 whether or not anything differs, 1 for a refused file."""
    parser = argparse.ArgumentParser(prog="python -m scripts.diff", description="What changes.")
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument("files", metavar="EXPERIMENT", nargs="*", help="by default what changed")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write all of it")
    parser.add_argument(
        "--experiments", metavar="LIST", default=DEFAULT_FILE, help="compared when code changes"
    )
    parser.add_argument("--verbose", action="store_true", help="print each difference")
    options = parser.parse_args(arguments)
    comparisons: list[Comparison] = []
    with TemporaryDirectory(prefix="diff-") as directory:
        tree = Path(directory, "tree")
        try:
            _extract(options.base, tree)
            given = [
                os.path.relpath(f, ROOT if os.path.isabs(f) else ".") for f in options.files if f
            ]
            pairs = [*_selected(tree, given or _touched(options.base), options.experiments, given)]
        except DiffError as error:
            print(error, file=sys.stderr)
            return 1
        for index, (old, new) in enumerate(pairs):
            scratch = Path(directory, str(index))
            scratch.mkdir()
            try:
                comparison = compare(tree, old, new, scratch)
            except DiffError as error:
                note = str(error).replace(f"{directory}/", "")
                comparison = Comparison(new or old or "", "refused", note)
            comparisons.append(comparison)
            _print(comparison, verbose=options.verbose)
    if not comparisons:
        print(f"No experiment and no code differs from {options.base}")
    if options.json:
        options.json.write_text(_as_json(comparisons), encoding="utf-8")
    return int(any(comparison.state == "refused" for comparison in comparisons))


def _print(comparison: Comparison, *, verbose: bool) -> None:
    file, state, note, warned, pods, sections = comparison
    print("\n  ".join([f"{file}: {STATES[state]}", *note.splitlines()]))
    for warning in warned:
        print(f"  ! {warning.kind}: {warning.detail}")
    for pod in pods:
        print(f"  {pod.kind:10} {pod.name}: {pod.effect}")
    for title, text in sections:
        if verbose:
            print(f"\n{title}:\n{text}")
        else:
            print(f"  {title}: {len(text.splitlines())} lines; VERBOSE=1 prints them")


def _as_json(comparisons: Iterable[Comparison]) -> str:
    """What the workflow ``pull-request-comment.yml`` reads."""
    experiments = []
    for comparison in comparisons:
        fields = comparison._asdict()
        for name, kind in (("warnings", Warned), ("pods", Row), ("sections", Section)):
            fields[name] = [kind(*each)._asdict() for each in fields[name]]
        for section in fields["sections"]:
            section["text"] = section["text"][:LONGEST]
        experiments.append(fields)
    return json.dumps({"experiments": experiments})


def _touched(base: str) -> list[str]:
    """Paths in which the working tree differs from ``base``, new files included."""
    for name in (base, f"origin/{base}"):
        differing = _run("git", "diff", "-z", "--name-only", "--no-renames", f"{name}^{{commit}}")
        if not differing.returncode:
            break
    untracked = _run("git", "ls-files", "-z", "--others", "--exclude-standard")
    return [path for path in (differing.stdout + untracked.stdout).split("\0") if path]


def _selected(
    tree: Path, touched: list[str], listed: str, given: list[str]
) -> Iterator[tuple[str | None, str | None]]:
    """Files to compare, of the base and of the working tree: those of one experiment by its name.

    An experiment's stacks have its name: a file that is moved, or copied, deploys over them.
    """
    old, new = (_experiments(root, [*touched, *listed.split()]) for root in (tree, ROOT))
    files = dict.fromkeys(
        file
        for file in sorted({*old, *new})
        if file in touched or any(prompts in touched for prompts in _prompts(file, old, new))
    )
    if any(not path.startswith(NO_CODE) and not path.endswith(".md") for path in touched):
        files |= {} if given else dict.fromkeys(listed.split())
    for file in [*dict.fromkeys(given), *(file for file in files if file not in given)]:
        if file in new:
            name = new[file][0]
            same = [other for other, (of_other, _) in old.items() if of_other == name]
            yield (file if file in same else next(iter(same), None)), file
        elif file not in old:
            raise DiffError(f"neither side has an experiment {file}")
        if file in old and old[file][0] not in {name for name, _ in new.values()}:
            yield file, None


def _experiments(root: Path, further: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Name and text of each experiment file below ``root``."""
    paths = [path.relative_to(root).as_posix() for path in (root / FOLDER).rglob("*.y*ml")]
    experiments = {}
    for path in dict.fromkeys([*sorted(paths), *further]):
        file = root / path
        if file.suffix not in (".yaml", ".yml") or file.is_symlink() or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        # No parser: what is wrong in an experiment is for its own side to say.
        if re.search(r"^(aws|benchmark|capacity|models|serving|speculation):", text, re.MULTILINE):
            name = re.search(r"^name: *[\"']?([\w.-]+)", text, re.MULTILINE)
            experiments[path] = (name[1] if name else path, text)
    return experiments


def _prompts(file: str, *sides: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for side in sides:
        for name in re.findall(r"\bfile: *[\"']?([^\s\"',}]+)", side.get(file, ("", ""))[1]):
            yield (Path(file).parent / name).as_posix()


def compare(tree: Path, old: str | None, new: str | None, scratch: Path) -> Comparison:
    """One experiment, of which a side that is None has none. Raises DiffError."""
    if new is None:
        return Comparison(old or "", "deleted")
    before, after, note = Side(), Side(), ""
    with ThreadPoolExecutor() as pool:
        making = pool.submit(_side, tree, old, scratch / "base") if old else None
        after = _side(ROOT, new, scratch / "head")
        try:
            before = making.result() if making else before
        except DiffError as error:
            note = f"compared with nothing, since the base does not synthesise: {error}"
        if not before.templates:
            sections = [Section(name, _counts(file)) for name, file in after.templates.items()]
        else:
            (scratch / "none.json").write_text('{"Resources": {}}')
            compared = [before.templates.get(n, scratch / "none.json") for n in after.templates]
            of_stacks = pool.map(_stack, after.templates, compared, after.templates.values())
            files = _git_diff(scratch, "The experiment file", "file")
            sections = [files, *of_stacks, _git_diff(scratch, "Manifests", "dist")]
    templates = [
        {name: json.loads(file.read_text()) for name, file in side.templates.items()}
        for side in (before, after)
    ]
    texts = dict(sections) if before.templates else {}
    sections = [section for section in sections if section.text]
    state = "new" if not before.templates else "changed" if sections else "unchanged"
    return Comparison(
        new,
        state,
        note,
        [*warnings(*templates, texts, [before.costs, after.costs])],
        [*restarts(read(scratch / "base/dist"), read(scratch / "head/dist"))],
        sections,
    )


def _extract(base: str, tree: Path) -> None:
    # Unlike a worktree, it leaves nothing in .git.
    # A clone of another branch has no branch of this name, but knows that of where it comes from.
    for name in (base, f"origin/{base}"):
        archive = subprocess.run(
            ["git", "archive", f"{name}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
        )
        if not archive.returncode:
            tree.mkdir()
            subprocess.run(["tar", "--extract"], cwd=tree, input=archive.stdout, check=True)
            return
    raise DiffError(f"no such revision: {base}")


def _side(tree: Path, file: str, output: Path) -> Side:
    """Writes ``cdk.out``, ``dist`` and a copy of ``file`` below ``output``. Raises DiffError."""
    _synthesise(tree, file, output)
    (output / "cdk.out/dist").rename(output / "dist")
    (output / "file").mkdir()
    shutil.copy(tree / file, output / "file/experiment.yaml")
    # By the side's own code, which may have other prices, or none.
    costs = _run(sys.executable, "-c", _COSTS, file, cwd=tree)
    return Side(_templates(output), json.loads(costs.stdout) if not costs.returncode else None)


def _synthesise(tree: Path, file: str, output: Path) -> None:
    context = ("--context", f"experiment={file}", "--context", "account=none")
    result = _cdk(*context, "--output", output / "cdk.out", "synth", "--quiet", cwd=tree)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if "Subprocess exited" not in line]
        said = [line for line in lines if line.startswith(f"{file}:")] or lines[-1:]
        raise DiffError("\n".join(said) or "cdk synth failed")


def _templates(output: Path) -> dict[str, Path]:
    assembly = output / "cdk.out"
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    files = {
        name: assembly / artifact["properties"]["templateFile"]
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    for file in files.values():
        file.write_text(json.dumps(unfold(json.loads(file.read_text()))))
    return files


def unfold(value: Any) -> Any:
    """``value`` with the JSON and the lines that it carries as text taken apart.

    Manifests, dashboards and scripts are single strings in a template; without this, one changed
    number would show as two lines of 50 kB. A function in such a string is ``${Ref.Account}``.
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


def _counts(template: Path) -> str:
    resources = json.loads(template.read_text())["Resources"].values()
    counts = Counter(resource["Type"] for resource in resources)
    return "\n".join(f"{count:3} {kind}" for kind, count in sorted(counts.items()))


def _stack(name: str, old: Path, new: Path) -> Section:
    if old.read_bytes() == new.read_bytes():
        return Section(name, "")  # the CLI would take a second to say so
    options = ("--no-color", "--app", new.parent, "--method=template", "--template", old)
    result = _cdk("diff", name, "--exclusively", *options)
    if result.returncode:
        raise DiffError(f"cdk diff failed for {name}: {' '.join(result.stderr.split())}")
    if "There were no differences" in result.stdout:
        return Section(name, "")
    # The CLI's own first and last line name and count the stacks.
    return Section(
        name, re.sub(r"\A(.*\n)*?.*Stack .*\n|\n.*✨ .*\s*\Z", "", result.stdout).strip("\n")
    )


def _git_diff(scratch: Path, title: str, folder: str) -> Section:
    options = ("--no-index", "--no-ext-diff", "--no-prefix", "--no-color")
    folders = (f"base/{folder}", f"head/{folder}")
    text = _run("git", "diff", *options, *folders, cwd=scratch).stdout
    return Section(title, re.sub(r"^(diff --git|index) .*\n", "", text, flags=re.M).strip("\n"))


def _run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` without AWS credentials."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    quiet = {"AWS_EC2_METADATA_DISABLED": "true", "CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    return subprocess.run(
        command, cwd=cwd or ROOT, env=clean | quiet, capture_output=True, text=True
    )


def _cdk(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the CDK CLI. Standard error holds what the app prints."""
    return _run("cdk", "--no-lookups", "--no-notices", *arguments, cwd=cwd)


if __name__ == "__main__":
    sys.exit(main())
