"""What is said first, of cells and of ladders: answers, and above all what limits them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spectap.analysis.summary import Crossover, Ladder, Summary
from spectap.load_points import LoadPoint
from spectap.report import headline, results
from tests.spectap import generated_runs as generated
from tests.spectap.generated_runs import Line
from tests.spectap.report import laddered

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
POINTS = tuple(LoadPoint(concurrency=number, requests=4) for number in (1, 2, 4, 8))
RATES = tuple(LoadPoint(rate=rate, requests=4) for rate in (0.5, 1))
NOTHING = Crossover(None, None, None)


def summary(folder: Path, lines: list[Line], **changes: object) -> Summary:
    return results.read(generated.write(folder, CONFIG | changes, lines)).summary


def ladder(crossover: Crossover, loads: tuple[LoadPoint, ...] = POINTS) -> Ladder:
    return Ladder("SD", "Base", loads[0].open, loads, crossover, crossover, "")


@pytest.mark.parametrize(
    ("crossover", "exact", "rough"),
    [
        (
            Crossover(5.6, 4, 8),
            "faster up to 4 at once and slower from 8",
            "faster at low loads and slower at high ones",
        ),
        (Crossover(None, 8, None), "faster at every load", "faster at every load"),
        (Crossover(None, None, 1), "slower at every load", "slower at every load"),
        (
            Crossover(6, 4, None),
            "faster up to 4 at once; above, that is undecided",
            "faster at low loads; above, that is undecided",
        ),
        (
            Crossover(1, None, 2),
            "slower from 2 at once; below, that is undecided",
            "slower at high loads; below, that is undecided",
        ),
        (NOTHING, "faster up to a load that is undecided", "faster up to a load that is undecided"),
    ],
)
def test_a_crossover_in_words(crossover: Crossover, exact: str, rough: str) -> None:
    of = ladder(crossover)
    for is_exact, words in ((True, exact), (False, rough)):
        text = headline.over_loads(of, headline.SPEED, exact=is_exact)
        assert text == f"answers requests {words}"


@pytest.mark.parametrize(
    ("crossover", "answer"),
    [(Crossover(None, 8, None), "faster"), (Crossover(None, None, 1), "slower")],
)
def test_loads_without_a_verdict_are_not_among_every_load(
    crossover: Crossover, answer: str
) -> None:
    broken = replace(ladder(crossover), whole=False)
    text = headline.over_loads(broken, headline.SPEED)
    assert text == f"answers requests {answer} at every load that has a verdict"


def test_a_speed_without_requests_that_failed_is_not_that_of_every_load() -> None:
    broken = replace(ladder(Crossover(None, 8, None)), failed=True)
    speed = headline.over_loads(broken, headline.SPEED)
    assert speed == "answers requests faster wherever they succeed"
    # Failed requests take time and bring no tokens, so the cost has them in it.
    assert headline.over_loads(broken, headline.COST) == "costs less at every load"


def test_each_question_and_each_kind_of_load_has_its_words() -> None:
    crossover = Crossover(3, 2, 4)
    together = headline.over_loads(ladder(crossover), headline.TOGETHER)
    assert together == "gets more tokens/s up to 2 at once and fewer tokens/s from 4"
    rates = ladder(Crossover(0.7, 0.5, 1), RATES)
    text = headline.over_loads(rates, headline.SPEED)
    assert text == "answers requests faster up to 0.5 a second and slower from 1"


def test_both_questions_are_counted_over_the_test_cases(tmp_path: Path) -> None:
    swap = {"Base": "SD", "SD": "Base"}
    lines = [
        {**line, "variant": swap[line["variant"]]} if line["case"] == "counting" else line
        for line in LINES
    ]
    assert headline.headline(summary(tmp_path, lines)) == (
        "SD: requests faster in 1 of 3 test cases, slower in 1, undecided in 1; "
        "cost less in 1, more in 1, undecided in 1",
        (),
    )


def test_speed_and_cost_can_part(tmp_path: Path) -> None:
    """One request of each wave keeps the hardware busy, while the others are done."""
    lines = [
        generated.slowed(line, 12)
        if line["variant"] == "SD" and line["request"].endswith("-0")
        else line
        for line in LINES
    ]
    text, _ = headline.headline(summary(tmp_path, lines))
    assert "faster in 2 of 3 test cases" in text
    assert "cost more in 3" in text


def test_without_a_price_it_is_the_tokens_a_second(tmp_path: Path) -> None:
    text, _ = headline.headline(summary(tmp_path, LINES, cost=None))
    assert "; all together more tokens/s in 2, undecided in 1" in text


def test_failures_are_in_the_headline(tmp_path: Path) -> None:
    failing = [
        generated.fail(line) if number % 20 == 19 else line for number, line in enumerate(LINES)
    ]
    text, _ = headline.headline(summary(tmp_path, failing))
    assert "requests faster in" in text
    assert "SD requests failed" in text


def test_a_queue_is_in_the_headline_and_decoding_explains_it(tmp_path: Path) -> None:
    of_run = laddered.run(tmp_path).summary
    text, below = headline.headline(of_run)
    queues = "Base requests queue from 8 at once; SD requests queue from 8 at once"
    assert text == (
        "SD answers requests faster at low loads and slower at high ones in 3 of 3 test cases; "
        + queues
    )
    assert below == ("SD costs less at low loads and more at high ones in 3 of 3 test cases",)
    text, _ = headline.headline(replace(of_run, cases=of_run.cases[:1]))
    assert text == f"SD answers requests faster up to 4 at once and slower from 8; {queues}"


def test_a_lagging_load_and_missing_verdicts_are_in_the_headline(tmp_path: Path) -> None:
    lines = [
        line | ({"due": line["sent"] - 60} if line["load"].startswith("rate") else {})
        for line in laddered.ledger()
        if (line["case"], line["load"], line["round"]) != ("counting", "concurrency-4", 5)
    ]
    content = laddered.configuration()
    text, _ = headline.headline(results.read(generated.write(tmp_path, content, lines)).summary)
    assert "SD requests were sent late, so the load was another" in text
    assert "1 of 15 measurements have no verdict" in text


def test_of_rates_alone_the_cost_is_not_asked_for(tmp_path: Path) -> None:
    """In an open loop the throughput is that of the schedule."""
    text, below = headline.headline(laddered.run(tmp_path, {}, {0.5: 0.8, 4: 4.0}).summary)
    assert text.startswith("SD answers requests faster at low loads and slower at high ones in 3 ")
    assert below == ()


def test_an_unfinished_run_has_no_verdict(tmp_path: Path) -> None:
    text, _ = headline.headline(summary(tmp_path, [line for line in LINES if line["round"] <= 2]))
    assert text == "SD has no verdict in 3 of 3 test cases"


def test_of_several_variants_each_has_a_sentence(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.TWO_WINDOWS)
    lines = generated.ledger(configuration)
    run = results.read(generated.write(tmp_path, configuration, lines))
    text, below = headline.headline(run.summary)
    assert text == "2 variants compared in 3 test cases"
    assert [sentence.split()[0] for sentence in below] == ["k3:", "k7:"]
    assert all("requests faster in 2 of 3 test cases" in sentence for sentence in below)


def test_a_rehearsal_and_a_variant_alone(tmp_path: Path) -> None:
    text, _ = headline.headline(summary(tmp_path, LINES, stand_in="golden endpoints"))
    assert text.startswith("Rehearsal: SD: requests faster")
    alone = generated.config(variants=generated.ARTICLE[:1])
    run = results.read(generated.write(tmp_path / "alone", alone, generated.ledger(alone)))
    assert headline.headline(run.summary) == ("Base in 3 test cases", ())
