"""What a report says where the variants were jobs of inference_demo: there was no server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from spectap.config import Config
from spectap.report import inference_demo
from spectap.report.view import Columns, Entries, Entry, Row, Section, Table, Text, section

if TYPE_CHECKING:
    from spectap.report.results import Results

HOW: Final = "one prompt at a time"
DRIVER: Final = "jobs of inference_demo"

SOURCES: Final = (
    (
        "Time to first token",
        "The call of the context encoding model for one prompt, from its start to its end. Of "
        "vanilla it is the target's; the draft's own prefill is in the first step.",
    ),
    (
        "Time of a step, tokens a step",
        "Each call of the generation model: when it ended, and the first position that it was "
        "given. From one call to the next that position moves on by the tokens of the step.",
    ),
    (
        "Time per output token, end-to-end latency",
        "The two above, added up. Reading the prompt and the chat template come before the first "
        "call, and are in no figure.",
    ),
    (
        "Drafts accepted, by position",
        "The tokens of a step, less the one that the target makes itself.",
    ),
    (
        "Tokens a second, cost",
        "The tokens of the answers by their end-to-end latencies. What passes between two prompts "
        "is in neither.",
    ),
)
"""Figures, and what of NxDI they are observed in: hooks on the calls that its own loops make
(neuronx-distributed-inference v0.6.10598, ``utils/hf_adapter.py``)."""


def notes(config: Config) -> Iterator[str]:
    """What to know of a run of jobs before reading it."""
    if not config.offline:
        return
    modes = {variant.mode for variant in config.variants}
    but = " but those of inference_demo's own report" if "vanilla" in modes else ""
    yield (
        f"No server and no tap were there. All figures{but} are observed in NxDI's own calls, on "
        f"this experiment's prompts, {HOW}: compare them with each other, and with no service's."
    )
    if "vanilla" in modes:
        yield (
            "vanilla: the first step of each answer verifies its drafts one position too far, so "
            "as a rule it yields one token. That is how NxDI does it, and it is in the figures."
        )
    if "medusa" in modes:
        yield (
            "medusa: NxDI does not keep what it accepted in its place in the cache, so that later "
            "steps can attend to rejected drafts. Its answers, and what is accepted, can differ "
            "from what the same heads would do without that. NxDI also lays out the weights of its "
            "baseline's steps for speed, and not those of Medusa's."
        )


def sections(run: Results) -> Iterator[Section]:
    """Where the figures of jobs come from, and what inference_demo itself reports."""
    if run.config.offline:
        text = "All of them are observed in NxDI's own calls, on this experiment's prompts."
        entries = Entries(tuple(Entry(*source) for source in SOURCES))
        yield section("sources", "Where the figures come from", [Text(text), entries])
    if run.demos:
        *latencies, throughput = inference_demo.COLUMNS
        rows = tuple(
            Row((variant, part), (tuple(texts[:-1]), (texts[-1],)))
            for variant, part, texts in inference_demo.rows(run.demos)
        )
        columns = Columns("latency, ms", tuple(latencies)), Columns("tokens/s", (throughput,))
        table = Table("", ("variant", "timed"), columns, (rows,), coloured=0)
        title = "inference_demo's own report, as published"
        yield section("demo", title, [Text(inference_demo.COUNTS), table])


def in_short(run: Results) -> Iterator[str]:
    """What a terminal says of inference_demo's own report."""
    if run.demos:
        yield from inference_demo.in_short(run.demos)
        yield inference_demo.COUNTS
