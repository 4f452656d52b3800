"""What a matched baseline explains.

A runtime may turn something off where a variant speculates, such as async scheduling. The baseline
that decides is served with it, as one would serve it. A matched one, where there were devices for
it, is served without it, too: what a variant gains over that is by speculation alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from spectap.analysis.compared import verdict
from spectap.analysis.compared.claims import Question
from spectap.analysis.compared.overall import overall
from spectap.analysis.estimates import intervals
from spectap.analysis.evidence import Evidence
from spectap.analysis.keys import CellKey
from spectap.config import Config, Variant


def notes(config: Config, evidence: Evidence) -> Iterator[str]:
    """On each variant that is served without something that its baseline has."""
    by_name = {variant.name: variant for variant in config.variants}
    for variant in config.variants:
        baseline = by_name.get(variant.baseline or "")
        if baseline is None or variant.without in (None, baseline.without):
            continue
        yield (
            f"{variant.name} is served without {variant.without}, which speculation turns off, and "
            f"{baseline.name} with it, as one would serve it. "
            + _explanation(config, evidence, variant, baseline)
        )


def _explanation(config: Config, evidence: Evidence, variant: Variant, baseline: Variant) -> str:
    alike = (variant.without, variant.batch)
    matched = next(
        (v for v in config.variants if v.baseline is None and (v.without, v.batch) == alike), None
    )
    if matched is None:
        return (
            "What that costs was not measured, because no devices were left for a baseline "
            "without it."
        )
    ratios = [
        f"{explaining} as fast as {matched.name} and {deciding} as fast as {baseline.name} "
        f"at {point}"
        for point in config.load.points
        if (explaining := _times(evidence, point.name, variant, matched))
        and (deciding := _times(evidence, point.name, variant, baseline))
    ]
    measured = f" Over all test cases {variant.name} is {'; '.join(ratios)}." if ratios else ""
    return f"{matched.name} is served without it, too, and decides nothing.{measured}"


def _times(evidence: Evidence, load: str, variant: Variant, baseline: Variant) -> str:
    """The speed-up over all test cases, e.g. ``1.8x (1.7-1.9)``; empty where there is none."""
    plan, cells, records = evidence.plan, evidence.cells, evidence.by_cell
    keys = [CellKey(case, load, variant.name) for case in plan.cases]
    sides = {
        key.case: (records[key], records[key.of(baseline.name)])
        for key in keys
        if key in evidence.contrasts
        and not verdict.obstacle(cells[key], cells[key.of(baseline.name)], fixed=plan.fixed)
    }
    estimate = overall(sides).get(Question.SPEED) if sides else None
    if estimate is None:
        return ""
    interval = estimate.interval(plan.alpha)
    return f"{intervals.times(interval)} ({intervals.span(interval)})"
