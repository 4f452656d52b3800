"""``measure NAME=URL ...``: measures endpoints that you already have, without AWS.

The first endpoint is the baseline that the others are compared with. Table, report and ledger are
written to results/RUN_ID. The environment may set RUN_ID (the same name continues the same run),
RESULTS_DIR (in place of results), OPENAI_API_KEY (sent to the endpoints), and LLMPERF_HOME and
LLMPERF_PYTHON (llmperf then makes the load in place of the built-in driver).
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmark import wording
from benchmark.commands import execution, measured
from benchmark.endpoint import health
from benchmark.errors import ConfigError, EndpointError
from benchmark.names import LEDGER
from benchmark.printing import print
from benchmark.run.patience import Patience

options = measured.options


def main(arguments: argparse.Namespace) -> int:
    """Measures; returns the exit status. Raises ConfigError, EndpointError and RunError."""
    endpoints: dict[str, str] = dict(arguments.endpoints)
    if len(endpoints) < len(arguments.endpoints):
        raise ConfigError("NAME=URL: each endpoint needs a name of its own")
    measured.check(arguments)
    asked = measured.asked(arguments)
    folder = execution.run_folder("results")
    try:
        model = asyncio.run(_model(endpoints, arguments.model, arguments.wait))
    except KeyboardInterrupt:
        print("benchmark: ended by SIGINT; nothing was measured", file=sys.stderr)
        return 128 + signal.SIGINT
    config = measured.config(arguments, endpoints, model, asked)
    patience = Patience(start=arguments.wait, recovery=arguments.wait)
    files = arguments.prompts.parent if arguments.prompts else Path()
    status = execution.execute(config, folder, patience, files=files)
    if status > 128:
        print(f"benchmark: the same command with RUN_ID={folder.name} continues this run")
    else:
        print(f"ledger: {folder / LEDGER}")
    return status


async def _model(endpoints: Mapping[str, str], wanted: str | None, wait: int) -> str:
    """Waits until all endpoints serve; returns the model to ask for. Raises EndpointError."""
    problems = await health.wait(
        endpoints, patience_seconds=wait, say=lambda text: print(text, file=sys.stderr)
    )
    if problems:
        after = f"not serving after {wording.duration(wait)}"
        raise EndpointError("\n".join(f"{after}: {problem}" for problem in problems))
    if wanted is not None:
        await asyncio.gather(*(_check_model(*each, wanted) for each in endpoints.items()))
        return wanted
    served = await asyncio.gather(*(health.models(url) for url in endpoints.values()))
    common = set(served[0]).intersection(*served)
    if len(common) != 1:
        found = "; ".join(
            f"{name}: {', '.join(models)}" for name, models in zip(endpoints, served, strict=True)
        )
        raise EndpointError(
            f"--model is needed, since there is no one model that all endpoints serve: {found}"
        )
    return common.pop()


async def _check_model(variant: str, url: str, wanted: str) -> None:
    """Raises EndpointError if the endpoint lists its models and this is none of them."""
    try:
        models = await health.models(url)
    except EndpointError:
        return
    if wanted not in models:
        raise EndpointError(f"--model = {wanted!r}: {variant} ({url}) serves {', '.join(models)}")
