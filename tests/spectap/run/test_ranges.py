"""Runs with a range of rounds: which test cases end, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from spectap.analysis import stopping
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Finding
from spectap.config import Config
from spectap.record import Record
from spectap.run.run import Patience
from tests.spectap import samples
from tests.spectap.run.runs import Setup, golden

pytestmark = pytest.mark.anyio

RANGE: Final = samples.load(rounds={"at_least": 3, "at_most": 5, "half_width": 0.05})


class Rule:
    """Ends ``counting`` once all variants have answered in its third round; notes each question."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, config: Config, records: Iterable[Record]) -> dict[tuple[str, str], int]:
        records = list(records)
        self.asked.append(max((r.round for r in records), default=0))
        measured = {
            r.variant for r in records if (r.case, r.round) == ("counting", 3) and r.succeeded
        }
        decided = measured == set(config.endpoints)
        load = config.load.points[0].name
        return {("counting", load): 3 if decided else 5, ("sonnets", load): 5}


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Rule:
    """In place of the rule by statistics, for which a golden endpoint is too quick."""
    rule = Rule()
    monkeypatch.setattr(stopping, "last_rounds", rule)
    return rule


async def test_a_case_that_is_decided_is_measured_no_more(
    tmp_path: Path, rule: Rule, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Setup(tmp_path, load=RANGE) as setup:
        setup.speculative.healthy = False
        (failed,) = await setup.run(Patience(start=0.1, poll=0.02)).execute()
        assert failed.endswith("; 10 of at most 10 turns were not run")
        setup.speculative.healthy = True
        assert await setup.execute() == []
        measured = Counter(r.case for r in setup.records() if r.round > 0)
        assert measured == {"counting": 3 * 2 * 2, "sonnets": 5 * 2 * 2}
        assert rule.asked == [1, 2, 3, 4, 5]
        assert len(setup.published()) == 8
        ran = len(setup.driver.ran)
        assert await setup.execute() == []  # a resumed run ends the same cases
        assert len(setup.driver.ran) == ran
    printed = [line for line in capsys.readouterr().err.splitlines() if "every case" not in line]
    assert "[24/40] counting: has enough after 3 rounds" in printed
    assert "[24/32] round 4 of at most 5: sonnets" in printed
    assert printed[-1] == "[32/32] comparing the answers"


async def test_the_run_and_its_report_agree_on_when_a_case_has_enough(tmp_path: Path) -> None:
    """By the rule itself, to which the warm-up is no round."""
    load = samples.load(rounds={"at_least": 3, "at_most": 6, "half_width": 0.3})
    setup = Setup(tmp_path, load=load)
    setup.base = golden(gap=0.02)
    async with setup:
        assert await setup.execute() == []
        summary = summarise(setup.config(), setup.records())
        assert summary.complete
        assert {
            comparison.verdict.finding for case in summary.cases for _, comparison in case.compared
        } == {Finding.FASTER}
        measured = Counter(r.case for r in setup.records() if r.round > 0)
        assert measured == {case.name: 2 * (case.cells[0].expected or 0) for case in summary.cases}
        ran = len(setup.driver.ran)
        assert await setup.execute() == []
        assert len(setup.driver.ran) == ran
