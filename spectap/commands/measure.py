"""``measure NAME=URL ...``: measures endpoints that you already have, without AWS.

The first endpoint is the baseline that the others are compared with. NAME=URL#MODEL asks one for a
model by another name than the others'. Table, report and ledger are
written to results/RUN_ID. The environment may set RUN_ID (the same name continues the same run),
RESULTS_DIR (in place of results), OPENAI_API_KEY (sent to the endpoints), and LLMPERF_HOME and
LLMPERF_PYTHON (llmperf then makes the load in place of the built-in driver).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from spectap.commands import execution, measured, report
from spectap.commands.measured import Endpoint
from spectap.endpoint import health
from spectap.errors import ConfigError, EndpointError
from spectap.ledger import read_attempts
from spectap.names import LEDGER
from spectap.printing import printable
from spectap.run.patience import Patience

options = measured.options


def main(arguments: argparse.Namespace) -> int:
    """Measures; returns the exit status. Raises ConfigError, EndpointError and RunError."""
    endpoints: list[Endpoint] = arguments.endpoints
    if len({endpoint.name for endpoint in endpoints}) < len(endpoints):
        raise ConfigError("NAME=URL: each endpoint needs a name of its own")
    measured.check(arguments)
    asked = measured.asked(arguments)
    folder = execution.run_folder("results")
    try:
        models = asyncio.run(_models(endpoints, arguments.model, arguments.wait))
    except KeyboardInterrupt:
        print("spectap: ended by SIGINT; nothing was measured", file=sys.stderr)
        return 128 + signal.SIGINT
    config = measured.config(arguments, models, asked)
    patience = Patience(start=arguments.wait, recovery=arguments.wait, stall=arguments.timeout)
    files = arguments.prompts.parent if arguments.prompts else Path()
    status = 128 + signal.SIGINT
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C
        status = execution.execute(config, folder, patience, files=files)
        if status > 128 and read_attempts(folder):
            report.draw(folder)
    if status > 128:
        print(f"spectap: the same command with RUN_ID={folder.name} continues this run")
    else:
        print(f"ledger: {folder / LEDGER}")
    return status


async def _models(endpoints: Sequence[Endpoint], wanted: str | None, wait: int) -> dict[str, str]:
    """Waits until all endpoints serve; returns the model to ask each for. Raises EndpointError.

    ``wanted`` is that of the endpoints that name none.
    """
    problems = await health.wait(
        {endpoint.name: endpoint.url for endpoint in endpoints},
        patience_seconds=wait,
        say=lambda text: print(printable(text), file=sys.stderr),
    )
    if problems:
        raise EndpointError("\n".join(problems))
    if wanted is None and (unnamed := [each for each in endpoints if each.model is None]):
        wanted = await _common_model(unnamed)
    models = {endpoint.name: endpoint.model or wanted or "" for endpoint in endpoints}
    await asyncio.gather(*(_check_model(each, models[each.name]) for each in endpoints))
    return models


async def _common_model(endpoints: Sequence[Endpoint]) -> str:
    """The one model that all of the endpoints serve. Raises EndpointError."""
    served = await asyncio.gather(*(health.models(endpoint.url) for endpoint in endpoints))
    common = set(served[0]).intersection(*served)
    if len(common) != 1:
        listed = "; ".join(
            f"{endpoint.name}: {', '.join(models)}"
            for endpoint, models in zip(endpoints, served, strict=True)
        )
        raise EndpointError(
            "there is no one model that all endpoints serve: name one by --model, or one each by "
            f"NAME=URL#MODEL: {listed}"
        )
    return common.pop()


async def _check_model(endpoint: Endpoint, wanted: str) -> None:
    """Raises EndpointError if the endpoint lists its models and this is none of them."""
    try:
        models = await health.models(endpoint.url)
    except EndpointError:
        return
    if wanted not in models:
        serves = f"{endpoint.name} ({endpoint.url}) serves {', '.join(models)}"
        option = "--model = " if endpoint.model is None else "#"
        raise EndpointError(f"{option}{wanted!r}: {serves}")
