"""Estimates: Student's t from scipy's own tests, and what the jackknife must keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from spectap.analysis.estimates.estimate import (
    ALPHA,
    POWER,
    Component,
    Estimate,
    geometric_mean,
    jackknife,
)

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


def test_the_smallest_detectable_difference_is_found_as_often_as_it_says() -> None:
    """By the noncentral t distribution: how far the estimate is off, in standard errors."""
    units, error = 6, 0.02
    difference = math.log1p(Estimate(0, error, units).detectable(ALPHA))
    beyond = stats.t.ppf(1 - ALPHA / 2, units - 1)
    assert stats.nct.sf(beyond, units - 1, difference / error) == pytest.approx(POWER, abs=1e-6)


@given(st.floats(0.001, 1), st.integers(3, 30), st.floats(0.01, 0.5), LEVELS)
def test_so_many_units_are_enough_and_one_less_is_not(
    error: float, units: int, difference: float, alpha: float
) -> None:
    scatter = error * math.sqrt(units)

    def detectable(count: int) -> float:
        return Estimate(0, scatter / math.sqrt(count), count).detectable(alpha)

    needed = Estimate(0, error, units).units_for(difference, alpha)
    if needed is None:
        assert detectable(99_999) > difference
    else:
        assert detectable(needed) <= difference * (1 + 1e-9)
        assert needed == 3 or detectable(needed - 1) > difference


ERRORS = st.floats(1e-4, 0.5)


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


@given(ERRORS, ERRORS, st.integers(3, 30), st.integers(1, 30), LEVELS)
def test_a_widened_estimate_is_never_surer(
    error: float, common: float, units: int, freedom: int, alpha: float
) -> None:
    plain = Estimate(0.1, error, units)
    wide = plain.widened(Component(common, freedom))
    assert wide.error == pytest.approx(math.hypot(error, common))
    assert min(units - 1, freedom) <= wide.degrees * (1 + 1e-9)
    assert wide.degrees <= (units - 1 + freedom) * (1 + 1e-9)
    assert wide.log == plain.log


def test_what_all_units_share_is_not_made_smaller_by_more_of_them() -> None:
    wide = Estimate(0.0, 0.02, 6).widened(Component(0.03, 4))
    assert wide.units_for(0.05, ALPHA) is None
    assert (wide.units_for(0.2, ALPHA) or 0) >= 3
