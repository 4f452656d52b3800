"""``read``: ledgers with and without a run around them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spectap.journal import Journal
from spectap.report import terminal
from tests.spectap import samples
from tests.spectap.commands.processes import ROOT, Benchmark

RUN = ROOT / "tests" / "spectap" / "earlier_run"


def lines(folder: Path, name: str, *variants: str) -> Path:
    """A ledger with a request of each variant."""
    with Journal(folder / name) as journal:
        for variant in variants:
            journal.append(samples.record(variant=variant))
    return folder / name


@pytest.mark.parametrize("path", [".", "ledger.jsonl"])
def test_a_run_gets_its_own_table(benchmark: Benchmark, path: str) -> None:
    read = benchmark("read", str(RUN / path))
    assert read == (0, terminal.render(RUN) + "\n", "")


def test_a_config_json_of_another_kind_beside_a_ledger(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    shutil.copy(RUN / "ledger.jsonl", tmp_path)
    alone = benchmark("read", str(tmp_path / "ledger.jsonl"))
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}', encoding="utf-8")
    assert benchmark("read", str(tmp_path / "ledger.jsonl")) == alone
    assert benchmark("read", str(tmp_path)).status == 2


def test_several_ledgers_are_read_as_one(tmp_path: Path, benchmark: Benchmark) -> None:
    first, second = lines(tmp_path, "a", "Base"), lines(tmp_path, "b", "k3", "k3")
    read = benchmark("read", str(first), str(second))
    assert read.out.startswith("k3 against Base: 3 requests, ")
    mixed = benchmark("read", str(first), str(RUN), str(second))
    assert mixed.out == benchmark("read", str(RUN)).out + read.out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "none: cannot be read: No such file or directory"),
        (".", "ledger.jsonl: cannot be read: No such file or directory"),
        ("empty", "empty: has no request"),
        ("torn", "torn: has no request"),
        ("text", "text:1: "),
    ],
)
def test_what_is_no_ledger_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    benchmark: Benchmark,
    name: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in (("empty", ""), ("torn", '{"run"'), ("text", "one line\n")):
        (tmp_path / file).write_text(text, encoding="utf-8")
    read = benchmark("read", name)
    assert (read.status, read.out) == (2, "")
    (line,) = read.err.splitlines()
    assert line.startswith(f"spectap: {message}")
