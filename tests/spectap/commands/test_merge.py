"""``merge``: a sweep's folder on this machine becomes a run that the other commands read."""

from __future__ import annotations

from pathlib import Path

from tests.spectap import parts
from tests.spectap.commands.processes import Benchmark


def test_a_merged_folder_is_a_run(tmp_path: Path, benchmark: Benchmark) -> None:
    folder = parts.write(tmp_path / "sweep-1", complete=["Base", "k7", "k7-b8"])
    ended = benchmark("merge", str(folder))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "merged: 2 of 4 variants",
        "Base-b8 is not in this run, because its results are not complete.",
        "k7-b8 is not in this run, because the results of Base-b8, which it is compared with, are "
        "not complete.",
    ]
    read = benchmark("read", str(folder))
    assert read.status == 0
    assert "k7 against Base" in read.out


def test_nothing_to_merge_is_a_failure(tmp_path: Path, benchmark: Benchmark) -> None:
    folder = parts.write(tmp_path / "sweep-1", complete=[])
    ended = benchmark("merge", str(folder))
    assert (ended.status, ended.out.splitlines()[0]) == (1, "merged: 0 of 4 variants")


def test_what_is_no_sweep_is_refused_in_one_line(tmp_path: Path, benchmark: Benchmark) -> None:
    assert benchmark("merge", str(tmp_path / "none")) == (
        2,
        "",
        f"spectap: {tmp_path / 'none'}: there is no such folder\n",
    )
    assert benchmark("merge", str(tmp_path)) == (
        2,
        "",
        f"spectap: {tmp_path}: is not the folder of a sweep or of jobs: it has no sweep.json\n",
    )
