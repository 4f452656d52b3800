"""What must hold between the sections of an experiment. Each rule is one function.

What must hold within one section is said by the section's own class.

A rule yields its refusals. A rule can depend on others: it is skipped when one of those has refused
something.

A rule names the item of a list by its position, also in a file that has a mapping in place of a
list: ``Document.locate`` turns ``speculation[0].mode`` into what that file says.
"""

from __future__ import annotations

from typing import Final

from experiment.rules import listed_or_swept, measurement, models, offline, serving
from experiment.rules.rule import Refusals, Rule
from experiment.schema import Experiment

_RULES: Final = {
    **listed_or_swept.RULES,
    **models.RULES,
    **offline.RULES,
    **serving.RULES,
    **measurement.RULES,
}


def refusals(experiment: Experiment) -> Refusals:
    """Everything in ``experiment`` that is refused, the most basic first."""
    passed: set[Rule] = set()
    for rule, depends_on in _RULES.items():
        if passed.issuperset(depends_on):
            # Variants that share a mode or a draft are refused for the same reason: say it once.
            refused = {str(refusal): refusal for refusal in rule(experiment)}
            yield from refused.values()
            if not refused:
                passed.add(rule)
