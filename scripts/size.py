"""``make size``: how much there is of it, beside the bars of docs/contributing.md.

Counts what git tracks: lines of Python, blank ones and comments included, and words of Markdown.
docs/reference.md is left out: ``make reference`` writes it, and nobody reads it from end to end.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
GENERATED: Final = Path("docs/reference.md")
BARS: Final = {
    "product, lines": 32_000,
    "product, modules": 240,
    "tests, lines": 24_000,
    "prose, words": 22_000,
    "README, words": 1_500,
}


def main() -> None:
    """Prints each count beside its bar, and the rooms of the product, largest first."""
    files = _tracked("*.py", "*.md")
    python = [path for path in files if path.suffix == ".py"]
    product = [path for path in python if path.parts[0] != "tests"]
    tests = [path for path in python if path.parts[0] == "tests"]
    prose = [path for path in files if path.suffix == ".md" and path != GENERATED]
    counts = {
        "product, lines": sum(map(_lines, product)),
        "product, modules": len(product),
        "tests, lines": sum(map(_lines, tests)),
        "prose, words": sum(map(_words, prose)),
        "README, words": _words(Path("README.md")),
    }
    print(f"{'':18} {'now':>8} {'bar':>8}")
    for name, bar in BARS.items():
        over = f"  {counts[name] - bar:+,}" if counts[name] > bar else ""
        print(f"{name:18} {counts[name]:8,} {bar:8,}{over}")
    print()
    rooms = _by_room(product)
    for room, lines in rooms.most_common():
        print(f"{room:18} {lines:8,}")


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Path(name) for name in listed.stdout.split("\0") if name]


def _by_room(paths: Iterable[Path]) -> Counter[str]:
    rooms: Counter[str] = Counter()
    for path in paths:
        rooms[path.parts[0]] += _lines(path)
    return rooms


def _lines(path: Path) -> int:
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


def _words(path: Path) -> int:
    return len((ROOT / path).read_text(encoding="utf-8").split())


if __name__ == "__main__":
    main()
