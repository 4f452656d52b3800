"""Whether answers that speculation corrupts are found out, and others are not accused."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from spectap.analysis.correctness import correctness
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Correctness
from spectap.answer import Answer, CheckedAnswer, Evaluation, Score, ToolCall
from spectap.checks import checked
from spectap.config import Config
from spectap.names import WARM_UP
from spectap.prompt import Form, Prompt
from tests.spectap import samples

POINTS = [{"concurrency": number, "requests": 60} for number in (1, 2, 4, 8)]

TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {"seat": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["seat", "name"],
        },
    },
}

Say = Callable[[int, random.Random], Answer]
"""An answer to a prompt of that number."""


def config(temperature: float = 0.0, others: Sequence[str] = ("SD",)) -> Config:
    load = samples.load(points=POINTS, sampling={"temperature": temperature})
    case = {"name": "tools", "prompts": {"known": "bfcl"}}
    named = samples.variants(**{name: f"http://{name}/v1" for name in ("Base", *others)})
    return Config.model_validate(samples.settings(load=load, test_cases=[case], variants=named))


def prompts(number: int, form: Form = Form.TOOL_CALL) -> list[Prompt]:
    return [
        Prompt(
            name=f"p{place}",
            messages=({"role": "user", "content": f"Book seat {place}."},),
            tools=(TOOL,) if form is Form.TOOL_CALL else (),
            form=form,
        )
        for place in range(number)
    ]


def booking(place: int, _: random.Random | None = None) -> Answer:
    arguments = json.dumps({"seat": place, "name": f"guest {place}"})
    return Answer(f"p{place}", "", (ToolCall("book", arguments),), "tool_calls")


def corrupted(place: int, chance: random.Random) -> Answer:
    """A good answer with one of the corruptions that were seen of speculation."""
    answer = booking(place)
    (call,) = answer.tool_calls
    middle = len(call.arguments) // 2
    broken = (
        (),
        (ToolCall("bookbook", call.arguments),),
        (ToolCall("book", call.arguments[:middle]),),
        (ToolCall("book", call.arguments[:middle] + call.arguments[middle - 4 :]),),
        (ToolCall("book", call.arguments.replace(f'"seat": {place}', '"seat": "first"')),),
        (ToolCall("book", call.arguments.replace('"seat"', '"seats"')),),
    )
    return dataclasses.replace(answer, tool_calls=chance.choice(broken))


def one_in(share: float, broken: Say = corrupted) -> Say:
    return lambda place, chance: (broken if chance.random() < share else booking)(place, chance)


def run(
    seed: int, *, number: int = 60, points: int = 4, settings: Config | None = None, **say: Say
) -> list[CheckedAnswer]:
    """The answers of all variants to ``number`` prompts at each of the load points."""
    settings = settings or config()
    asked = prompts(number)
    found: list[CheckedAnswer] = []
    for turn, point in enumerate(settings.load.points[:points]):
        answers = {
            name: [
                one(place, random.Random(f"{seed} {name} {turn} {place}"))
                for place in range(number)
            ]
            for name, one in say.items()
        }
        for own in answers.values():
            random.Random(seed).shuffle(own)
        found += checked(
            settings, answers, asked, case="tools", load=point.name, round=1, attempt=1
        )
    return found


def only(answers: Sequence[CheckedAnswer], settings: Config | None = None) -> Correctness:
    (found,) = correctness(settings or config(), answers, ())
    return found


def test_one_corrupted_tool_call_in_ten_is_found_out() -> None:
    found = only(run(0, Base=booking, SD=one_in(0.1)))
    assert found.worse
    assert found.difference_interval[0] <= -0.1 <= found.difference_interval[1] < 0
    assert set(found.only_baseline) <= {f"p{place}" for place in range(60)}
    assert "Speculation changes answers" in found.sentence


@pytest.mark.parametrize("say", [booking, one_in(0.5)], ids=["good", "50 %"])
def test_what_is_as_good_as_its_baseline_is_not_accused(say: Say) -> None:
    found = only(run(0, Base=say, SD=say))
    assert not found.worse
    assert "No fall was found" in found.sentence


def test_the_sentence_on_corrupted_answers() -> None:
    lost = {3, 4, 17, 20, 33, 59}
    found = only(
        run(
            1,
            points=1,
            Base=booking,
            SD=lambda place, chance: (corrupted if place in lost else booking)(place, chance),
        )
    )
    assert found.sentence == (
        "SD's tool calls are valid in 54 of 60 prompts (90 %), Base's in 60 (100 %): 10 percentage "
        "points fewer (95 % interval 2 to 20.1 fewer). Speculation changes answers: 6 prompts "
        "got worse, none better. First of them: p17, p20, p3, p33, p4."
    )


def test_the_sentence_on_good_answers() -> None:
    assert only(run(1, points=1, Base=booking, SD=booking)).sentence == (
        "SD's tool calls are valid in 60 of 60 prompts (100 %), Base's in 60 (100 %): no "
        "difference (95 % interval 6 fewer to 6 more). No fall was found; one under 12.9 "
        "percentage points would probably not have been seen."
    )


def test_few_prompts_find_nothing_and_say_so() -> None:
    found = only(run(1, number=5, points=1, Base=booking, SD=one_in(1)))
    assert not found.worse
    assert found.sentence.endswith(". 5 prompts are too few to find any fall.")


def test_where_the_baseline_is_never_right_nothing_is_excluded() -> None:
    found = only(run(1, points=1, Base=one_in(1), SD=one_in(1)))
    assert not found.worse
    assert found.sentence == (
        "SD's tool calls are valid in 0 of 60 prompts (0 %), Base's in 0 (0 %): no difference "
        "(95 % interval 6 fewer to 6 more). Base is right in too few prompts to find any fall."
    )


def cut_off(place: int, _: random.Random) -> Answer:
    return dataclasses.replace(booking(place), tool_calls=(), finish="length")


def test_what_was_cut_off_is_left_out_on_both_sides_and_counted() -> None:
    found = only(run(1, points=1, Base=one_in(0.2), SD=one_in(0.5, cut_off)))
    (twin,) = correctness(config(), run(1, points=1, Base=one_in(0.2), SD=booking), ())
    left = 60 - found.prompts
    assert 0 < left < 60
    assert found.rate == twin.rate == 1.0
    assert f" Left out, as cut off: {left} of SD's and 0 of Base's answers." in found.sentence


def test_where_all_was_cut_off_nothing_is_said_of_rates() -> None:
    found = only(run(1, points=1, Base=booking, SD=cut_off))
    assert found.prompts == 0
    assert found.sentence == (
        "None of SD's tool calls could be compared with Base's. Left out, as cut off: 60 of SD's "
        "and 0 of Base's answers."
    )


def test_a_missing_answer_takes_its_counterpart_with_it() -> None:
    """Otherwise the side with more answers to a prompt has more chances to fail at it."""
    answers = run(1, Base=one_in(0.1), SD=one_in(0.1))
    first = config().load.points[0].name
    short = [one for one in answers if one.variant == "SD" or one.load == first]
    found = only(short)
    assert found.prompts == 60
    assert {found.rate * 60 % 1, found.baseline_rate * 60 % 1} == {0.0}


def test_the_last_attempt_counts_and_the_warm_up_does_not() -> None:
    bad = run(1, Base=booking, SD=one_in(1))
    warm = [dataclasses.replace(one, round=WARM_UP) for one in bad]
    again = [dataclasses.replace(one, attempt=2) for one in run(1, Base=booking, SD=booking)]
    assert only([*warm, *bad, *again]).rate == 1.0


def test_many_checks_are_judged_together() -> None:
    """Six of 60 are more than chance for one variant, not as the best of ten."""
    lost = set(range(6))
    names = [f"k{number}" for number in range(10)]

    def falls(place: int, chance: random.Random) -> Answer:
        return (corrupted if place in lost else booking)(place, chance)

    settings = config(others=names)
    answers = run(1, points=1, settings=settings, Base=booking, k0=falls)
    good = [one for one in answers if one.variant == "Base"]
    for name in names[1:]:
        answers += [dataclasses.replace(one, variant=name) for one in good]
    found = correctness(settings, answers, ())
    assert len(found) == 10
    assert not any(one.worse for one in found)
    assert only(run(1, points=1, Base=booking, SD=falls)).worse


def test_each_form_is_a_check_of_its_own() -> None:
    json_prompts = [
        prompt.model_copy(update={"form": Form.JSON}) for prompt in prompts(4, Form.JSON)
    ]
    answers = {
        name: [Answer(f"p{place}", "{}", (), "stop") for place in range(4)]
        for name in ("Base", "SD")
    }
    more = checked(config(), answers, json_prompts, case="tools", load="", round=2, attempt=1)
    found = correctness(config(), [*run(1, Base=booking, SD=booking), *more], ())
    assert [(one.check, one.prompts) for one in found] == [("tool calls", 60), ("JSON answers", 4)]


def test_prompts_without_a_form_have_no_check() -> None:
    asked = [prompt.model_copy(update={"form": None}) for prompt in prompts(4)]
    answers = {name: [booking(place) for place in range(4)] for name in ("Base", "SD")}
    found = checked(config(), answers, asked, case="tools", load="", round=1, attempt=1)
    assert correctness(config(), found, ()) == ()


def scores(**right: Sequence[bool]) -> list[Score]:
    return [
        Score("GSM8K", variant, str(question), correct)
        for variant, own in right.items()
        for question, correct in enumerate(own)
    ]


def test_an_evaluation_is_a_check() -> None:
    base = [True] * 173 + [False] * 27
    own = [False] * 4 + [True] * 171 + [False] * 25
    (found,) = correctness(config(), (), scores(Base=base, SD=own))
    assert (found.test_case, found.check) == ("", "GSM8K answers")
    assert not found.worse
    assert found.sentence == (
        "SD's GSM8K answers are correct in 171 of 200 questions (85.5 %), Base's in 173 (86.5 %): "
        "1 percentage point fewer (95 % interval 4 fewer to 1.8 more). No fall was found; one "
        "under 6 percentage points would probably not have been seen."
    )


def test_an_evaluation_says_which_it_is_and_when_it_ended() -> None:
    noted = Evaluation("quality-x", datetime(2026, 11, 22, 12, 31, tzinfo=UTC), ())
    of_base, *of_own = (
        dataclasses.replace(one, evaluation=noted) for one in scores(Base=[True], SD=[True])
    )
    (found,) = correctness(config(), (), [of_base, *of_own])
    assert found.evaluation == "evaluation quality-x, ended 2026-11-22 12:31 UTC"
    assert found.sentence.endswith(f" Source: {found.evaluation}.")
    (found,) = correctness(config(), (), [of_base, *scores(SD=[True])])
    assert found.evaluation.endswith("12:31 UTC and one not noted")


def test_only_questions_that_both_were_asked_are_compared() -> None:
    asked = scores(Base=[True] * 20, SD=[True] * 30, other=[False] * 30)
    (found,) = correctness(config(), (), asked)
    assert (found.prompts, found.rate) == (20, 1.0)
    assert correctness(config(), (), scores(SD=[True] * 30)) == ()


def test_a_summary_has_them() -> None:
    answers = run(1, points=1, Base=booking, SD=one_in(0.5))
    asked = scores(Base=[True] * 20, SD=[True] * 20)
    found = summarise(config(), (), answers=answers, scores=asked)
    assert [(one.check, one.worse) for one in found.correctness] == [
        ("tool calls", True),
        ("GSM8K answers", False),
    ]
    json.loads(found.to_json())


def test_nothing_is_said_of_nothing() -> None:
    nothing: list[Any] = []
    assert correctness(config(), nothing, nothing) == ()
