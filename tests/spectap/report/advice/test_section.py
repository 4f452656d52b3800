"""The page's section on draft and window: of a run as it is read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from spectap import config as configuration
from spectap.load_points import LoadPoint
from spectap.report import figures
from spectap.report.advice.section import section
from spectap.report.page import write_report
from tests.bench.sweeps import Sweep
from tests.spectap import generated_runs as generated
from tests.spectap.report import advised
from tests.spectap.report.test_page import Structure, visible

SWEEP = Sweep(
    "page",
    draft_costs=(0.05, 0.1),
    acceptances={"structured": (0.75, 0.9), "open-ended": (0.3, 0.5)},
    loads=(1, 4),
    rounds=3,
    tokens=120,
)
HEADING = "Which draft and window"


def written(folder: Path, **changes: object) -> str:
    content = json.loads(configuration.dump(SWEEP.config())) | changes
    lines = map(dataclasses.asdict, SWEEP.records())
    return write_report(generated.write(folder, content, lines)).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("run"))


@pytest.fixture
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "draw", lambda run: ())


def test_it_is_well_formed_and_in_colour(page: str) -> None:
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    own = page[page.index('id="advice"') : page.index('id="cases"')]
    assert 'class="name variant-2">Qwen3-0.6B<' in own
    assert 'class="words variant-3">Qwen3-1.7B, window ' in own


def test_what_was_found_of_each_stands_before_what_to_serve(page: str) -> None:
    text = visible(page)
    order = [
        "6 variants compared in 2 test cases",
        "What is found of each variant",
        "looks fastest for the mix at concurrency 1: ",
        "looks fastest for the mix at concurrency 4: ",
        HEADING,
        "What to serve load class serve",
        "The mix is structured 50 % and open-ended 50 % of the output tokens",
        "Speed-up over the window at concurrency 1",
        "Speed-up over the window at concurrency 4",
        "Drafts accepted, by position",
        "Speed-ups predicted and measured",
        "Speed-up by window at concurrency 1",
        "Drafts accepted, of those reached",
        "A step, ms",
        "Each test case over the load",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_the_advice_lies_beside_the_report(tmp_path: Path) -> None:
    content = generated.config(rounds=3)
    write_report(generated.write(tmp_path, content, generated.ledger(content)))
    told = json.loads((tmp_path / "advice.json").read_text(encoding="utf-8"))
    assert {"lines", "mix", "acceptances", "costs", "prospects", "recommendations"} <= told.keys()


@pytest.mark.usefixtures("_without_figures")
def test_variants_that_were_measured_apart_are_not_said_to_share_a_turn(tmp_path: Path) -> None:
    together, apart = written(tmp_path / "a"), written(tmp_path / "b", apart=True)
    said = "Each variant was measured by itself, at a time and on devices of its own."
    assert said not in visible(together)
    assert "What both sides of a round share cancels" in visible(together)
    assert said in visible(apart)
    assert "What both sides of a round share cancels" not in visible(apart)
    assert "in the same turn" not in visible(apart)


@pytest.mark.usefixtures("_without_figures")
def test_a_rehearsal_has_no_advice(tmp_path: Path) -> None:
    text = visible(written(tmp_path, stand_in="golden endpoints"))
    assert "Not advice for Trainium: golden endpoints stood in for the services." in text
    assert "The fastest of what stood in load class fastest" in text
    assert "Serve the mix" not in text


@pytest.mark.usefixtures("_without_figures")
def test_where_nothing_speculates_there_is_none(tmp_path: Path) -> None:
    content = generated.config(variants=generated.ARTICLE[:1], rounds=3)
    path = write_report(generated.write(tmp_path, content, generated.ledger(content)))
    assert HEADING not in visible(path.read_text(encoding="utf-8"))
    assert not (tmp_path / "advice.json").exists()


def test_many_classes_and_loads_stand_in_the_details() -> None:
    few = section(advised.advice([advised.ALONE, advised.FOUR]), None)
    assert [len(body) for body in few.recommended.bodies] == [3, 3]
    loads = [LoadPoint(concurrency=number, requests=8) for number in range(1, 6)]
    many = section(advised.advice(loads), None)
    assert [len(body) for body in many.recommended.bodies] == [1] * 5
    assert [len(body) for body in many.tables[0].bodies] == [3] * 5
    assert len(few.tables) + 3 == len(many.tables) - 1
