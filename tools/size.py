"""``make size``: lines of Python and words of Markdown that git tracks, beside their bars."""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
GENERATED: Final = Path("docs/reference.md")  # nobody reads it from end to end
BARS: Final = {
    "product, lines": 31_500,
    "product, modules": 220,
    "tests, lines": 24_500,
    "prose, words": 21_000,
    "README, words": 1_500,
    "top level, entries": 22,
}


def main() -> None:
    """Prints each count beside its bar, and the rooms of the product, largest first."""
    counts, rooms = Counter[str](), Counter[str]()
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    paths = [*map(Path, listed.stdout.splitlines())]
    entries = {path.parts[0] for path in paths}
    counts["top level, entries"] = sum(not name.startswith(".") for name in entries)
    for path in paths:
        if path.suffix not in (".py", ".md"):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        lines, words = len(text.splitlines()), len(text.split())
        if path.suffix == ".md" and path != GENERATED:
            counts["prose, words"] += words
            counts["README, words"] += words if path == Path("README.md") else 0
        elif "benchmarks" in path.parts:
            counts["benchmarks, lines"] += lines
        elif "tests" in path.parts:
            counts["tests, lines"] += lines
        elif path.suffix == ".py":
            counts["product, lines"] += lines
            counts["product, modules"] += 1
            rooms[path.parts[path.parts[0] == "packages"]] += lines
    print(f"{'':18} {'now':>8} {'bar':>8}")
    for name, bar in BARS.items():
        over = f"  {counts[name] - bar:+,}" if counts[name] > bar else ""
        print(f"{name:18} {counts[name]:8,} {bar:8,}{over}")
    print()
    for room, lines in rooms.most_common():
        print(f"{room:18} {lines:8,}")


if __name__ == "__main__":
    main()
