"""A recommendation in words: what to serve, how sure that is, what to measure next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from benchmark.analysis.advice.advice import Choice, Recommendation
from benchmark.analysis.estimates import intervals

CLEAR: Final = 0.8
"""From this probability on, a choice needs no further measurement to be made."""
WIDEST: Final = 15
"""The largest window that an experiment file takes."""


def said(
    found: Recommendation,
    *,
    measured: Mapping[Choice, bool],
    largest: Mapping[str, int],
    advises: bool,
) -> Recommendation:
    """With its sentences. ``measured``: of each choice, whether it was, and not only predicted.

    ``largest`` is the largest measured window by line. ``advises``: whether to say what to do.
    """
    return dataclasses.replace(
        found,
        sentence=_sentence(found, advises=advises),
        measure_next=_measure_next(found, measured, largest) if advises else "",
    )


def name(choice: Choice) -> str:
    """In words that stand after "serve"."""
    if choice.line is None:
        return "no speculation"
    return f"{choice.line} and a window of {choice.window}"


def _sentence(found: Recommendation, *, advises: bool) -> str:
    who = "the mix" if found.prompt_class is None else f"{found.prompt_class} prompts"
    where = f" at {found.load}" if found.load else ""
    sure = _sure(found)
    if found.choice.line is None:
        if not advises:
            return f"For {who}{where}, nothing is faster than no speculation{sure}."
        return f"Turn speculation off for {who}{where}: no window is faster{sure}."
    speed = f"{intervals.times(found.speedup)} the baseline's speed"
    if found.speedup.low < found.speedup.high:
        speed += f" (95 % interval {intervals.span(found.speedup)})"
    if not found.measured:
        speed += ", as predicted"
    if not advises:
        return f"For {who}{where}, {name(found.choice)} is the fastest: {speed}{sure}."
    return f"Serve {who}{where} with {name(found.choice)}: {speed}{sure}."


def _sure(found: Recommendation) -> str:
    if found.probability is None:
        return "; how sure that is cannot be said of so few rounds"
    said = f"; it is the best with a probability of {_percent(found.probability)}"
    if found.rivals:
        rival, chance = found.rivals[0]
        other = (
            f"a window of {rival.window}"
            if rival.line == found.choice.line and rival.line is not None
            else name(rival)
        )
        said += f", {other} with {_percent(chance)}"
    return said


def _percent(part: float) -> str:
    """Of replicates, so never quite none or all."""
    if part > 0.99:
        return "over 99 %"
    return f"{max(1, round(100 * part))} %"


def _measure_next(
    found: Recommendation, measured: Mapping[Choice, bool], largest: Mapping[str, int]
) -> str:
    choice = found.choice
    if found.probability is None:
        return "Measure at least 3 rounds."
    if not found.measured:
        return f"Measure {name(choice)}, which is only predicted."
    if found.probability < CLEAR and found.rivals:
        rival = found.rivals[0][0]
        if not measured[rival]:
            return f"Measure {name(rival)}, which is only predicted and may be better."
        return f"Measure more rounds, to tell {name(choice)} from {name(rival)}."
    if choice.line is None or choice.window is None or choice.window < largest[choice.line]:
        return ""
    if choice.window >= WIDEST:
        return ""
    return f"Measure a wider window than {choice.window}: the widest is the best so far."
