"""What the documents promise about themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.synthesis import ROOT

DOCUMENTS: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ASSUMPTIONS: Final = (ROOT / "docs" / "assumptions.md").read_text(encoding="utf-8")
ENTRIES: Final = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", ASSUMPTIONS, re.M | re.S))
PARTS: Final = ("Assumed", "Source", "If wrong", "Then")
LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path) if path else document
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target), link


def _anchors(document: Path) -> set[str]:
    """What GitHub calls the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


COMMANDS: Final = ("bootstrap", "deploy", "destroy", "addons", "smoke")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_command_to_copy_that_acts_on_an_account_names_its_experiment(document: Path) -> None:
    """In a block of its own, from which it is copied; in a sentence it is only a name."""
    blocks = re.findall(
        r"^ *```\w*\n(.*?)^ *```", document.read_text(encoding="utf-8"), re.M | re.S
    )
    for line in "\n".join(blocks).splitlines():
        acts = re.search(rf"\bmake ({'|'.join(COMMANDS)})\b|\bkubectl apply\b.*\bdist/", line)
        if acts:
            assert "EXPERIMENT=" in line, line
