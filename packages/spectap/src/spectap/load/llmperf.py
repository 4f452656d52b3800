"""Calls llmperf, unchanged: its command line, and its text for a test case.

Everything here follows ray-project/llmperf @f1d6bed, ``token_benchmark_ray.py`` and
``src/llmperf/utils.py``. It ends by itself. So where one variant is faster, the slower one runs
partly alone; and where variants slow each other, the last requests of the slower one are too fast.
"""

import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spectap.inputs.load_points import Load, LoadPoint

SCRIPT: Final = "token_benchmark_ray.py"

# As in the published sample: more lines than any prompt takes.
_COPIES: Final = 500


@dataclass(frozen=True)
class Installation:
    """An installation of llmperf."""

    python: str
    """The Python that has its dependencies."""
    home: Path
    """A checkout of llmperf."""

    def private_copy(self, folder: Path, line: str | None) -> list[str]:
        """Copies llmperf into ``folder`` with ``line`` as its text; returns the command.

        llmperf reads its text from a file beside its modules. None leaves its sonnets there.
        """
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.home / "src" / "llmperf", folder / "llmperf")
        shutil.copy(self.home / SCRIPT, folder)
        if line is not None:
            text = folder / "llmperf" / "sonnet.txt"
            text.write_text((line.rstrip("\n") + "\n") * _COPIES, encoding="utf-8")
        return [self.python, str(folder / SCRIPT)]

    def environment(self, folder: Path, concurrency: int) -> dict[str, str]:
        """The environment of llmperf's and Ray's processes, without the endpoint."""
        return {
            "PYTHONPATH": str(folder),
            "HF_HUB_OFFLINE": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray starts a worker for each CPU it sees. A pod sees all CPUs of its node: on a large
            # node the workers would need more memory than the pod has.
            "RAY_OVERRIDE_RESOURCES": json.dumps({"CPU": max(2, concurrency)}),
            # Ray listens on the pod's address and asks callers for a token. By default it keeps the
            # token in the home folder, where two that start at once may overwrite each other's.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(),
        }


def find(environment: Mapping[str, str]) -> Installation | None:
    """The installation that ``LLMPERF_HOME`` and ``LLMPERF_PYTHON`` name; None if there is none."""
    home, python = environment.get("LLMPERF_HOME"), environment.get("LLMPERF_PYTHON")
    if not home or not python or not (Path(home) / SCRIPT).is_file():
        return None
    return Installation(python, Path(home))


def arguments(load: Load, point: LoadPoint, *, model: str, results: Path, driver: str) -> list[str]:
    """The arguments of one round. There is no rate: llmperf knows closed loops only."""
    values: dict[str, object | None] = {
        "model": model,
        "mean-input-tokens": load.mean_input_tokens,
        "stddev-input-tokens": load.stddev_input_tokens,
        "mean-output-tokens": load.mean_output_tokens,
        "stddev-output-tokens": load.stddev_output_tokens,
        "num-concurrent-requests": point.concurrency,
        "max-num-completed-requests": point.requests,
        "timeout": load.timeout_seconds,
        "additional-sampling-params": json.dumps(dict(load.sampling)),
        "results-dir": results,
        "llm-api": "openai",
        "metadata": f"driver={driver}",
    }
    options = ((name, value) for name, value in values.items() if value is not None)
    return [word for name, value in options for word in (f"--{name}", str(value))]
