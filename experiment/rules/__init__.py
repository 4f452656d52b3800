"""The rules between the sections of an experiment, a function each.

A rule yields its refusals. It is skipped when a rule that it depends on has refused something. It
names a list's item by position, which the loader spells as the file does.
"""

from typing import Final

from experiment.fields import Refusals
from experiment.rules import measurement, models, serving
from experiment.rules.models import Rule
from experiment.schema import Experiment

_RULES: Final = {**models.RULES, **serving.RULES, **measurement.RULES}


def refusals(experiment: Experiment) -> Refusals:
    """All refusals of ``experiment``, the most basic first."""
    passed: set[Rule] = set()
    for rule, depends_on in _RULES.items():
        if passed.issuperset(depends_on):
            # Variants that share a mode or a draft are refused for the same reason: say it once.
            refused = dict.fromkeys(rule(experiment))
            yield from refused
            if not refused:
                passed.add(rule)
