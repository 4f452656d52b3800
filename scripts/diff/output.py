"""A difference as text: for a terminal, and as a comment for a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.diff.section import Section
from scripts.diff.stacks import NOTICED

COMMENT_LIMIT = 60_000
"""GitHub takes 65,536 characters; the rest is for what the workflow adds."""


FOLLOWS = "What a deploy does to what runs"
SAID = "What the file says"
MOST_FIELDS = 40
"""Of a comment. A file that was written anew differs in all of them."""


@dataclass(frozen=True)
class Difference:
    """What differs, what follows from it, and how."""

    title: str
    remarks: Sequence[str]
    """On what is compared."""
    words: Sequence[str]
    """What a deploy does to what runs, a sentence each."""
    fields: Sequence[str]
    """Of the experiment files."""
    sections: Sequence[Section]


def plain(found: Difference) -> str:
    """Everything, for a terminal."""
    blocks = ["\n".join([found.title, *found.remarks])]
    for title, lines in ((FOLLOWS, found.words), (SAID, found.fields)):
        if lines:
            blocks.append("\n".join([title, *(f"  {line}" for line in lines)]))
    for section in found.sections:
        heading = f"{section.title}: {section.summary}" if section.summary else section.title
        blocks.append("\n".join(filter(None, [heading, section.text])))
    return "\n\n".join(blocks) + "\n"


def markdown(found: Difference, limit: int) -> str:
    """Everything that fits into ``limit`` characters, for a comment."""
    sections = found.sections
    rows = [f"### {found.title}", "", *(f"{remark}  " for remark in found.remarks), ""]
    if found.words:
        rows += [f"**{FOLLOWS}**", "", *(f"- {words}" for words in found.words), ""]
    if found.fields:
        rows += [f"**{SAID}**", "", *(f"- `{field}`" for field in _cut(found.fields)), ""]
    rows += ["| Stack | Added | Changed | Removed | |", "| --- | ---: | ---: | ---: | --- |"]
    rows += [
        f"| {section.title} | {section.added or ''} | {section.changed or ''}"
        f" | {section.removed or ''} | {section.summary} |"
        for section in sections
    ]
    for note in dict.fromkeys(NOTICED.values()):
        if stacks := [section.title for section in sections if note in section.notes]:
            rows += ["", f"> :warning: **{note}** in {', '.join(stacks)}"]
    differing = [section for section in sections if section.text]
    frame = "\n<details><summary>{}</summary>\n\n{}\n{}\n{}\n{}\n\n</details>\n"
    cut = "Cut to fit here; `make diff` and the log of the workflow have all of it."
    # The shortest first: what one does not need of its share is there for the longer ones.
    left = limit - len("\n".join(rows)) - len(differing) * (len(frame) + len(cut) + 200)
    texts: dict[str, tuple[str, bool]] = {}
    for count, section in enumerate(sorted(differing, key=lambda each: len(each.text))):
        share = max(left // (len(differing) - count), 0)
        whole = len(section.text) <= share
        text = section.text if whole else section.text[:share].rpartition("\n")[0]
        texts[section.title] = text, whole
        left -= len(text)
    for section in differing:
        text, whole = texts[section.title]
        fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
        rows.append(
            frame.format(section.title, f"{fence}diff", text, fence, "" if whole else f"\n{cut}")
        )
    return "\n".join(rows) + "\n"


def _cut(fields: Sequence[str]) -> Sequence[str]:
    """The first of them, each on one line of moderate length."""
    shown = [field if len(field) <= 200 else f"{field[:200]}..." for field in fields[:MOST_FIELDS]]
    left = len(fields) - len(shown)
    return [*shown, f"and {left} more"] if left else shown
