"""The pages name only what exists: links, paths, modules, commands, options, tests, assumptions."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spectap.__main__ import main as spectap
from tests.synthesis import ROOT
from tests.test_makefile import ACCOUNT_COMMANDS
from tools import reference

DOCUMENTS: Final = [
    *(ROOT / name for name in ("README.md", ".github/SECURITY.md", "CHANGELOG.md")),
    *(ROOT / "packages" / "spectap" / name for name in ("README.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EACH: Final = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)

LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
EXTERNAL_LINK: Final = re.compile(r"\[[^\]]+\]\(https?://[^)\s]+\)")
FENCE: Final = re.compile(r"^ *```\w*\n(.*?)^ *```", re.M | re.S)
SPAN: Final = re.compile(r"`([^`]+)`")
OTHER_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+(?: v[\d.]+)?,\s+`[^`]+`")
"""A file of another repository is named after it: aws/aws-cdk, `packages/...`."""

WRITTEN_BY_USERS: Final = re.compile(r"experiments/(mine|NAME)[\w-]*\.yaml")
PLACEHOLDERS: Final = ("docs/decisions/NNNN-title.md",)
FOREIGN_MODULES: Final = ("setup.py",)


def tracked() -> list[str]:
    """All files of the repository, new ones included, relative to its root."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    completed = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return completed.stdout.splitlines()


FILES: Final = tracked()
FOLDERS: Final = sorted({file.partition("/")[0] for file in FILES if "/" in file})
NAMES: Final = {file.rpartition("/")[2] for file in FILES}
MAKEFILE: Final = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS: Final = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.M))
PREFIXES: Final = "|".join(map(re.escape, (*FOLDERS, "src/spectap")))
PATH: Final = re.compile(rf"(?<![\w./-])((?:{PREFIXES})/[\w.*/-]*)")


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
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text(document)), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@EACH
def test_what_code_names_exists(document: Path) -> None:
    """Paths, modules, and make's targets and variables."""
    for piece in code(document):
        for path in PATH.findall(piece):
            if WRITTEN_BY_USERS.fullmatch(path) or path in PLACEHOLDERS:
                continue
            folder = ROOT / "packages" / "spectap" if path.startswith("src/") else ROOT
            assert any(folder.glob(path.rstrip("/."))), path
        if re.fullmatch(r"\w+\.py", piece) and piece not in FOREIGN_MODULES:
            assert piece in NAMES, piece
        for module in re.findall(r"python3? -m ([\w.]+)", piece):
            path = ROOT / module.replace(".", "/")
            if module.partition(".")[0] in FOLDERS:
                assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
        for target in re.findall(r"\bmake (?:[A-Z_]+=\S+ )*([a-z][a-z-]*)", piece):
            assert target in TARGETS, f"make {target}"
        for variable in re.findall(r"\bmake [a-z-]+ (?:.* )?([A-Z_]+)=", piece):
            assert re.search(rf"\b{variable}\b", MAKEFILE), variable


def test_commands_of_spectap_take_the_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [
        called
        for document in DOCUMENTS
        for piece in code(document)
        for called in re.findall(r"(?:-m )?\bspectap ([a-z]+)( .*|$)", piece, re.M)
    ]
    for page in ("docs/tap.md", "packages/spectap/README.md"):
        cells = re.findall(r"^\| (`--.*?) \| ", text(ROOT / page), re.M)
        assert cells
        named.append(("measure", " ".join(cells)))
    for command in {command for command, _ in named}:
        monkeypatch.setattr(sys, "argv", ["spectap", command, "--help"])
        with pytest.raises(SystemExit) as ended:
            spectap()
        assert ended.value.code == 0, command
        described = capsys.readouterr().out
        for options in (options for name, options in named if name == command):
            for option in re.findall(r"(?<!\S)`?(--[a-z][\w-]*)", options):
                assert re.search(rf"{option}\b", described), (command, option)


def test_code_names_documents_that_exist() -> None:
    """A record may be named by its number: docs/decisions/0004."""
    named = {
        path.rstrip(".")
        for file in FILES
        if file.endswith((".py", ".sh", ".yaml", ".txt", "Makefile")) and (ROOT / file).is_file()
        for path in re.findall(r"(?<![\w/])docs/[\w./-]+", text(ROOT / file))
    }.difference(PLACEHOLDERS)
    assert named
    assert [path for path in sorted(named) if not any(ROOT.glob(f"{path}*"))] == []


def test_architecture_names_all_folders_and_the_reference_is_current() -> None:
    tree = FENCE.findall(text(ROOT / "docs" / "architecture.md"))[0]
    named = {line.partition("/")[0] for line in tree.splitlines()}
    assert {folder for folder in FOLDERS if not folder.startswith(".")} <= named
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run make reference"


def test_assumptions_have_a_source_and_a_remedy() -> None:
    rows = re.findall(r"^\| (A\d+) \| (.*) \|$", text(ROOT / "docs" / "assumptions.md"), re.M)
    names = [name for name, _ in rows]
    assert names == [f"A{number}" for number in range(1, len(rows) + 1)]
    assert len(rows) <= 40
    for name, row in rows:
        cells = row.split(" | ")
        assert len(cells) == 4, name
        links = LINK.findall(cells[1])
        assert links, f"{name} has no source that a reader can open"
        for link in links:
            # A file of a repository is named at a tag or a commit, since branches move.
            pinned = re.search(r"/blob/(v?\d+\.\d+|[0-9a-f]{7,40}/)", link)
            assert pinned or "/blob/" not in link, link
    for document in DOCUMENTS:
        assert set(re.findall(r"\bA\d+\b", FENCE.sub("", text(document)))) <= {*names}, document


@EACH
def test_a_command_to_copy_that_acts_on_an_account_names_its_experiment(document: Path) -> None:
    """Only in blocks, from which commands are copied. A sentence may mention the bare name."""
    for line in "\n".join(FENCE.findall(text(document))).splitlines():
        if re.search(rf"^ *make ({'|'.join(ACCOUNT_COMMANDS)})\b|\bkubectl apply\b.* dist/", line):
            assert "EXPERIMENT=" in line, line
