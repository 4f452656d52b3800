"""What a change would do, without an AWS account.

usage: python -m scripts.diff BASE EXPERIMENT [--markdown FILE]

Compares EXPERIMENT in the working tree with the same file in revision BASE. Both sides are
synthesised with the packages that are installed now, each from its own code. Prints which pods a
deploy replaces, what differs in the file, ``cdk diff --method=template`` of every stack, and what
differs in the manifests; FILE gets the same as a comment for a pull request.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).resolve().parents[1]
COMMENT_LIMIT: Final = 60_000
"""GitHub takes 65,536 characters; the rest is for what the workflow adds."""
NOTICED: Final = {
    "IAM": ("IAM Statement Changes", "IAM Policy Changes"),
    "security groups": ("Security Group Changes",),
    "replacement": ("requires replacement",),
    "possible replacement": ("may cause replacement",),
}
"""A change that a reviewer must not overlook, and what the CDK CLI says of it."""

_GRAPH: Final = re.compile(r'compiled/([^/"\s]+)/')
"""The prefix of a compiled artifact in the bucket, wherever a manifest names it."""
_DIGEST: Final = re.compile("-[0-9a-f]{8}$")
"""The end of a Job's name. A Job cannot be changed: another specification is another Job."""

Manifest = Mapping[str, Any]
Objects = Mapping[tuple[str, str], Manifest]
"""By kind and name, of Jobs without their digest."""


class DiffError(Exception):
    """There is nothing to compare; the message is one line."""


Row = tuple[str, str, str]
"""Kind and name of a pod, or of a maker of pods, and what a deploy does to it."""


class Section(NamedTuple):
    """What differs in one stack, in the manifests or in the file; without text nothing does."""

    title: str
    text: str


def main(arguments: list[str] | None = None) -> int:
    """Prints the difference; returns the exit status, 0 whether or not anything differs."""
    parser = argparse.ArgumentParser(prog="python -m scripts.diff", description="What changes.")
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument("experiment", metavar="EXPERIMENT", help="its file")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="also write a comment")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="diff-") as directory:
        try:
            rows, sections = compare(options.base, options.experiment, Path(directory))
        except DiffError as error:
            print(error, file=sys.stderr)
            return 1
    title = f"{options.base} to {options.experiment} in the working tree"
    print(f"{title}\n\nPods: {'what a deploy does' if rows else 'none is replaced'}")
    for kind, name, effect in rows:
        print(f"  {kind:10} {name}: {effect}")
    for section in sections:
        print(f"\n{section.title}:{chr(10) if section.text else ' '}{section.text or 'unchanged'}")
    if options.markdown:
        options.markdown.write_text(markdown(title, rows, sections), encoding="utf-8")
    return 0


def compare(base: str, file: str, scratch: Path) -> tuple[list[Row], list[Section]]:
    """Which pods are replaced, and what differs. Raises DiffError."""
    tree, before, after = (scratch / name for name in ("tree", "before", "after"))
    _extract(base, tree)
    if not (ROOT / file).is_file():
        raise DiffError(f"the working tree has no {file}")
    if not (tree / file).is_file():
        raise DiffError(f"{base} has no {file}: it is all new; make synth writes its templates")
    with ThreadPoolExecutor() as pool:
        [*pool.map(_synthesise, (tree, ROOT), (file, file), (before, after))]
        old, new = _templates(before), _templates(after)
        (scratch / "none.json").write_text('{"Resources": {}}')
        compared = [old.get(name, scratch / "none.json") for name in new]
        stacks = [*pool.map(_stack, new, compared, new.values())]
    stacks += [Section(name, "gone: a deploy deletes no stack") for name in old if name not in new]
    return [*restarts(read(before / "cdk.out/dist"), read(after / "cdk.out/dist"))], [
        _git_diff("The experiment file", tree / file, ROOT / file),
        *stacks,
        _git_diff("Manifests", before / "cdk.out/dist", after / "cdk.out/dist"),
    ]


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


def _synthesise(tree: Path, file: str, output: Path) -> None:
    """Writes ``cdk.out`` below ``output``. Raises DiffError."""
    context = ("--context", f"experiment={file}", "--context", "account=none")
    result = _cdk(*context, "--output", output / "cdk.out", "synth", "--quiet", cwd=tree)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if "Subprocess exited" not in line]
        side = "the working tree" if tree == ROOT else "the base"
        reason = lines[-1] if lines else "cdk synth failed"
        raise DiffError(f"{side} does not synthesise: {reason}")


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


def _git_diff(title: str, old: Path, new: Path) -> Section:
    options = ("--no-index", "--no-ext-diff", "--no-prefix", "--no-color")
    return Section(title, _run("git", "diff", *options, old, new).stdout.strip("\n"))


def read(folder: Path) -> Objects:
    """The objects of ``*.k8s.yaml``."""
    yaml, objects = YAML(typ="safe", pure=True), {}
    for file in sorted(folder.glob("*.k8s.yaml")):
        for manifest in filter(None, yaml.load_all(file)):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            objects[kind, _DIGEST.sub("", name) if kind in ("Job", "Pod") else name] = manifest
    return objects


def restarts(old: Objects, new: Objects) -> Iterator[Row]:
    """A row for each pod, or maker of pods, that a deploy starts, replaces or ends."""
    ready = _graphs(old.values())
    compiled = _graphs(manifest for (kind, _), manifest in new.items() if kind == "Job")
    for kind, name in dict.fromkeys([*new, *old]):
        if kind not in ("Deployment", "Job", "Pod"):
            continue
        before, after = old.get((kind, name)), new.get((kind, name))
        effect = ""
        if before is None or after is None:
            effect = "starts" if before is None else "ends"
        elif kind == "Pod":
            # It runs once. Kubernetes lets only its image be changed: another has another name.
            specs = [json.dumps(pod["spec"]) for pod in (before, after)]
            settings = [side.get(("ConfigMap", name), {}).get("data") for side in (old, new)]
            if before["metadata"]["name"] != after["metadata"]["name"]:
                effect = "is replaced: ends a measurement that runs, and begins a new one"
            elif specs[0] != specs[1]:
                effect = "restarts with another image, if it still runs"
            elif settings[0] != settings[1]:
                effect = "is configured anew: the next make experiment begins a new run"
        elif kind == "Job" and before["metadata"] != after["metadata"]:
            effect = "runs again"  # its name has the digest of its specification
        elif kind == "Deployment" and before["spec"]["template"] != after["spec"]["template"]:
            effect = "restarts"
        if kind == "Deployment" and after is not None and effect:
            missing = _graphs([after]) - ready
            by_itself = ", once its graph is compiled" if missing & compiled else ", and compiles"
            effect += by_itself if missing else ", its graph is there"
        if effect:
            yield kind, name, effect


def _graphs(manifests: Iterable[Manifest]) -> set[str]:
    return set(_GRAPH.findall(json.dumps([*manifests])))


def markdown(title: str, rows: Sequence[Row], sections: Sequence[Section]) -> str:
    """A comment of at most ``COMMENT_LIMIT`` characters: each section gets an equal part of it."""
    lines = [f"### {title}", "", "| Pods of | | What a deploy does |", "| --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in rows or [("none", "", "")]]
    for note, words in NOTICED.items():
        if titles := [s.title for s in sections if any(word in s.text for word in words)]:
            lines += ["", f"> :warning: **{note}** in {', '.join(titles)}"]
    lines += ["", *(f"{section.title}: unchanged  " for section in sections if not section.text)]
    comment = "\n".join(lines)
    differing = [section for section in sections if section.text]
    room = (COMMENT_LIMIT - len(comment)) // max(len(differing), 1) - 300
    for title, text in differing:
        cut = "" if len(text) <= room else "Cut to fit here; `make diff` has all.\n"
        # Nothing in the text can end the fence.
        shown = text[:room].replace("```", "'''")
        body = f"```diff\n{shown}\n```\n{cut}"
        comment += f"\n<details><summary>{title}</summary>\n\n{body}\n</details>\n"
    return comment


def _run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` without AWS credentials."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    quiet = {"AWS_EC2_METADATA_DISABLED": "true", "CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    return subprocess.run(command, cwd=cwd, env=clean | quiet, capture_output=True, text=True)


def _cdk(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs the CDK CLI. Standard error holds what the app prints."""
    return _run("cdk", "--no-lookups", "--no-notices", *arguments, cwd=cwd)


if __name__ == "__main__":
    sys.exit(main())
