"""Time per output token at every window of a line: measured where it was, and predicted.

A prediction is a step's time by the tokens that it yields. Prompts differ, and a hard one takes
more steps: so each prompt has its own yield, and the steps of all prompts are added up. Both the
time and the yield are then drawn to what was measured (``step_cost.through``), so that predictions
join the measurements beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spectap.analysis.advice import step_cost
from spectap.analysis.advice.acceptance import chain, step_yield
from spectap.analysis.advice.advice import Line
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.advice.resampling import Draws
from spectap.analysis.advice.step_cost import Shapes


@dataclass(frozen=True)
class Figures:
    """Logarithms of times and tokens, over replicate, load, class and, last, drafts or variant."""

    step_seconds: Array
    step_tokens: Array

    @property
    def token_seconds(self) -> Array:
        """Time per output token."""
        return self.step_seconds - self.step_tokens


@dataclass(frozen=True)
class Requests:
    """What whole requests of a variant had besides their steps, over replicate, load and class."""

    waits: Array
    """Seconds outside of steps: the queue and the first token."""
    tokens: Array
    """After the first chunk: those that steps made."""
    outputs: Array
    """All of them."""

    @staticmethod
    def of(
        parts: Sequence[Mapping[str, Array]], joined: Callable[[Sequence[Array]], Any]
    ) -> Requests:
        """Several of them ``joined``, field by field."""
        return Requests(**{name: joined([part[name] for part in parts]) for name in parts[0]})

    def seconds(self, decoding: Figures) -> Array:
        """The logarithm of a request's time by its output tokens, where it decodes like that."""
        count = len(decoding.step_seconds)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.exp(decoding.token_seconds) * self.tokens[:count]
            return known(np.log((steps + self.waits[:count]) / self.outputs[:count]))


def known(logs: Array) -> Array:
    """With the mean in replicates that drew no round in which there was anything."""
    there = np.isfinite(logs)
    if there.all():
        return logs
    mean = np.where(there, logs, 0).sum(axis=0) / np.maximum(1, there.sum(axis=0))
    return np.where(there, logs, np.where(there.any(axis=0), mean, np.nan))


class Sums:
    """What each variant did in the rounds of each replicate, over replicate, load and class."""

    def __init__(self, observed: Observed, draws: Draws) -> None:
        self.observed, self.draws = observed, draws
        self._chains: dict[tuple[str, int], tuple[Array, Array]] = {}

    @cached_property
    def figures(self) -> Mapping[str, Figures]:
        """As measured, of each variant; NaN where it was not."""
        return {name: self._measured(name) for name in self.observed.sides}

    @cached_property
    def requests(self) -> Mapping[str, Requests]:
        """What requests of each variant had besides their steps."""
        return {
            name: Requests(
                *(self._summed(name, array) for array in (side.waits, side.tokens, side.outputs))
            )
            for name, side in self.observed.sides.items()
        }

    def chains(self, name: str, number: int) -> tuple[Array, Array]:
        """Of a variant on the prompts of a class: steps that reached each draft, and accepted it.

        Over replicate, prompt and position.
        """
        if (name, number) not in self._chains:
            side, members = self.observed.sides[name], self.observed.members(number)
            reached, accepted = (
                np.einsum("br,rpj->bpj", self.draws.weights[name], array[:, members])
                for array in (side.reached, side.accepted)
            )
            self._chains[name, number] = reached, accepted
        return self._chains[name, number]

    def _measured(self, name: str) -> Figures:
        side = self.observed.sides[name]
        steps, seconds, tokens = (
            self._summed(name, array) for array in (side.steps, side.seconds, side.tokens)
        )
        shifts = self.draws.shifts[name][:, np.newaxis, np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            return Figures(np.log(seconds / steps) + shifts, np.log(tokens / steps))

    def _summed(self, name: str, array: Array) -> Array:
        classes = range(len(self.observed.classes))
        by_class = [array[:, :, self.observed.members(number)].sum(axis=-1) for number in classes]
        weights = self.draws.weights[name]
        return np.stack([np.einsum("br,lr->bl", weights, own) for own in by_class], axis=-1)


@dataclass(frozen=True)
class Model:
    """A line, as far as some of its variants tell."""

    observed: Observed
    baseline: str
    variants: Sequence[str]
    most: int
    """The drafts up to which it says something."""
    shapes: Sequence[Shapes]
    """Of each load; how a step's time grows over all classes."""

    @staticmethod
    def of(
        observed: Observed,
        line: Line,
        *,
        pooled: Mapping[str, Array],
        errors: Mapping[str, Array],
        without: str | None = None,
    ) -> Model:
        """From all variants of a line but one.

        ``pooled`` has the mean step of each variant, over loads, in seconds, and
        ``errors`` the standard error of its logarithm.
        """
        variants = [name for _, name in line.variants if name != without]
        most = max(observed.drafts[name] for _, name in line.variants)
        drafts = [observed.drafts[name] for name in variants]
        return Model(
            observed,
            line.baseline,
            variants,
            most,
            [
                step_cost.shapes(
                    pooled[line.baseline][load],
                    drafts,
                    [pooled[name][load] for name in variants],
                    most,
                    errors=[
                        math.hypot(errors[line.baseline][load], errors[name][load])
                        for name in variants
                    ],
                )
                for load in range(len(observed.loads))
            ],
        )

    def predict(self, sums: Sums) -> Figures:
        """At 1 to ``most`` drafts, in the last axis."""
        drafts = [self.observed.drafts[name] for name in self.variants]
        draw_to = step_cost.through([0, *drafts], self.most)
        measured = [sums.figures[name] for name in (self.baseline, *self.variants)]
        curves = self._curves(sums.draws)
        yields = self._yields(sums)
        return Figures(
            _drawn(curves, [one.step_seconds for one in measured], [0, *drafts], draw_to),
            _drawn(yields, [one.step_tokens for one in measured], [0, *drafts], draw_to),
        )

    def _curves(self, draws: Draws) -> Array:
        """Logarithms of a step's time by its shape, over replicate, load, class and drafts."""
        rows = []
        for shapes in self.shapes:
            if np.isnan(draws.shapes).all():
                rows.append(shapes.mean)
            else:
                chosen = np.searchsorted(np.cumsum(shapes.weights)[:-1], draws.shapes)
                rows.append(shapes.logs[chosen])
        return np.stack(rows, axis=1)[:, :, np.newaxis]

    def _yields(self, sums: Sums) -> Array:
        """Logarithms of the tokens of a step by the chain, over the same."""
        found = np.zeros(
            (len(sums.draws), len(self.observed.loads), len(self.observed.classes), self.most + 1)
        )
        for number in range(len(self.observed.classes)):
            members = self.observed.members(number)
            of_step = step_yield(self._chances(sums, number))
            side = self.observed.sides[self.baseline]
            tokens, answers = (
                np.einsum("br,lrp->blp", sums.draws.weights[self.baseline], array[:, :, members])
                for array in (side.tokens, side.answers)
            )
            steps = np.einsum("blp,bpg->blg", tokens, 1 / of_step.tokens)
            steps += np.einsum("blp,bpg->blg", answers, of_step.cut / of_step.tokens)
            with np.errstate(divide="ignore", invalid="ignore"):
                found[:, :, number, 1:] = np.log(tokens.sum(axis=-1)[..., np.newaxis] / steps)
        return found

    def _chances(self, sums: Sums, number: int) -> Array:
        """Of each draft, over replicate, prompt and position."""
        chains = [sums.chains(name, number) for name in self.variants]
        reached, accepted = (
            sum(of_one[..., : self.most] for of_one in one) for one in zip(*chains, strict=True)
        )
        return chain(np.asarray(reached), np.asarray(accepted))


def _drawn(model: Array, measured: Sequence[Array], places: Sequence[int], draw_to: Array) -> Array:
    """The model, drawn to the measured points; without the one at 0 drafts.

    A point that was not measured at a load, or in no round of a replicate, draws like the others.
    """
    off = np.stack(measured, axis=-1) - model[..., places]
    there = np.isfinite(off)
    mean = np.where(there, off, 0).sum(axis=-1) / np.maximum(1, there.sum(axis=-1))
    off = np.where(there, off, mean[..., np.newaxis])
    found: Array = (model + off @ draw_to.T)[..., 1:]
    return found
