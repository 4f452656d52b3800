"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from experiment.errors import Refusal
from experiment.schema import Experiment

Refusals = Iterator[Refusal]
Rule = Callable[[Experiment], Refusals]
