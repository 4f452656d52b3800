"""What statsmodels computes, too, comes out the same."""

import math

import numpy as np
import pytest

from spectap.analysis import proportions
from spectap.analysis.claims import holm
from spectap.analysis.estimate import ALPHA, POWER, Estimate
from spectap.analysis.proportions import Paired


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
