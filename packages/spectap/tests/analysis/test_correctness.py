"""Whether answers that speculation corrupts are found out, and others are not accused."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import pytest
from syrupy.assertion import SnapshotAssertion

from spectap.analysis.correctness import correctness
from spectap.analysis.summarise import summarise
from spectap.analysis.verdicts import Action
from spectap.inputs.config import Config
from spectap.inputs.prompt import Form
from spectap.names import WARM_UP
from spectap.records.answer import CheckedAnswer
from tests import samples
from tests.analysis import ledgers

CASE = {"name": "tools", "prompts": {"set": "bfcl"}}
LOADS = ("concurrency-1", "concurrency-2")

Valid = Callable[[int], bool | None]
"""Whether the answer to a prompt of that number is right; None where it was cut off."""


def config(*speculative: str) -> Config:
    named = samples.variants(**{name: f"http://{name}/v1" for name in ("Base", *speculative)})
    points = [{"concurrency": number, "requests": 60} for number in (1, 2)]
    return samples.config(load=samples.load(points=points), test_cases=[CASE], variants=named)


SETTINGS = config("SD")


def answers(
    variants: Mapping[str, Valid],
    *,
    prompts: int = 60,
    loads: Sequence[str] = LOADS[:1],
    form: Form | None = Form.TOOL_CALL,
    round_: int = 1,
    attempt: int = 1,
) -> list[CheckedAnswer]:
    """Each variant's answers to each prompt at each load."""
    fields = {field.name: None for field in dataclasses.fields(CheckedAnswer)}
    lines = []
    for load, (variant, right), number in product(loads, variants.items(), range(prompts)):
        valid = right(number)
        values = {
            **{"variant": variant, "case": "tools", "load": load, "round": round_},
            **{"attempt": attempt, "prompt": f"p{number}", "form": form, "valid": valid},
            **{"finish": "length" if valid is None else "stop", "problem": ""},
        }
        lines.append(CheckedAnswer(**{**fields, **values}))  # type: ignore[arg-type]  # mixed
    return lines


def all_but(*lost: int) -> Valid:
    return lambda number: number not in lost


def cut_off_below(number: int) -> Valid:
    return lambda prompt: None if prompt < number else True


good, bad = all_but(), all_but(*range(60))
ANSWERS = {
    "six lost": answers({"Base": good, "SD": all_but(3, 4, 17, 20, 33, 59)}),
    "all good": answers({"Base": good, "SD": good}),
    "few prompts": answers({"Base": good, "SD": bad}, prompts=5),
    "never right": answers({"Base": bad, "SD": bad}),
    "as bad as the baseline": answers(
        {"Base": all_but(*range(0, 60, 2))} | {"SD": all_but(*range(1, 60, 2))}
    ),
    "some cut off": answers({"Base": all_but(5, 50), "SD": cut_off_below(20)}),
    "all cut off": answers({"Base": good, "SD": cut_off_below(60)}),
    "two answers each": answers({"Base": all_but(1), "SD": all_but(2, 3)}, loads=LOADS),
    "without a form": answers({"Base": good, "SD": cut_off_below(9)}, form=None),
    "always cut off": answers(dict.fromkeys(("Base", "SD"), cut_off_below(60)), form=None),
    "no baseline": answers({"SD": good}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_said(name: str, snapshot: SnapshotAssertion) -> None:
    assert [*map(ledgers.text, correctness(SETTINGS, ANSWERS[name]))] == snapshot


def test_the_last_attempt_counts_and_the_warm_up_does_not() -> None:
    warm, first = (answers({"Base": good, "SD": bad}, round_=number) for number in (WARM_UP, 1))
    again = answers({"Base": good, "SD": good}, attempt=2)
    of_json = answers({"Base": good, "SD": good}, prompts=4, form=Form.JSON, round_=2)
    checks = correctness(SETTINGS, [*warm, *first, *again, *of_json])
    # Each form is a check of its own, and so are the ends of all answers.
    expected = [("tool calls", 60, 1.0), ("JSON answers", 4, 1.0), ("ends of answers", 60, 1.0)]
    assert [(check.check, check.prompts, check.rate) for check in checks] == expected
    # A missing answer takes its counterpart with it: more answers have more chances to fail.
    every = answers({"Base": all_but(1), "SD": all_but(1)}, loads=LOADS)
    short = [each for each in every if each.variant == "SD" or each.load == LOADS[0]]
    check, _ = correctness(SETTINGS, short)
    assert (check.prompts, check.rate, check.baseline_rate) == (60, 59 / 60, 59 / 60)


def test_many_checks_are_judged_together() -> None:
    """Six of 60 are more than chance for one variant, not as the best of ten."""
    names = [f"k{number}" for number in range(10)]
    others = {"Base": all_but(57, 58, 59)} | dict.fromkeys(names, all_but(6, 7, 8))
    variants = others | {"k0": all_but(*range(6), 57, 58, 59)}
    checks = correctness(config(*names), answers(variants))
    assert not any(check.worse for check in checks)
    # Those that differ nowhere can accuse nobody, and do not count.
    variants |= dict.fromkeys(names[1:], variants["Base"])
    checks = correctness(config(*names), answers(variants))
    assert [check.variant for check in checks if check.worse] == ["k0"]


def test_answers_that_do_not_end_are_found_and_reach_the_verdict() -> None:
    some = answers({"Base": good, "SD": cut_off_below(9)}, form=None)
    unknown = [dataclasses.replace(a, finish=None) if a.prompt == "p1" else a for a in some]
    (check,) = correctness(SETTINGS, unknown)
    assert (check.prompts, check.rate, check.worse) == (59, 51 / 59, True)
    faster, records = ledgers.ledger()
    of_case = [dataclasses.replace(a, case=faster.test_cases[0].name) for a in unknown]
    ((_, comparison),) = summarise(faster, records, answers=of_case).cases[0].compared
    assert comparison.verdict.action is Action.CHECK_ANSWERS
