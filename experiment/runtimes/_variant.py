"""What a runtime is told of a variant: no more than its commands and its artifact depend on."""

from __future__ import annotations

from typing import Protocol

from experiment.known_models import Mode, Model, Models
from experiment.measurement import Benchmark
from experiment.speculation import Serving, Speculation


class Experiment(Protocol):
    """What of it decides how its variants are compiled and run."""

    @property
    def models(self) -> Models: ...
    @property
    def serving(self) -> Serving: ...
    @property
    def benchmark(self) -> Benchmark: ...
    @property
    def speculations(self) -> tuple[Speculation, ...]: ...
    @property
    def served_length(self) -> int: ...
    @property
    def calls_tools(self) -> bool: ...


class Variant(Protocol):
    """Read as ``experiment.variants.Variant``."""

    @property
    def experiment(self) -> Experiment: ...
    @property
    def batch(self) -> int: ...
    @property
    def mode(self) -> Mode | None: ...
    @property
    def speculation_mode(self) -> Mode: ...
    @property
    def window(self) -> int | None: ...
    @property
    def draft(self) -> Model | None: ...
    @property
    def without(self) -> str | None: ...
