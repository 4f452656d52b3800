"""``advise``: of a run, by folder or name, for a mix, and of ledgers alone."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from spectap import config as configuration
from tests.bench.sweeps import Sweep
from tests.spectap import generated_runs as generated
from tests.spectap.commands.processes import Benchmark

SWEEP = Sweep(
    "advised",
    draft_costs=(0.06,),
    acceptances={"structured": (0.9,), "open-ended": (0.4,)},
    rounds=4,
    tokens=200,
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a sweep."""
    folder = tmp_path_factory.mktemp("results") / "sweep-1"
    content = json.loads(configuration.dump(SWEEP.config()))
    return generated.write(folder, content, map(dataclasses.asdict, SWEEP.records()))


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    """The same in a place of its own."""
    return Path(shutil.copytree(recorded, tmp_path / "results" / "sweep-1"))


def served(out: str) -> dict[str, str]:
    """What is to be served, by class."""
    rows = re.findall(r"^\S* {1,7}(structured|open-ended|the mix) +(.+?)  +", out, re.MULTILINE)
    return dict(rows)


def test_a_run_is_advised_on_by_folder_or_name_and_keeps_the_advice(
    run: Path, benchmark: Benchmark
) -> None:
    ended = benchmark("advise", str(run))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("Advice on sweep: d0-k3, d0-k7, d0-k15 against Base, on Qwen/")
    assert ended.out.endswith(f"advice: {run / 'advice.json'}\n")
    assert "The mix is structured 50 % and open-ended 50 % of the output tokens." in ended.out
    windows = {
        advised["prompt_class"] or "the mix": advised["choice"]["window"]
        for advised in json.loads((run / "advice.json").read_text("utf-8"))["recommendations"]
    }
    as_measured = served(ended.out)
    assert as_measured == {name: f"Qwen3-0.6B, window {w}" for name, w in windows.items()}
    assert windows["open-ended"] < windows["structured"]
    assert benchmark("advise", "sweep-1", RESULTS_DIR=str(run.parent)) == ended

    mixed = benchmark("advise", str(run), "--mix", "structured=0.9, open-ended=0.1").out
    assert "The mix is structured 90 % and open-ended 10 % of the output tokens." in mixed
    assert served(mixed)["structured"] == as_measured["structured"]
    alone = served(benchmark("advise", str(run), "--mix", "structured=1").out)
    assert alone["the mix"] == as_measured["structured"] != as_measured["the mix"]


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ("structured", "'structured': must be a class and its share, such as structured=0.7"),
        ("structured=-1", "'structured=-1': must be a class and its share"),
        ("structured=nan", "'structured=nan': must be a class and its share"),
        ("structured=0.7,open-ended=0.2", "the shares must add up to 1, not to 0.9"),
        ("structured=1,structured=2", "must name each only once"),
        ("poems=1", "mix: poems was not measured; allowed are structured, open-ended"),
    ],
)
def test_a_bad_mix_is_refused_in_one_line(
    recorded: Path, benchmark: Benchmark, mix: str, message: str
) -> None:
    ended = benchmark("advise", str(recorded), "--mix", mix)
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert message in line
    assert not (recorded / "advice.json").exists()


@pytest.mark.parametrize(
    ("variants", "name"), [(generated.ARTICLE[:1], "alone"), (generated.ARTICLE, "uncounted")]
)
def test_where_nothing_speculates_one_line_says_so(
    tmp_path: Path, benchmark: Benchmark, variants: tuple[generated.Line, ...], name: str
) -> None:
    content = generated.config(variants=variants, rounds=1)
    lines = map(generated.uncounted, generated.ledger(content))
    folder = generated.write(tmp_path / name, content, lines)
    ended = benchmark("advise", str(folder))
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"spectap: {folder}: no variant that speculates has a verdict and")
    shutil.move(folder / "ledger.jsonl", tmp_path / "requests.jsonl")
    ended = benchmark("advise", str(tmp_path / "requests.jsonl"))
    assert "a ledger without the config.json of its run" in ended.err


def test_a_failure_is_one_line_and_an_earlier_advice_stays(run: Path, benchmark: Benchmark) -> None:
    (run / "advice.json").write_text("{}", encoding="utf-8")
    (run / "config.json").write_text('{"architectures": []}', encoding="utf-8")
    ended = benchmark("advise", str(run))
    assert ended.err == f"spectap: {run}/config.json: is not the configuration of a run\n"
    assert ended.status == 2
    assert (run / "advice.json").read_text(encoding="utf-8") == "{}"
