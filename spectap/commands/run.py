"""``run``: measures the variants of a configuration, then stores and publishes the results.

Its input is the environment: BENCHMARK_CONFIG (the configuration file), RESULTS_DIR (takes the
run's folder), RUN_ID (the folder's name; the same name continues the same run), LLMPERF_HOME and
LLMPERF_PYTHON (llmperf, where it is installed), and what the AWS SDK reads.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from spectap import config as configuration
from spectap.commands import execution
from spectap.run.patience import Patience


def options(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: a pod is told what to do by its environment."""


def main(arguments: argparse.Namespace) -> int:
    """Runs; returns the exit status. Raises ConfigError and RunError."""
    path = Path(os.environ.get("BENCHMARK_CONFIG", "/etc/benchmark/config.json"))
    folder = execution.run_folder("/results")
    config = configuration.read(path)
    with execution.prompt_files(config, path.parent) as files:
        return execution.execute(config, folder, Patience(), files=files)
