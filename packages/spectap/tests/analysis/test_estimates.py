"""Estimates against scipy's and statsmodels' own, and against published examples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from spectap.analysis import proportions
from spectap.analysis.claims import holm
from spectap.analysis.estimate import (
    ALPHA,
    POWER,
    Component,
    Estimate,
    geometric_mean,
    jackknife,
)
from spectap.analysis.proportions import Paired

VALUES = st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=30)
LEVELS = st.floats(1e-4, 0.5)


def mean(values: list[float]) -> Estimate:
    estimate = jackknife(values, geometric_mean)
    assert estimate is not None
    return estimate


@given(VALUES.filter(lambda values: max(values) > 1.001 * min(values)), LEVELS)
def test_of_a_mean_it_is_the_ordinary_t_interval(values: list[float], alpha: float) -> None:
    logs = np.log(values)
    expected = stats.ttest_1samp(logs, 0).confidence_interval(1 - alpha)
    interval = mean(values).interval(alpha)
    assert math.log(interval.low) == pytest.approx(expected.low, rel=1e-6, abs=1e-9)
    assert math.log(interval.high) == pytest.approx(expected.high, rel=1e-6, abs=1e-9)
    assert mean(values).p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, rel=1e-6, abs=1e-12)


@given(st.integers(3, 30), st.integers(3, 30), st.floats(0.01, 0.3), st.floats(0.01, 0.3))
def test_against_another_it_is_welchs_test(
    count: int, baseline_count: int, scatter: float, baseline_scatter: float
) -> None:
    chance = np.random.default_rng(count)
    sample = np.exp(chance.normal(0.1, scatter, count))
    baseline = np.exp(chance.normal(0, baseline_scatter, baseline_count))
    expected = stats.ttest_ind(np.log(sample), np.log(baseline), equal_var=False)
    contrast = mean([*sample]).against(mean([*baseline]))
    assert contrast.degrees == pytest.approx(expected.df)
    assert contrast.p == pytest.approx(expected.pvalue, rel=1e-6)
    below = stats.ttest_ind(np.log(sample), np.log(baseline), equal_var=False, alternative="less")
    assert contrast.p_below(1) == pytest.approx(below.pvalue, rel=1e-6)


def test_what_all_units_share_is_not_made_smaller_by_more_of_them() -> None:
    wide = Estimate(0.0, 0.02, 6).widened(Component(0.03, 4))
    assert wide.units_for(0.05, ALPHA) is None
    assert (wide.units_for(0.2, ALPHA) or 0) >= 3


def test_newcombes_own_example() -> None:
    """Table III there: of 50 pairs 36, 12, 2 and 0; method 10 gives 0.0569 to 0.3404."""
    first = [1.0] * 36 + [1.0] * 12 + [0.0] * 2
    second = [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    assert Paired(first, second).interval() == pytest.approx((0.0569, 0.3404), abs=5e-5)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_statsmodels_says(seed: int) -> None:
    # Its import takes seconds, which no other process of these tests is to spend.
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.power import TTestPower
    from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

    chance = np.random.default_rng(seed)
    p_values = dict(enumerate(chance.uniform(0, 0.2, 12) ** 3))
    rejected = multipletests([*p_values.values()], 0.05, "holm")[0]
    assert holm(p_values, 0.05, 12).decided == {*np.flatnonzero(rejected)}

    many, few = 20 + seed, 12
    right, less = int(chance.integers(many + 1)), int(chance.integers(few + 1))
    known, wilson = [right / many, less / few], []
    for share, count, good in zip(known, (many, few), (right, less), strict=True):
        clopper = proportions.clopper_pearson(share, count, ALPHA)
        assert clopper == pytest.approx(proportion_confint(good, count, method="beta"), abs=1e-9)
        wilson.append(proportions.bounds([1.0] * good + [0.0] * (count - good)))
        expected = proportion_confint(good, count, method="wilson")
        assert wilson[-1] == pytest.approx(expected, abs=1e-9)
    difference = proportions.difference((known[1], wilson[1]), (known[0], wilson[0]))
    newcombe = confint_proportions_2indep(right, many, less, few, method="newcomb")
    assert difference == pytest.approx(newcombe, abs=1e-9)

    lost, won = right, min(right, less)
    paired = Paired([0.0] * lost + [1.0] * won, [1.0] * lost + [0.0] * won)
    both_sides = mcnemar([[0, lost], [won, 0]], exact=True).pvalue
    assert min(1.0, 2 * paired.p) == pytest.approx(both_sides)
    assert (paired.lost, paired.won) == (lost, won)

    units, error = int(chance.integers(4, 30)), float(chance.uniform(0.005, 0.1))
    scatter, power = error * math.sqrt(units), TTestPower()
    estimate = Estimate(0.0, error, units)
    smallest = power.solve_power(nobs=units, alpha=ALPHA, power=POWER)
    assert math.log1p(estimate.detectable(ALPHA)) == pytest.approx(smallest * scatter, rel=1e-4)
    effect = math.log1p(0.1) / scatter
    enough = estimate.units_for(0.1, ALPHA) or math.inf
    if 3 < enough < math.inf:
        assert power.power(effect, enough, ALPHA) >= POWER - 1e-6
        assert power.power(effect, enough - 1, ALPHA) < POWER
