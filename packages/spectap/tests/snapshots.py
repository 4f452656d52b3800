"""How snapshots are written, so that a person can review what changes: short lines."""

import textwrap

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

WIDTH = 120


class TextSnapshot(SingleFileSnapshotExtension):
    """One file of text a snapshot."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


def folded(text: str) -> str:
    """``text`` with each longer line on several."""
    return "\n".join(
        line if len(line) <= WIDTH else textwrap.fill(line, WIDTH, subsequent_indent="    ")
        for line in text.split("\n")
    )
