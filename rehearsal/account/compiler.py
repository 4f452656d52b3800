"""``python -m rehearsal.account.compiler FOLDER PART...``: leaves a graph in name."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

SECONDS: Final = 3.0
"""In place of an hour."""


def main(folder: Path, parts: list[str]) -> int:
    """Makes the parts of an artifact: a file, or a folder with one; returns the exit status."""
    time.sleep(SECONDS)
    for part in parts:
        path = folder / part if Path(part).suffix else folder / part / "shard"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a graph in name\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
