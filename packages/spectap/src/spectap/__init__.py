"""Compares speculative LLM servers: ``spectap --help``.

Other programs may import the modules in ``PUBLIC``. The rest may change without notice.
"""

from typing import Final

__version__: Final = "0.1.0"

PUBLIC: Final = frozenset(
    (
        *("config", "errors", "golden", "golden.schedule", "load.sets", "load_points", "metrics"),
        *("names", "palette", "prompt", "published", "report.terminal", "text"),
        "wording",
    )
)
