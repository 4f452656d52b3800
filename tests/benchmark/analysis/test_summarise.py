"""The summary of generated ledgers, whose speed-ups are known, and the properties it must keep."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.analysis.intervals import MINIMUM_SAMPLE, Interval, ratio_of_medians, throughput
from benchmark.analysis.summarise import summarise
from benchmark.analysis.summary import Case, Summary
from benchmark.analysis.verdict import Finding, Tally, judge
from benchmark.config import Config
from benchmark.ledger import read_ledger
from benchmark.record import Record
from tests.benchmark import generated_runs as generated

CONFIG = Config.model_validate(generated.config())
SAMPLES = st.lists(st.floats(1e-3, 1e3), min_size=MINIMUM_SAMPLE, max_size=30)

Rounds = list[list[tuple[float, int]]]
ROUNDS = st.lists(
    st.lists(
        st.tuples(st.floats(1e-3, 1e3), st.integers(1, 1000)),
        min_size=MINIMUM_SAMPLE,
        max_size=10,
    ),
    min_size=1,
    max_size=3,
)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    configuration = generated.config()
    folder = tmp_path_factory.mktemp("run")
    generated.write(folder, configuration, generated.ledger(configuration))
    return read_ledger(folder / "ledger.jsonl")


@pytest.fixture(scope="module")
def summary(records: list[Record]) -> Summary:
    return summarise(CONFIG, records)


def case(summary: Summary, name: str) -> Case:
    return next(case for case in summary.cases if case.name == name)


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
            found = case(summary, name)
            assert found.verdict.finding is Finding.FASTER
            assert found.speedup is not None
            assert found.speedup.point == pytest.approx(3, rel=0.1)
            assert found.verdict.sentence.endswith("keep it on.")

    def test_open_ended_prompts_show_no_difference(self, summary: Summary) -> None:
        found = case(summary, "open-ended")
        assert found.verdict.finding is Finding.UNDECIDED
        assert found.verdict.sentence.startswith("No difference can be told here")

    def test_ttft_is_equal_within_noise(self, summary: Summary) -> None:
        for found in summary.cases:
            base, speculative = (arm.ttft for arm in found.arms)
            assert base is not None
            assert speculative is not None
            assert speculative.p50 == pytest.approx(base.p50, rel=0.05)

    def test_percentiles_are_the_measured_ones(self, summary: Summary) -> None:
        base = case(summary, "repetition").base.time_per_output_token
        assert base is not None
        assert base.count == 24
        assert base.p50 == pytest.approx(generated.BASE_STEP, rel=0.02)
        assert base.p50 <= base.p90 <= base.p99

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
        assert summarise(CONFIG, reversed(records)).cases[0].verdict == summary.cases[0].verdict


class TestTokensPerStep:
    def test_base_makes_one_and_sd_several(self, summary: Summary) -> None:
        found = case(summary, "repetition")
        assert found.base.steps is not None
        assert found.base.steps.mean == 1
        assert found.speculative.steps is not None
        assert found.speculative.steps.mean == pytest.approx(4.27, rel=0.1)

    def test_the_first_chunk_is_no_step(self, summary: Summary, records: list[Record]) -> None:
        steps = case(summary, "repetition").speculative.steps
        mine = [r for r in records if (r.case, r.variant) == ("repetition", "SD") and r.round > 0]
        assert steps is not None
        assert sum(amount for _, amount in steps.histogram) == sum(len(r.chunks) - 1 for r in mine)

    def test_mean_is_that_of_the_histogram(self, summary: Summary) -> None:
        steps = case(summary, "repetition").speculative.steps
        assert steps is not None
        amount = sum(number for _, number in steps.histogram)
        assert steps.mean == pytest.approx(
            sum(size * number for size, number in steps.histogram) / amount
        )

    def test_nothing_is_claimed_without_counts_per_chunk(self, records: list[Record]) -> None:
        uncounted = changed(
            records,
            lambda r: replace(r, per_chunk=False, chunks=tuple((t, 0) for t, _ in r.chunks)),
        )
        found = case(summarise(CONFIG, uncounted), "repetition")
        assert found.speculative.steps is None
        assert found.base.steps is not None
        assert "no token count per chunk" in " ".join(found.notes)

    def test_speculation_that_accepts_nothing_is_noted(self, records: list[Record]) -> None:
        single = changed(records, lambda r: replace(r, chunks=tuple((t, 1) for t, _ in r.chunks)))
        notes = case(summarise(CONFIG, single), "repetition").notes
        assert "as if speculation were off" in " ".join(notes)


class TestCost:
    def test_it_follows_from_the_throughput_of_all_requests(self, summary: Summary) -> None:
        arm = case(summary, "repetition").base
        assert arm.tokens_per_second is not None
        usd_per_second = 35.7608 * 0.5 / 3600
        assert arm.usd_per_million_output_tokens == pytest.approx(
            usd_per_second / arm.tokens_per_second * 1e6
        )
        # Four requests at once, each a token every 45 ms, less the time to the first one.
        assert arm.tokens_per_second == pytest.approx(4 * 100 / 4.67, rel=0.05)

    def test_the_time_of_failed_requests_is_paid_for(self, records: list[Record]) -> None:
        # One request of each wave fails after as long as the others take.
        some = changed(records, lambda r: failed(r) if r.request[-1] in "04" else r)
        found = case(summarise(CONFIG, some), "repetition").speculative
        whole = case(summarise(CONFIG, records), "repetition").speculative
        assert found.tokens_per_second is not None
        assert whole.tokens_per_second is not None
        assert found.tokens_per_second == pytest.approx(whole.tokens_per_second * 0.75)

    def test_a_pause_between_rounds_costs_nothing(
        self, summary: Summary, records: list[Record]
    ) -> None:
        resumed = [replace(r, sent=r.sent + 3600 * r.round) for r in records]
        for before, after in zip(summary.cases, summarise(CONFIG, resumed).cases, strict=True):
            assert after.base.tokens_per_second == pytest.approx(before.base.tokens_per_second)

    def test_their_intervals_go_together(self, summary: Summary) -> None:
        for arm in (arm for found in summary.cases for arm in found.arms):
            speed, usd = arm.tokens_per_second_interval, arm.usd_per_million_output_tokens_interval
            assert speed is not None
            assert usd is not None
            assert speed.low < speed.point < speed.high
            assert speed.point == pytest.approx(arm.tokens_per_second)
            assert usd.point == pytest.approx(arm.usd_per_million_output_tokens)
            assert usd.low / usd.point == pytest.approx(speed.point / speed.high)
            assert usd.high / usd.point == pytest.approx(speed.point / speed.low)

    def test_failures_make_it_less_sure(self, summary: Summary, records: list[Record]) -> None:
        some = changed(records, lambda r: failed(r) if r.request[-1] in "04" else r)
        whole = case(summary, "repetition").speculative.tokens_per_second_interval
        found = case(summarise(CONFIG, some), "repetition").speculative.tokens_per_second_interval
        assert whole is not None
        assert found is not None
        assert found.high < whole.low
        assert found.high - found.low > 2 * (whole.high - whole.low)

    def test_too_few_have_none(self, records: list[Record]) -> None:
        few = changed(records, lambda r: r if r.round == 1 and r.request[-1] < "5" else failed(r))
        found = case(summarise(CONFIG, few), "repetition").speculative
        assert found.tokens_per_second is not None
        assert found.tokens_per_second_interval is None
        assert found.usd_per_million_output_tokens_interval is None


class TestBroken:
    def test_every_request_failed(self, records: list[Record]) -> None:
        found = case(summarise(CONFIG, changed(records, failed)), "repetition")
        assert found.verdict.finding is Finding.FAILED
        assert found.verdict.sentence == "No verdict: every SD request failed (HTTP 503)."
        assert found.speculative.tally.errors == 24
        assert found.speculative.usd_per_million_output_tokens is None

    def test_more_than_half_failed(self, records: list[Record]) -> None:
        some = changed(records, lambda r: failed(r) if r.request[-1] in "01234" else r)
        found = case(summarise(CONFIG, some), "repetition")
        assert found.verdict.finding is Finding.FAILED
        assert "15 of 24 SD requests failed" in found.verdict.sentence

    def test_half_failed_is_still_judged(self, records: list[Record]) -> None:
        some = changed(records, lambda r: failed(r) if r.request[-1] in "0123" else r)
        found = case(summarise(CONFIG, some), "repetition")
        assert found.verdict.finding is Finding.FASTER

    def test_some_failed_and_the_advice_says_so(self, records: list[Record]) -> None:
        some = changed(records, lambda r: failed(r) if r.request[-1] == "0" else r)
        found = case(summarise(CONFIG, some), "repetition")
        assert found.verdict.finding is Finding.FASTER
        assert "see to its errors" in found.verdict.sentence
        assert found.speculative.tally.errors == 3

    @pytest.mark.parametrize("missing", ["Base", "SD"])
    def test_a_variant_is_missing(self, records: list[Record], missing: str) -> None:
        found = summarise(CONFIG, [r for r in records if r.variant != missing])
        assert {one.verdict.finding for one in found.cases} == {Finding.NOT_MEASURED}
        assert found.notes[0].startswith(f"{missing} was not measured at all")
        assert not found.complete

    def test_too_few_requests(self, records: list[Record]) -> None:
        few = [r for r in records if r.variant == "Base" or (r.round == 1 and r.request[-1] < "5")]
        found = case(summarise(CONFIG, few), "repetition")
        assert found.verdict.finding is Finding.TOO_FEW
        assert "5 of SD" in found.verdict.sentence
        assert "SD: 5 of 24 requests were recorded." in found.notes

    def test_what_llmperf_sends_beyond_what_it_was_asked_for_is_no_matter(
        self, records: list[Record]
    ) -> None:
        # Up to three more a round, at a concurrency of four.
        found = case(summarise(CONFIG, repeated(records, 9)), "repetition")
        assert found.speculative.tally.requests == 24 + 9
        assert found.notes == ()

    def test_requests_of_an_interrupted_attempt_are_noted(self, records: list[Record]) -> None:
        found = case(summarise(CONFIG, repeated(records, 10)), "repetition")
        assert found.notes == (
            "SD: 34 requests in place of 24: those that ended before an interruption count too.",
        )

    def test_requests_that_are_not_streamed_are_judged_by_throughput(
        self, records: list[Record]
    ) -> None:
        whole = [replace(r, stream=False, per_chunk=False, chunks=()) for r in records]
        found = case(summarise(CONFIG, whole), "repetition")
        assert found.verdict.finding is Finding.FASTER
        assert "by output throughput" in found.verdict.sentence

    def test_answers_of_different_length_are_noted(self, records: list[Record]) -> None:
        longer = changed(records, lambda r: replace(r, output_tokens=150))
        notes = case(summarise(CONFIG, longer), "repetition").notes
        assert notes == (
            "Base wrote 100 tokens and SD 150 (medians): compare them per token, not end to end.",
        )

    def test_unknown_cases_are_left_out_and_named(self, records: list[Record]) -> None:
        strange = replace(records[-1], case="elsewhere")
        notes = summarise(CONFIG, [*records, strange]).notes
        assert notes == ("Left out, because the configuration does not name them: elsewhere.",)

    def test_nothing_recorded(self) -> None:
        found = summarise(CONFIG, [])
        assert found.run is None
        assert found.started is None
        assert {one.verdict.finding for one in found.cases} == {Finding.NOT_MEASURED}


def test_summary_is_json(summary: Summary) -> None:
    content = json.loads(summary.to_json())
    first = content["cases"][0]
    assert first["verdict"]["finding"] == "faster"
    assert first["speculative"]["tally"]["requests"] == 24
    assert content["cost_denominator"] == "8 of 16 devices of one trn2.48xlarge"


class TestVerdict:
    GOOD = Tally("Base", 24, 0), Tally("SD", 24, 0)

    @pytest.mark.parametrize(
        ("interval", "finding", "sentence"),
        [
            (
                Interval(2.9, 2.7, 3.1),
                Finding.FASTER,
                "SD is 2.9x faster here, 95 % interval 2.7-3.1; keep it on.",
            ),
            (
                Interval(0.5, 0.4, 0.625),
                Finding.SLOWER,
                "SD is 2.0x slower here, 95 % interval 1.6-2.5; turn it off.",
            ),
            (
                Interval(1.1, 0.9, 1.3),
                Finding.UNDECIDED,
                "No difference can be told here: the 95 % interval 0.90-1.30 covers 1.",
            ),
            (
                Interval(1.02, 1.01, 1.03),
                Finding.NEGLIGIBLE,
                "SD is 1.02x faster here, 95 % interval 1.01-1.03; too little to matter.",
            ),
            (
                Interval(3.0, 2.99, 3.01),
                Finding.FASTER,
                "SD is 3.00x faster here, 95 % interval 2.99-3.01; keep it on.",
            ),
        ],
    )
    def test_sentences(self, interval: Interval, finding: Finding, sentence: str) -> None:
        verdict = judge(*self.GOOD, interval)
        assert verdict.finding is finding
        assert verdict.sentence == sentence

    @given(st.floats(0.01, 100), st.floats(1, 2), st.floats(1, 2))
    def test_a_difference_is_claimed_only_where_one_is_excluded(
        self, point: float, below: float, above: float
    ) -> None:
        interval = Interval(point, point / below, point * above)
        finding = judge(*self.GOOD, interval).finding
        assert (finding is Finding.UNDECIDED) == (interval.low <= 1 <= interval.high)
        assert finding is not Finding.FASTER or interval.low > 1
        assert finding is not Finding.SLOWER or interval.high < 1


class TestBootstrap:
    @given(SAMPLES, SAMPLES)
    @settings(max_examples=25, deadline=None)
    def test_bounds_lie_within_the_samples(self, above: list[float], below: list[float]) -> None:
        interval = ratio_of_medians(above, below)
        assert interval is not None
        assert interval.low <= interval.high
        assert interval.low >= min(above) / max(below) * (1 - 1e-9)
        assert interval.high <= max(above) / min(below) * (1 + 1e-9)

    @given(SAMPLES, SAMPLES, st.floats(0.01, 100))
    @settings(max_examples=25, deadline=None)
    def test_the_unit_does_not_matter(
        self, above: list[float], below: list[float], scale: float
    ) -> None:
        plain = ratio_of_medians(above, below)
        scaled = ratio_of_medians([v * scale for v in above], [v * scale for v in below])
        assert plain is not None
        assert scaled is not None
        assert scaled.low == pytest.approx(plain.low)
        assert scaled.high == pytest.approx(plain.high)

    @given(SAMPLES)
    @settings(max_examples=25, deadline=None)
    def test_a_sample_never_differs_from_itself(self, sample: list[float]) -> None:
        interval = ratio_of_medians(sample, sample)
        assert interval is not None
        assert interval.covers_one

    @given(st.lists(st.floats(1, 2), max_size=MINIMUM_SAMPLE - 1), SAMPLES)
    @settings(max_examples=25, deadline=None)
    def test_small_samples_give_nothing(self, small: list[float], enough: list[float]) -> None:
        assert ratio_of_medians(small, enough) is None
        assert ratio_of_medians(enough, small) is None

    def test_medians_that_are_not_positive_give_nothing(self) -> None:
        assert ratio_of_medians([0.0] * 10, [1.0] * 10) is None
        assert ratio_of_medians([1.0] * 10, [0.0] * 10) is None

    def test_one_answer_in_one_piece_does_not_decide(self) -> None:
        other = [2.0] * 24
        assert ratio_of_medians([0.0] + [1.0] * 23, other) == Interval(0.5, 0.5, 0.5)
        assert ratio_of_medians(other, [0.0] + [1.0] * 23) == Interval(2.0, 2.0, 2.0)

    @given(ROUNDS, st.integers(1, 8), st.floats(0.01, 100))
    @settings(max_examples=25, deadline=None)
    def test_throughput_in_slower_time_is_lower(
        self, rounds: Rounds, concurrency: int, scale: float
    ) -> None:
        slower = [[(scale * seconds, tokens) for seconds, tokens in r] for r in rounds]
        plain = throughput(rounds, 10.0, concurrency)
        scaled = throughput(slower, 10.0 * scale, concurrency)
        assert plain is not None
        assert scaled is not None
        assert plain.low <= plain.high
        assert scaled.scaled(scale).low == pytest.approx(plain.low)
        assert scaled.scaled(scale).high == pytest.approx(plain.high)

    def test_throughput_of_equal_requests_is_certain(self) -> None:
        # Two rounds of three waves each, the last of one request only, and pauses of 4 s in all.
        interval = throughput([[(2.0, 100)] * 9] * 2, 2 * 3 * 2.0 + 4.0, concurrency=4)
        assert interval is not None
        assert interval.low == pytest.approx(1800 / 16)
        assert interval.high == pytest.approx(1800 / 16)

    def test_throughput_needs_requests_that_took_time_and_have_tokens(self) -> None:
        enough = [(1.0, 100)] * MINIMUM_SAMPLE
        assert throughput([enough], 6.0, 1) is not None
        assert throughput([enough[1:], [(1.0, 0)]], 6.0, 1) is None
        assert throughput([enough, [(0.0, 0)]], 6.0, 1) is None
        assert throughput([], 0.0, 1) is None

    def test_throughput_covers_the_truth_about_as_often_as_it_says(self) -> None:
        chance = random.Random(7)
        runs = [_closed_loop(chance, rounds=3, requests=8, concurrency=4) for _ in range(2000)]
        truth = fmean(sum(t for r in rounds for _, t in r) / busy for rounds, busy in runs)
        hits = 0
        for rounds, busy in runs[:100]:
            interval = throughput(rounds, busy, concurrency=4)
            assert interval is not None
            hits += interval.low <= truth <= interval.high
        assert hits >= 88

    def test_the_interval_covers_the_truth_about_as_often_as_it_says(self) -> None:
        generator = np.random.default_rng(7)
        hits = 0
        for _ in range(100):
            above, below = generator.normal(3, 0.3, 24), generator.normal(1, 0.1, 24)
            interval = ratio_of_medians(above.tolist(), below.tolist())
            assert interval is not None
            hits += interval.low <= 3 <= interval.high
        assert hits >= 88


def _closed_loop(
    chance: random.Random, rounds: int, requests: int, concurrency: int
) -> tuple[Rounds, float]:
    """A run of requests that take 1 s, give or take 0.1 s, with pauses of 0.02 s between them."""
    made: Rounds = []
    busy = 0.0
    for _ in range(rounds):
        of_round = [(chance.gauss(1, 0.1), 100) for _ in range(requests)]
        ends = [0.0] * concurrency
        for seconds, _ in of_round:
            heapq.heapreplace(ends, ends[0] + seconds + 0.02)
        made.append(of_round)
        busy += max(ends) - 0.02
    return made, busy
