"""The summary of generated ledgers, whose speed-ups are known."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from spectap import metrics
from spectap.analysis.summarise import summarise, summarise_ledgers
from spectap.analysis.summary import Answer, Case, Comparison, Finding, Summary
from spectap.config import Config
from spectap.ledger import read_ledger
from spectap.load_points import Rounds
from spectap.record import CANCELLED, Record
from tests.spectap import generated_runs as generated

RUN = generated.config(requests=8, rounds=3)
CONFIG = Config.model_validate(RUN)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    folder = tmp_path_factory.mktemp("run")
    generated.write(folder, RUN, generated.ledger(RUN))
    return read_ledger(folder / "ledger.jsonl")


@pytest.fixture(scope="module")
def summary(records: list[Record]) -> Summary:
    return summarise(CONFIG, records)


def case(summary: Summary, name: str) -> Case:
    return next(case for case in summary.cases if case.name == name)


def compared(found: Case) -> Comparison:
    """The comparison of the article's second variant with its first."""
    ((_, comparison),) = found.compared
    return comparison


def repeated(records: list[Record], number: int) -> list[Record]:
    """``records`` and ``number`` requests more, of SD and one case."""
    own = [r for r in records if (r.case, r.variant) == ("repetition", "SD") and r.round > 0]
    return [*records, *own[:number]]


def changed(
    records: list[Record], change: Callable[[Record], Record], variant: str = "SD"
) -> list[Record]:
    """The records with every request of ``repetition`` under ``variant`` changed."""
    mine = ("repetition", variant)
    return [change(r) if (r.case, r.variant) == mine else r for r in records]


def failed(record: Record) -> Record:
    return replace(record, status=503, error="HTTP 503", output_tokens=None, chunks=())


class TestShape:
    def test_structured_prompts_are_three_times_faster(self, summary: Summary) -> None:
        for name in ("repetition", "counting"):
            found = compared(case(summary, name))
            assert found.verdict.finding is Finding.FASTER
            assert found.speedup is not None
            assert found.speedup.point == pytest.approx(3, rel=0.1)
            assert found.verdict.sentence.endswith("keep it on.")

    def test_open_ended_prompts_show_no_difference(self, summary: Summary) -> None:
        found = case(summary, "open-ended")
        assert compared(found).verdict.finding is Finding.UNDECIDED
        assert compared(found).verdict.sentence.startswith(
            "Whether SD is faster or slower than Base cannot be told"
        )

    def test_a_whole_run_has_no_notes(self, summary: Summary) -> None:
        assert summary.complete
        assert summary.notes == ()
        assert all(found.notes == () for found in summary.cases)

    def test_warm_up_is_left_out(self, summary: Summary, records: list[Record]) -> None:
        slow = [replace(r, end=1e6) if r.round == 0 else r for r in records]
        assert summarise(CONFIG, slow) == summary

    def test_it_is_deterministic_and_does_not_depend_on_order(
        self, summary: Summary, records: list[Record]
    ) -> None:
        assert summarise(CONFIG, records) == summary
        again = summarise(CONFIG, reversed(records))
        assert compared(again.cases[0]).verdict.finding is Finding.FASTER
        assert [cell.measures for cell in again.cases[0].cells] == [
            cell.measures for cell in summary.cases[0].cells
        ]


class TestTokensPerStep:
    def test_base_makes_one_and_sd_several(self, summary: Summary) -> None:
        base, speculative = (cell.steps for cell in case(summary, "repetition").cells)
        assert base is not None
        assert base.mean == 1
        assert speculative is not None
        assert speculative.mean == pytest.approx(4.27, rel=0.1)

    def test_the_first_chunk_is_no_step(self, summary: Summary, records: list[Record]) -> None:
        steps = case(summary, "repetition").cell("SD").steps
        mine = [r for r in records if (r.case, r.variant) == ("repetition", "SD") and r.round > 0]
        assert steps is not None
        assert sum(amount for _, amount in steps.histogram) == sum(len(r.chunks) - 1 for r in mine)

    def test_nothing_is_claimed_without_counts_per_chunk(self, records: list[Record]) -> None:
        uncounted = changed(
            records,
            lambda r: replace(r, per_chunk=False, chunks=tuple((t, 0) for t, _ in r.chunks)),
        )
        found = case(summarise(CONFIG, uncounted), "repetition")
        assert found.cell("SD").steps is None
        assert found.cell("Base").steps is not None
        assert "no token count per chunk" in " ".join(found.notes)

    def test_where_tools_are_offered_nothing_is_said_of_steps(self, records: list[Record]) -> None:
        offered = changed(records, lambda r: replace(r, tools=True))
        found = case(summarise(CONFIG, offered), "repetition")
        assert found.cell("SD").steps is None
        assert "offer tools" in " ".join(found.notes)
        assert "no token count" not in " ".join(found.notes)

    def test_speculation_that_accepts_nothing_is_noted(self, records: list[Record]) -> None:
        single = changed(records, lambda r: replace(r, chunks=tuple((t, 1) for t, _ in r.chunks)))
        notes = case(summarise(CONFIG, single), "repetition").notes
        assert "as if speculation were off" in " ".join(notes)


class TestCost:
    def test_it_follows_from_the_throughput_of_all_requests(self, summary: Summary) -> None:
        cell = case(summary, "repetition").cell("Base")
        assert cell.tokens_per_second is not None
        usd_per_second = 35.7608 * 0.5 / 3600
        assert cell.usd_per_million_output_tokens == pytest.approx(
            usd_per_second / cell.tokens_per_second * 1e6
        )
        # Four requests at once, each a token every 45 ms, less the time to the first one.
        assert cell.tokens_per_second == pytest.approx(4 * 100 / 4.67, rel=0.05)

    def test_the_time_of_failed_requests_is_paid_for(self, records: list[Record]) -> None:
        # One request of each wave fails after as long as the others take.
        some = changed(records, lambda r: failed(r) if r.request[-1] in "04" else r)
        found = case(summarise(CONFIG, some), "repetition").cell("SD")
        whole = case(summarise(CONFIG, records), "repetition").cell("SD")
        assert found.tokens_per_second is not None
        assert whole.tokens_per_second is not None
        assert found.tokens_per_second == pytest.approx(whole.tokens_per_second * 0.75)

    def test_a_pause_between_rounds_costs_nothing(
        self, summary: Summary, records: list[Record]
    ) -> None:
        resumed = [replace(r, sent=r.sent + 3600 * r.round) for r in records]
        for before, after in zip(summary.cases, summarise(CONFIG, resumed).cases, strict=True):
            assert after.cell("Base").tokens_per_second == pytest.approx(
                before.cell("Base").tokens_per_second
            )

    def test_their_intervals_go_together(self, summary: Summary) -> None:
        for cell in (cell for found in summary.cases for cell in found.cells):
            speed, usd = (
                cell.tokens_per_second_interval,
                cell.usd_per_million_output_tokens_interval,
            )
            assert speed is not None
            assert usd is not None
            assert speed.low < speed.point < speed.high
            assert speed.point == pytest.approx(cell.tokens_per_second)
            assert usd.point == pytest.approx(cell.usd_per_million_output_tokens)
            assert usd.low / usd.point == pytest.approx(speed.point / speed.high)
            assert usd.high / usd.point == pytest.approx(speed.point / speed.low)

    def test_a_round_in_which_all_failed_is_paid_for(self) -> None:
        run = generated.config(rounds=4)
        config = Config.model_validate(run)
        records = [Record(**line) for line in generated.ledger(run)]
        lost = changed(records, lambda r: failed(r) if r.round == 2 else r)
        found = case(summarise(config, lost), "repetition")
        whole = case(summarise(config, records), "repetition").cell("SD")
        speed, before = found.cell("SD").tokens_per_second, whole.tokens_per_second
        assert speed is not None
        assert before is not None
        assert speed == pytest.approx(before * 3 / 4, rel=0.05)
        cost, base = compared(found).cost, found.cell("Base").tokens_per_second
        assert cost is not None
        assert base is not None
        assert cost.interval.point == pytest.approx(speed / base)


class TestBroken:
    def test_every_request_failed(self, records: list[Record]) -> None:
        found = case(summarise(CONFIG, changed(records, failed)), "repetition")
        assert compared(found).verdict.finding is Finding.FAILED
        assert compared(found).verdict.sentence == "No verdict: every SD request failed (HTTP 503)."
        assert found.cell("SD").errors == 24
        assert found.cell("SD").usd_per_million_output_tokens is None

    def test_half_failed_is_still_judged(self, records: list[Record]) -> None:
        some = changed(records, lambda r: failed(r) if r.request[-1] in "0123" else r)
        found = case(summarise(CONFIG, some), "repetition")
        assert compared(found).verdict.finding is Finding.FASTER

    def test_some_failed_and_the_advice_says_so(self, records: list[Record]) -> None:
        some = changed(records, lambda r: failed(r) if r.request[-1] == "0" else r)
        found = case(summarise(CONFIG, some), "repetition")
        assert compared(found).verdict.finding is Finding.FASTER
        assert "look into its errors" in compared(found).verdict.sentence
        assert found.cell("SD").errors == 3

    @pytest.mark.parametrize("missing", ["Base", "SD"])
    def test_a_variant_is_missing(self, records: list[Record], missing: str) -> None:
        found = summarise(CONFIG, [r for r in records if r.variant != missing])
        assert {compared(one).verdict.finding for one in found.cases} == {Finding.NOT_MEASURED}
        assert found.notes[0].startswith(f"{missing} was not measured at all")
        assert not found.complete

    def test_an_unfinished_cell_has_no_verdict_and_no_cost(self, records: list[Record]) -> None:
        few = [r for r in records if r.variant == "Base" or (r.round == 1 and r.request[-1] < "5")]
        found = case(summarise(CONFIG, few), "repetition")
        assert compared(found).verdict.finding is Finding.UNFINISHED
        assert compared(found).verdict.sentence == (
            "No verdict: 5 of 24 SD requests were recorded."
        )
        assert compared(found).speed is None
        assert found.cell("SD").usd_per_million_output_tokens is None
        assert found.cell("Base").usd_per_million_output_tokens is not None
        assert found.notes == ()

    def test_too_few_rounds(self, records: list[Record]) -> None:
        two = CONFIG.load.model_copy(update={"rounds": Rounds(at_least=2, at_most=2)})
        config = CONFIG.model_copy(update={"load": two})
        found = case(summarise(config, [r for r in records if r.round < 3]), "repetition")
        assert compared(found).verdict.finding is Finding.TOO_FEW
        assert "both were measured in 2 rounds" in compared(found).verdict.sentence
        assert compared(found).speedup is None

    def test_without_a_plan_it_is_cut_into_blocks_and_a_note_says_so(self) -> None:
        records = [
            Record(**line) for line in generated.ledger(generated.config(requests=80, rounds=1))
        ]
        found = case(summarise_ledgers(records), "repetition")
        assert compared(found).verdict.finding is Finding.FASTER
        assert compared(found).cost is None
        assert "blocks of time" in " ".join(found.notes)

    def test_failures_of_a_turn_that_was_measured_again_are_not_forgotten(
        self, records: list[Record], summary: Summary
    ) -> None:
        again = [
            replace(r, attempt=2, error="reset") if r.request[-1] == "0" else replace(r, attempt=2)
            for r in records
            if (r.case, r.variant, r.round) == ("repetition", "SD", 1)
        ]
        third = [
            replace(r, attempt=3) if (r.case, r.round) == ("repetition", 1) else r for r in records
        ]
        cut_off = [replace(r, attempt=1, error=CANCELLED) for r in again[:2]]
        found = summarise(CONFIG, [*cut_off, *again, *third])
        assert found.notes == (
            "Left out, because their test case was measured again in the same round: 10 requests. "
            "SD: 1 failure.",
        )
        cell = case(found, "repetition").cell("SD")
        assert (cell.errors, cell.repeated_errors) == (0, 1)
        assert cell.measures == case(summary, "repetition").cell("SD").measures
        assert "look into its errors" in compared(case(found, "repetition")).verdict.sentence

    def test_what_llmperf_sends_beyond_what_it_was_asked_for_is_no_matter(
        self, records: list[Record]
    ) -> None:
        # Up to three more a round, at a concurrency of four.
        found = case(summarise(CONFIG, repeated(records, 9)), "repetition")
        assert found.cell("SD").requests == 24 + 9
        assert found.notes == ()

    def test_requests_of_an_interrupted_attempt_are_noted(self, records: list[Record]) -> None:
        found = case(summarise(CONFIG, repeated(records, 10)), "repetition")
        assert found.notes == (
            "SD: 34 requests were recorded instead of 24, because requests that ended before an "
            "interruption count too.",
        )

    def test_requests_that_are_not_streamed_have_a_verdict(self, records: list[Record]) -> None:
        whole = [replace(r, stream=False, per_chunk=False, chunks=()) for r in records]
        found = case(summarise(CONFIG, whole), "repetition")
        assert compared(found).verdict.finding is Finding.FASTER
        assert compared(found).by_time_per_output_token is None

    def test_answers_of_different_length_are_noted(self, records: list[Record]) -> None:
        longer = changed(records, lambda r: replace(r, output_tokens=150))
        notes = case(summarise(CONFIG, longer), "repetition").notes
        assert notes == (
            "Base wrote 100 tokens and SD 150 (medians): compare them per token, not end to "
            "end. A longer answer spreads its first token over more tokens.",
        )

    def test_unknown_cases_are_left_out_and_named(self, records: list[Record]) -> None:
        strange = replace(records[-1], case="elsewhere")
        notes = summarise(CONFIG, [*records, strange]).notes
        assert notes == (
            "Test cases left out because the configuration does not name them: elsewhere.",
        )

    def test_nothing_recorded(self) -> None:
        found = summarise(CONFIG, [])
        assert found.run is None
        assert found.started is None
        assert {compared(one).verdict.finding for one in found.cases} == {Finding.NOT_MEASURED}


class TestTwoQuestions:
    def test_they_can_part(self, records: list[Record]) -> None:
        # One request in four stalls: the typical one is as fast, and all get fewer tokens.
        numbers = itertools.count()
        held = changed(
            records, lambda r: replace(r, end=30 * r.end) if next(numbers) % 4 == 0 else r
        )
        found = compared(case(summarise(CONFIG, held), "repetition"))
        assert found.verdict.finding is Finding.FASTER
        assert found.cost is not None
        assert found.cost.answer is Answer.WORSE
        assert "but its tokens cost" in found.verdict.sentence
        assert "keep it on only where speed counts more" in found.verdict.sentence

    def test_a_rehearsal_advises_nothing(self, records: list[Record]) -> None:
        stand_in = CONFIG.model_copy(update={"stand_in": "golden endpoints"})
        found = summarise(stand_in, records)
        assert found.rehearsal
        sentences = [compared(one).verdict.sentence for one in found.cases]
        assert not any("keep" in one or "turn" in one for one in sentences)


def test_classes_have_one_number_each(summary: Summary) -> None:
    (structured,) = summary.overall  # open-ended is one test case, which says it itself
    assert (structured.structure, structured.cases) == ("structured", 2)
    assert structured.speed is not None
    assert structured.speed.point == pytest.approx(3, rel=0.1)
    points = [compared(case(summary, name)).speedup for name in ("repetition", "counting")]
    assert structured.speed.point**2 == pytest.approx(
        np.prod([point.point for point in points if point is not None])
    )


def test_summary_is_json(summary: Summary) -> None:
    content = json.loads(summary.to_json())
    first = content["cases"][0]
    base, speculative = first["cells"]
    assert base["comparison"] is None
    assert speculative["comparison"]["verdict"]["finding"] == "faster"
    assert speculative["comparison"]["baseline"] == "Base"
    assert speculative["requests"] == 24
    for cell, variant in ((base, "Base"), (speculative, "SD")):
        assert cell["variant"] == variant
        assert cell["test_case"] == "repetition"
        assert cell["load"] == {"concurrency": 4, "requests": 8}
        assert set(cell["measures"]) == {metric.name for metric in metrics.METRICS}
    assert content["cost_denominator"] == "8 of 16 devices of one trn2.48xlarge"
