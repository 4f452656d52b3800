"""What must hold between the sections of an experiment. Each rule is one function.

What must hold within one section is said by the section's own class.

A rule yields its refusals. A rule can depend on others: it is skipped when one of those has refused
something.

A rule names the item of a list by its position, also in a file that has a mapping in place of a
list: the loader turns ``speculation[0].mode`` into what that file says, and adds line and value.
"""

from __future__ import annotations

from typing import Final

from experiment.errors import Refusals
from experiment.rules import measurement, models, serving
from experiment.rules.models import Rule
from experiment.schema import Experiment

_RULES: Final = {**models.RULES, **serving.RULES, **measurement.RULES}


def refusals(experiment: Experiment) -> Refusals:
    """Everything in ``experiment`` that is refused, the most basic first."""
    passed: set[Rule] = set()
    for rule, depends_on in _RULES.items():
        if passed.issuperset(depends_on):
            # Variants that share a mode or a draft are refused for the same reason: say it once.
            refused = dict.fromkeys(rule(experiment))
            yield from refused
            if not refused:
                passed.add(rule)
