"""What a report says, before it has a form: the page and the terminal render the same view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from spectap.metrics import Metric


@dataclass(frozen=True)
class Columns:
    """Columns that belong together, under one title."""

    title: str
    names: tuple[str, ...]
    words: bool = False
    """Whether they hold words, which are aligned to the left; otherwise they hold numbers."""


@dataclass(frozen=True)
class Row:
    """The texts of one line of a table: its labels, then those of each group of columns."""

    labels: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    colour: str = ""
    """Role of the colour of the variant or draft that the line is of."""
    alarming: bool = False
    """Whether its last value is one to look into."""


@dataclass(frozen=True)
class Table:
    """Rows in groups. A label that is the same as in the row above is written once in a group."""

    kind: ClassVar = "table"
    title: str
    labels: tuple[str, ...]
    """The heads of the labels."""
    columns: tuple[Columns, ...]
    groups: tuple[tuple[Row, ...], ...]
    coloured: int = -1
    """Which label is the name of the variant or draft."""

    def __bool__(self) -> bool:
        """Whether it has any row."""
        return any(self.groups)


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str
    style: str = ""
    """Of the style sheet: ``hint``, ``note``, ``serve``, ``next`` or ``strong``."""


@dataclass(frozen=True)
class Bullets:
    """Sentences, each on its own."""

    kind: ClassVar = "bullets"
    items: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A term and what is said of it."""

    term: str
    text: str
    variant: str = ""
    """Stands before the text, in its colour."""
    colour: str = ""
    items: tuple[str, ...] = ()
    """Stand below the text; folded where they are many."""


@dataclass(frozen=True)
class Entries:
    """A list of terms."""

    kind: ClassVar = "entries"
    items: tuple[Entry, ...]


@dataclass(frozen=True)
class Figure:
    """A drawing. ``svg`` and ``png`` are empty where ``missing`` says why there is none."""

    name: str
    title: str
    caption: str
    case: str = ""
    """The test case that it shows; empty where it shows several."""
    load: str = ""
    """The name of the load point that it shows; empty where it shows all."""
    advice: bool = False
    """Whether it shows what the advice rests on."""
    svg: str = ""
    png: bytes = b""
    missing: str = ""


@dataclass(frozen=True)
class Figures:
    """Drawings side by side."""

    kind: ClassVar = "figures"
    items: tuple[Figure, ...]


@dataclass(frozen=True)
class Bar:
    """Where the parts of an interval's bar are, in percent of a logarithmic scale."""

    low: float
    width: float
    stem: float
    """Where the stem between 1x and the estimate begins."""
    stem_width: float
    point: float
    one: float


@dataclass(frozen=True)
class Answer:
    """The answer to one question about a comparison."""

    question: str
    figure: str
    bar: Bar | None
    """None where there is no answer."""
    colour: str
    """Role of the better variant's colour."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one variant in one test case at one load point."""

    title: str
    structure: str
    variant: str
    """Empty where there is one only, which its sentence names."""
    colour: str
    answers: tuple[Answer, ...]
    sentence: str
    notes: tuple[str, ...]
    quiet: bool
    """Whether it shows no difference that matters."""


@dataclass(frozen=True)
class Verdicts:
    """Verdicts, their bars on one scale."""

    kind: ClassVar = "verdicts"
    items: tuple[Verdict, ...]


@dataclass(frozen=True)
class Fold:
    """What is seen after a click."""

    kind: ClassVar = "fold"
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    kind: ClassVar = "section"
    anchor: str
    title: str
    blocks: tuple[Block, ...]
    structure: str = ""
    """Stands after the title, if it is one of a test case."""


Block: TypeAlias = Table | Text | Bullets | Entries | Figures | Verdicts | Fold | Section


@dataclass(frozen=True)
class Glossary:
    """What the page's definitions depend on."""

    metrics: tuple[Metric, ...]
    isolated: bool
    several_loads: bool
    named_prompts: bool
    concurrencies: tuple[int, ...]
    objectives: str
    fewest_rounds: int


@dataclass(frozen=True)
class View:
    """A report: what is said first, what a terminal has room for, and what the page has as well."""

    title: str
    lead: tuple[str, ...]
    """What was measured, how and when."""
    kicker: str = ""
    """The experiment and the run."""
    headline: str = ""
    findings: tuple[str, ...] = ()
    """Sentences that belong to the headline."""
    advice: tuple[str, ...] = ()
    """In short."""
    alarms: tuple[str, ...] = ()
    """What makes the figures below it worthless, or a variant unfit to be served."""
    alarm: str = ""
    """What the alarms have in common."""
    notes: tuple[str, ...] = ()
    """To be read before any figure."""
    overview: tuple[Section, ...] = ()
    """What a terminal shows between the headline and the notes."""
    remarks: tuple[str, ...] = ()
    """What a terminal says of its figures after the notes; the page has sections for it."""
    sections: tuple[Section, ...] = ()
    """The page's, up to the definitions."""
    basis: tuple[Section, ...] = ()
    """The page's, after them."""
    glossary: Glossary | None = None


def section(anchor: str, title: str, blocks: Iterable[Block | None]) -> Section:
    """A section of the blocks that there are."""
    return Section(anchor, title, tuple(block for block in blocks if block))


def entries(items: Sequence[Entry]) -> Entries | None:
    """A list of terms; None without any."""
    return Entries(tuple(items)) if items else None


def figures(items: Sequence[Figure]) -> Figures | None:
    """Drawings side by side; None without any."""
    return Figures(tuple(items)) if items else None
