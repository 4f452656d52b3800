"""Each claim of docs/security.md names a test that is there and that pytest runs."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.synthesis import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)?)`")


def test_every_test_that_the_page_names_is_collected() -> None:
    named = sorted(set(TEST.findall(PAGE)))
    assert len(named) > 30
    done = collected(*named)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    for name in named:
        assert any(one == name or one.startswith(f"{name}::") for one in found), name


def test_a_test_that_is_gone_would_be_noticed() -> None:
    assert collected("tests/test_docs.py::test_that_nobody_wrote").returncode != 0


def test_every_claim_of_who_reaches_what_is_held_by_a_test() -> None:
    """Or by the test of the claim above."""
    section = PAGE.partition("## Who can reach what")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 6
    for row in rows:
        assert TEST.search(row) or "as above" in row, row


def collected(*names: str) -> subprocess.CompletedProcess[str]:
    """What pytest would run of these. No tier is set up for that."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
