"""A draft costs, and is accepted, by its size; the article's as the article measured it."""

from __future__ import annotations

import pytest

from experiment import Experiment
from experiment.loader import parse
from experiment.variants import variants
from rehearsal.golden.acceptances import OF_STRUCTURE
from rehearsal.golden.drafts import Draft, draft_of
from rehearsal.golden.schedule import Decoding
from spectap.config import Structure
from tests.experiment.files import EAGLE, SMALL_DRAFT, edited

ARTICLE_WINDOW = 7


def test_a_draft_of_a_fixed_window_makes_all_of_them_in_one_pass() -> None:
    assert Draft(at_once=10).cost == pytest.approx(Draft().cost / 10)


def draft(**changes: object) -> Draft:
    return draft_of(variants(parse(edited(changes), "mine.yaml"))[1])


def accepted(own: Draft, structure: Structure) -> float:
    """Drafts that a step accepts, with the article's window."""
    rate = own.acceptance(OF_STRUCTURE[structure])
    return Decoding(ARTICLE_WINDOW).tokens_per_step(rate) - 1


def test_the_article_s_pair_is_what_all_are_held_against(article: Experiment) -> None:
    _, sd = variants(article)
    own = draft_of(sd)
    assert own.cost == pytest.approx(0.037)
    for rate in OF_STRUCTURE.values():
        assert own.acceptance(rate) == pytest.approx(rate)


def test_the_smaller_draft_is_faster_and_about_60_percent_less_is_accepted() -> None:
    small = draft(**{"models.draft": SMALL_DRAFT})
    assert 0.3 < small.cost / Draft().cost < 0.45
    less = [1 - accepted(small, one) / accepted(Draft(), one) for one in Structure]
    assert sum(less) / len(less) == pytest.approx(0.6, abs=0.03)
    assert all(0.45 < one < 0.75 for one in less)


def test_a_head_is_not_judged_by_its_size() -> None:
    assert draft(**EAGLE) == Draft()


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.98])
def test_the_larger_the_draft_the_more_is_accepted(rate: float) -> None:
    rates = [Draft(size).acceptance(rate) for size in (0.1, 0.5, 1, 1.01, 2, 16)]
    assert rates == sorted(set(rates))
    assert 0 < rates[0] < rates[-1] < 1
