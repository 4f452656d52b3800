"""Compares speculative LLM servers: ``spectap --help``.

Other programs may import the modules in ``PUBLIC``. The rest may change without notice.
"""

from typing import Final

__version__: Final = "0.1.0"

PUBLIC: Final = frozenset(
    (
        *("errors", "golden", "golden.schedule", "inputs.config", "inputs.load_points"),
        *("inputs.prompt", "inputs.published", "load.sets", "metrics", "names", "protocol.text"),
        *("report.palette", "report.terminal", "wording"),
    )
)
