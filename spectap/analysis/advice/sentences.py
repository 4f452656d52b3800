"""A recommendation in words: what to serve, how sure that is, what to measure next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from spectap import wording
from spectap.analysis.advice.advice import Choice, Recommendation
from spectap.analysis.estimates import intervals

CLEAR: Final = 0.8
"""From this probability on, a choice is told as advice, and needs no further measurement."""
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

    ``largest`` is the largest measured window by line, of those that can be wider. ``advises``:
    whether to say what to do.
    """
    return dataclasses.replace(
        found,
        sentence=_sentence(found, measured, advises=advises),
        measure_next=_measure_next(found, measured, largest) if advises else "",
    )


def name(choice: Choice) -> str:
    """``Qwen3-1.7B with a window of 7``, or that nothing speculates."""
    if choice.line is None:
        return "no speculation"
    return f"{choice.line} with a window of {choice.window}"


def wider(choice: Choice, largest: Mapping[str, int]) -> str:
    """To go on where the widest window is the best; empty where it is not, or is as wide as can be.

    ``largest`` is the largest measured window by line, of those that can be wider.
    """
    if choice.line is None or choice.window is None:
        return ""
    if choice.window != largest.get(choice.line) or choice.window >= WIDEST:
        return ""
    return (
        f"Measure {choice.line} with a window wider than {choice.window}: the widest one is the "
        "best so far."
    )


def _sentence(found: Recommendation, measured: Mapping[Choice, bool], *, advises: bool) -> str:
    who = "the mix" if found.prompt_class is None else f"{found.prompt_class} prompts"
    where = f"{who} at {found.load}" if found.load else who
    clear = found.probability >= CLEAR
    sure = _chance(found, measured) if clear else _doubt(found)
    before = f"Of {_windows(found.choice, measured)}" if advises else "Of what stood in"
    if found.choice.line is None:
        if clear and advises:
            return f"Turn speculation off for {where}: no window is faster; {sure}."
        return f"{before}, nothing looks faster than no speculation for {where}; {sure}."
    if clear and advises:
        what = f"{found.choice.line} and a window of {found.choice.window}"
        return f"Serve {where} with {what}: {_speed(found)}; {sure}."
    return f"{before}, {name(found.choice)} looks fastest for {where}: {_speed(found)}; {sure}."


def _windows(choice: Choice, measured: Mapping[Choice, bool]) -> str:
    """Those that were considered: of the choice's line, or of all."""
    found = [
        one.window for one in measured if one.window is not None and choice.line in (None, one.line)
    ]
    if len(set(found)) < 2:
        return "what was measured"
    return f"the windows {min(found)} to {max(found)}"


def _speed(found: Recommendation) -> str:
    if found.speedup.low < found.speedup.high:
        speed = f"{intervals.times(found.speedup)} the baseline's speed"
        speed += f" (95 % interval {intervals.span(found.speedup)})"
    else:
        speed = f"{found.speedup.point:.2f}x the baseline's speed"
    return speed if found.measured else f"{speed}, as predicted"


def _chance(found: Recommendation, measured: Mapping[Choice, bool]) -> str:
    return (
        f"of {_windows(found.choice, measured)}, it is the best with a probability of "
        f"{_percent(found.probability)}"
    )


def _doubt(found: Recommendation) -> str:
    """Why this is no advice yet."""
    if not found.rivals:
        return "many others may be better"
    listed = wording.listed([_rival(found.choice, rival) for rival, _ in found.rivals])
    return f"it cannot be told apart from {listed}"


def _rival(choice: Choice, rival: Choice) -> str:
    if rival.line is not None and rival.line == choice.line:
        return f"a window of {rival.window}"
    return name(rival)


def _percent(part: float) -> str:
    """Of replicates, so never quite none or all."""
    if part > 0.99:
        return "over 99 %"
    return f"{max(1, round(100 * part))} %"


def _measure_next(
    found: Recommendation, measured: Mapping[Choice, bool], largest: Mapping[str, int]
) -> str:
    choice = found.choice
    unclear = found.probability < CLEAR and found.rivals
    rival = found.rivals[0][0] if unclear else None
    if not found.measured:
        if rival is None:
            return f"Measure {name(choice)}: so far it is only predicted."
        if measured[rival]:
            return (
                f"Measure {name(choice)}: so far it is only predicted, and it cannot be told apart "
                f"from {name(rival)}."
            )
        both = sorted((choice, rival), key=lambda one: (one.line or "", one.window or 0))
        listed = wording.listed([*map(name, both)])
        return f"Measure {listed}: so far both are only predicted."
    if rival is None:
        return wider(choice, largest)
    if not measured[rival]:
        return (
            f"Measure {name(rival)}: so far it is only predicted, and it may be better than "
            f"{name(choice)}."
        )
    return f"Measure more rounds: {name(choice)} and {name(rival)} cannot be told apart yet."
