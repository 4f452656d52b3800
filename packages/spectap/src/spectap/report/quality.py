"""Checks of a run: right answers, the servers' own counts, and the source of prompts."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from spectap import wording
from spectap.analysis.correctness import ENDS, NUMBERS
from spectap.analysis.crosscheck import TOLERANCE, Check, Figure
from spectap.analysis.summary import Correctness, Summary
from spectap.endpoint.counters import Obstacle
from spectap.inputs.prompt import LeftOut, UsedSet
from spectap.names import WARM_UP
from spectap.report import palette, phrases
from spectap.report.results import Results
from spectap.report.view import Columns, Row, Table, grouped

_PLAIN_SERVERS_DIFFER: Final = (
    "That alone accuses nobody: on Neuron two plain servers that differ in KV-cache settings "
    "diverge on most prompts of 128 tokens, while one server twice gives equal answers "
    "(https://github.com/vllm-project/vllm-neuron/blob/5528be7a/examples/vllm_neuron/spec_decode/"
    "dflash_bench/README.md)."
)

_OBSTACLES: Final = {
    Obstacle.PROCESS: "another process showed them after the load than before: a server that "
    "started anew, or replicas behind one URL",
    Obstacle.FELL: "they fell, as where a server starts anew or replicas behind one URL take turns",
    Obstacle.NUMBER: "they have values that are not counts",
    Obstacle.OTHERS: "they count more or fewer answers: another client's, or another process's",
}


def sentence(check: Correctness) -> str:
    """A check in words: ``SD's programs are valid in 90 % (80-95) of 60 prompts, ...``."""
    if not check.prompts:
        return (
            f"None of {check.variant}'s {check.check} could be compared with "
            f"{check.baseline}'s.{_not_checked(check)}"
        )
    right = f"{check.check} are {'right' if check.check == NUMBERS else 'valid'}"
    if check.check == ENDS:
        right = "answers end by themselves"
    low, high = map(wording.points, check.difference_interval)
    outcome = f"No fall was found{' in the others' if any(check.left_out) else ''}."
    if check.worse:
        outcome = (
            f"Speculation changes answers: {check.lost:,} prompts got worse, {check.won:,} better. "
            f"First of them: {', '.join(check.only_baseline)}."
        )
    elif check.blind:
        outcome = f"{check.baseline} passes too seldom to find any fall."
    return (
        f"{check.variant}'s {right} in {wording.share(check.rate, check.rate_interval)} of "
        f"{check.prompts:,} prompts, {check.baseline}'s in "
        f"{wording.share(check.baseline_rate, check.baseline_interval)}: "
        f"{wording.points(check.difference)} percentage points (95 % interval {low} to {high})."
        f"{_not_checked(check)} {outcome}"
    )


def _not_checked(check: Correctness) -> str:
    if not any(check.left_out):
        return ""
    sides = zip(check.left_out, (check.variant, check.baseline), strict=True)
    of_each = " and ".join(f"{count:,} of {name}'s" for count, name in sides)
    return f" Left out, as cut off or beyond what can be checked: {of_each} answers."


def correctness(summary: Summary) -> Table:
    """Every check that could be made, in percent and percentage points with 95 % intervals."""
    colours = palette.of(summary.variants)
    rows = []
    for check in (check for check in summary.correctness if check.prompts):
        # Of the others the sentence says why there is nothing to show.
        labels = (check.test_case, check.check, check.variant)
        rates = (
            wording.share(check.baseline_rate, check.baseline_interval),
            wording.share(check.rate, check.rate_interval),
        )
        low, high = map(wording.points, check.difference_interval)
        values = (
            (f"{check.prompts:,}",),
            rates,
            (f"{wording.points(check.difference)} ({low} to {high})",),
        )
        rows.append(Row(labels, values, colours[check.variant].role, alarming=check.worse))
    return Table(
        "",
        ("test case", "checked", "variant"),
        (
            Columns("", ("prompts",)),
            Columns("right, 95 % interval", ("baseline", "variant")),
            Columns("difference", ("percentage points",)),
        ),
        (tuple(rows),),
    )


def crosscheck(run: Results) -> Table:
    """A table of the counts of ledger and server, and their differences."""
    order = [(case.name, cell.variant) for case in run.summary.cases for cell in case.cells]
    checks = sorted(run.checks, key=lambda check: order.index((check.case, check.variant)))
    colours, several = palette.of(run.summary.variants), len(run.config.load.points) > 1

    def row(check: Check, figure: Figure) -> Row:
        cut = f" to {figure.ledger + figure.cut:,.0f}" if figure.cut else ""
        values = f"{figure.ledger:,.0f}{cut}", f"{figure.server:,.0f}", f"{figure.disagreement:.2%}"
        load = [phrases.short_load(run.config.load.point(check.load))] * several
        labels = (check.case, *load, check.variant, figure.name)
        role = colours[check.variant].role
        return Row(labels, (values,), role, alarming=not figure.agrees)

    return Table(
        "",
        ("test case", *(["load"] * several), "variant", "counted"),
        (Columns("", ("ledger", "server", "apart")),),
        grouped((check.case, row(check, figure)) for check in checks for figure in check.figures),
        coloured=1 + several,
    )


def self_check_sentences(run: Results) -> Iterator[str]:
    """A sentence on the cross-check, and one on greedy answers, where they were made."""
    if figures := [figure for check in run.checks for figure in check.figures]:
        agreeing = sum(figure.agrees for figure in figures)
        yield (
            f"Cross-check with the servers' own counters: {agreeing} of {len(figures)} figures "
            f"agree within {100 * TOLERANCE:g} %."
        )
    left_out = Counter((c.variant, obstacle) for c in run.checks for obstacle in c.obstacles)
    for (variant, obstacle), loads in left_out.items():
        yield (
            f"{variant}'s own counters are not comparable in {wording.count(loads, 'load')}, "
            f"because {_OBSTACLES[obstacle]}."
        )
    yield from greedy_answers(run)


def greedy_answers(run: Results) -> Iterator[str]:
    """The number of greedy answers that differ from the baseline's, and where they begin to."""
    if run.divergences:
        differing = [
            f"{divergence.case}, {divergence.variant}: at {divergence.unit} {divergence.first}"
            for divergence in run.divergences
            if divergence.first is not None
        ]
        amount = f"{len(differing)} of {wording.count(len(run.divergences), 'comparison')}"
        suffix = f" ({'; '.join(differing)})" if differing else ""
        yield f"Greedy answers differ in {amount}{suffix}."
        plain = {v.name for v in run.config.variants if v.baseline is None}
        matched = sorted({d.variant for d in run.divergences} & plain)
        if differing and matched:
            yield (
                f"{wording.listed(matched)} decodes plainly too: what differs there is not by "
                "speculation."
            )
        elif differing:
            yield _PLAIN_SERVERS_DIFFER


def prompt_set(used: UsedSet, run: Results) -> str:
    """A set's source and licence, and how many prompts were sent and left out."""
    licence = f", {used.licence}" if used.licence else ""
    # Rounds with few requests do not come to the end of a large set.
    sent = {
        record.prompt
        for record in run.records
        if record.case == used.case and record.round > WARM_UP and record.prompt
    }
    doubt = "" if used.counted else " Some could not be counted, and may be too long."
    return (
        f"{wording.count(used.used, 'prompt')} of {used.source}{licence}: {len(sent):,} sent, "
        f"{len(used.left_out):,} left out as too long or refused by a service.{doubt}"
    )


def left_out(prompt: LeftOut) -> str:
    if prompt.reason:
        return f"{prompt.name} (refused: {prompt.reason})"
    return f"{prompt.name} ({prompt.tokens:,} tokens with its answer, {prompt.most:,} fit)"
