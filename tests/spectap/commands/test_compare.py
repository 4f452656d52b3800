"""``compare``: what a person reads, and what a pipeline gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spectap import generated_runs
from tests.spectap.commands.processes import Benchmark

LOWER = {structure: share - 0.1 for structure, share in generated_runs.ACCEPTANCE.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same thing, and one whose drafts are accepted less often."""
    folder = tmp_path_factory.mktemp("runs")
    settings = generated_runs.config(cases=generated_runs.CASES[:1])
    for seed, name in enumerate(("old", "same", "less"), start=1):
        acceptance = LOWER if name == "less" else generated_runs.ACCEPTANCE
        lines = generated_runs.ledger(settings, seed, acceptance)
        generated_runs.write(folder / name, settings, lines)
    return folder


def test_the_same_thing_passes_the_gate(benchmark: Benchmark, results: Path) -> None:
    ended = benchmark("compare", "old", "same", "--fail-below", "0.95", RESULTS_DIR=str(results))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("same (new) against old (old)\n")
    assert "No difference is proven" in ended.out
    assert "Nothing is surely below 0.95 of what it was." in ended.out
    assert "In the least precise row, 0." in ended.out


def test_lost_acceptance_fails_the_gate(benchmark: Benchmark, results: Path) -> None:
    old, less = str(results / "old"), str(results / "less")
    ended = benchmark("compare", old, less, "--fail-below", "0.95")
    assert ended.status == 3
    assert "repetition, SD: tokens a step \N{MINUS SIGN}" in ended.out
    assert " % (95 % interval " in ended.out
    assert "BELOW 0.95: repetition, SD: the new tokens per step is 0." in ended.out
    without = benchmark("compare", old, less)
    assert without.status == 0
    assert "BELOW" not in without.out


def test_a_gate_on_runs_that_do_not_compare_ends_with_2(
    benchmark: Benchmark, results: Path, tmp_path: Path
) -> None:
    settings = generated_runs.config(cases=generated_runs.CASES[:1], output_tokens=200)
    longer = generated_runs.write(tmp_path / "longer", settings, generated_runs.ledger(settings))
    ended = benchmark("compare", str(results / "old"), str(longer), "--fail-below", "0.95")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == (
        "spectap: old, longer: they are not comparable: mean_output_tokens: 100 before, 200 now\n"
    )
    without = benchmark("compare", str(results / "old"), str(longer))
    assert (without.status, "NOT COMPARABLE" in without.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("old", "none"), "'none': there is no such file or folder, nor one in "),
        (("old", "."), "spectap: .: is not the folder of a run: it has no config.json"),
        (("old", "old"), ": is compared with itself"),
        (("old", "same", "--fail-below", "1.5"), "must be a number of more than 0 and at most 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    benchmark: Benchmark, results: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = benchmark("compare", *arguments, RESULTS_DIR=str(results))
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert message in line
