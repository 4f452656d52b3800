"""README and docs/ name only what exists: links, anchors, paths, modules, make targets."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from experiment import ExperimentError, load
from tests.synthesis import ROOT

DOCUMENTS: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EACH: Final = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)

LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
EXTERNAL_LINK: Final = re.compile(r"\[[^\]]+\]\(https?://[^)\s]+\)")
FENCE: Final = re.compile(r"^ *```\w*\n(.*?)^ *```", re.M | re.S)
SPAN: Final = re.compile(r"`([^`]+)`")
OTHER_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+,\s+`[^`]+`")
"""A file of another repository is named after it: aws/aws-cdk, `packages/...`."""

WRITTEN_BY_USERS: Final = re.compile(r"experiments/(mine|NAME|[\w-]+-smoke)[\w-]*\.yaml")
PLACEHOLDERS: Final = ("docs/decisions/NNNN-title.md",)
FOREIGN_MODULES: Final = ("setup.py",)


def tracked() -> list[str]:
    """All files of the repository, new ones included, relative to its root."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


FILES: Final = tracked()
FOLDERS: Final = sorted({file.partition("/")[0] for file in FILES if "/" in file})
NAMES: Final = {file.rpartition("/")[2] for file in FILES}
TARGETS: Final = set(
    re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
)
PATH: Final = re.compile(rf"(?<![\w./-])((?:{'|'.join(map(re.escape, FOLDERS))})/[\w.*/-]*)")


def text(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def code(document: Path) -> Iterator[str]:
    """Blocks and spans of code, without those that belong to other repositories."""
    content = text(document)
    yield from FENCE.findall(content)
    prose = OTHER_REPOSITORY.sub("", EXTERNAL_LINK.sub("", FENCE.sub("", content)))
    yield from SPAN.findall(prose)


@EACH
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(text(document)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path) if path else document
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target), link


def _anchors(document: Path) -> set[str]:
    """What GitHub calls the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text(document)), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@EACH
def test_paths_exist(document: Path) -> None:
    for piece in code(document):
        for path in PATH.findall(piece):
            if WRITTEN_BY_USERS.fullmatch(path) or path in PLACEHOLDERS:
                continue
            assert any(ROOT.glob(path.rstrip("/."))), path


@EACH
def test_modules_exist(document: Path) -> None:
    for piece in code(document):
        if re.fullmatch(r"\w+\.py", piece) and piece not in FOREIGN_MODULES:
            assert piece in NAMES, piece
        for module in re.findall(r"python3? -m ([\w.]+)", piece):
            path = ROOT / module.replace(".", "/")
            if module.partition(".")[0] in FOLDERS:
                assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


@EACH
def test_make_targets_exist(document: Path) -> None:
    for piece in code(document):
        for target in re.findall(r"\bmake (?:[A-Z_]+=\S+ )*([a-z][a-z-]*)", piece):
            assert target in TARGETS, f"make {target}"


def test_code_names_documents_that_exist() -> None:
    """A record may be named by its number: docs/decisions/0004."""
    named = {
        path.rstrip(".")
        for file in FILES
        if file.endswith((".py", ".sh", ".yaml", ".txt", "Makefile")) and (ROOT / file).is_file()
        for path in re.findall(r"\bdocs/[\w./-]+", text(ROOT / file))
    }.difference(PLACEHOLDERS)
    assert named
    assert [path for path in sorted(named) if not any(ROOT.glob(f"{path}*"))] == []


def test_the_tree_of_the_readme_names_all_folders() -> None:
    (tree,) = FENCE.findall(text(ROOT / "README.md").partition("\n## Repository\n")[2])[:1]
    named: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0]
        inner = line.startswith("  ")
        path = f"{next(n for n in reversed(named) if n.count('/') == 1)}{name}" if inner else name
        assert (ROOT / path).exists(), path
        named.append(path)
    visible = {f"{folder}/" for folder in FOLDERS if not folder.startswith(".")}
    assert visible <= set(named)


LLAMA_DRAFT: Final = """meta-llama/Llama-3.2-1B
    architecture: {family: llama, vocabulary: 128256, layers: 16, hidden: 2048, kv_heads: 8,
      head_dim: 64, tied_embeddings: true, max_length: 131072, checkpoint_gib: 2.3}"""
NEWER: Final = ("vllm-0.9.1-nxdi", "vllm-0.16-nxdi")
REFUSED: Final = (
    (NEWER,),
    (("tensor_parallel: 32", "tensor_parallel: 64"),),
    (NEWER, ("mode: fused", "mode: eagle3")),
    (("Qwen/Qwen3-1.7B", LLAMA_DRAFT),),
    (("purchase: on-demand", "purchase: capacity-block"),),
    (("num_speculative_tokens: 7", "num_speculative_token: 7"),),
)
"""What each file of the README's examples changes in the article's: earlier and later text."""


def test_the_readme_shows_refusals_as_they_are(tmp_path: Path) -> None:
    shown = re.findall(r"^mine\.yaml:.*$", text(ROOT / "README.md"), re.M)
    for line, changes in zip(shown, REFUSED, strict=True):
        content = text(ROOT / "experiments" / "article.yaml")
        for earlier, later in changes:
            assert earlier in content
            content = content.replace(earlier, later)
        file = tmp_path / "mine.yaml"
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ExperimentError) as refused:
            load(str(file))
        assert line in str(refused.value).replace(str(file), file.name).splitlines()


ASSUMPTIONS: Final = text(ROOT / "docs" / "assumptions.md")
ENTRIES: Final = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", ASSUMPTIONS, re.M | re.S))
PARTS: Final = ("Assumed", "Source", "If wrong", "Then")


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_assumption_says_where_it_was_read_and_what_to_do(entry: str) -> None:
    parts = re.findall(r"^\*\*(.+?)\.\*\* +(\S.*?)(?=^\*\*|\Z)", ENTRIES[entry], re.M | re.S)
    assert tuple(name for name, _ in parts) == PARTS
    source = dict(parts)["Source"]
    links = LINK.findall(source)
    assert links, "no source that a reader can open"
    for link in links:
        assert link.startswith("https://"), link
        # A file of a repository is named at a tag or a commit, since branches move.
        if "/blob/" in link:
            assert re.search(r"/blob/(v?\d+\.\d+|[0-9a-f]{7,40}/)", link), link


COMMANDS: Final = (
    *("bootstrap", "deploy", "destroy", "addons", "smoke"),
    *("status", "logs", "results", "delivery", "changes"),
)


@EACH
def test_a_command_to_copy_that_acts_on_an_account_names_its_experiment(document: Path) -> None:
    """Only in blocks, from which commands are copied. A sentence may mention the bare name."""
    for line in "\n".join(FENCE.findall(text(document))).splitlines():
        acts = re.search(rf"\bmake ({'|'.join(COMMANDS)})\b|\bkubectl apply\b.*\bdist/", line)
        if acts:
            assert "EXPERIMENT=" in line, line
