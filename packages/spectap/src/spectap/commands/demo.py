"""The command ``demo``, which needs no server of the user's."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spectap.commands.arguments import Command, results_folder
from spectap.commands.measure import measure
from spectap.commands.measure_options import add_options
from spectap.errors import EndpointError
from spectap.load import cases
from spectap.names import REPORT

_ACCEPTANCE: Final = {"repeat-line": 0.97, "meaning-of-life": 0.52}
"""The chance that a draft is accepted, by test case, chosen to give the article's gains."""
_SERVER: Final = ("--speed=20", "--token-cost=0.04", "--draft-cost=0.037", "--model=scripted")
"""Twenty times the article's speed. A token more adds 4 % to a pass; a draft takes 3.7 % of one."""
_DEMO: Final = ("--concurrency=1,8", "--requests=8", "--output-tokens=60")


def demo(arguments: argparse.Namespace) -> int:
    """``demo``: measures two scripted servers and opens the report, in about a minute.

    One server decodes plainly, the other speculates with six drafts a step. Both follow a script:
    what they gain is chosen, and says nothing of any real server.
    """
    run_id = os.environ.setdefault("RUN_ID", time.strftime("demo-%Y%m%d-%H%M%S", time.gmtime()))
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(_server(drafts)) for drafts in (0, 6)]
        endpoints = (f"plain={urls[0]}", f"speculative={urls[1]}")
        parser = argparse.ArgumentParser()
        add_options(parser)
        status = measure(parser.parse_args([*endpoints, *_DEMO]))
    report = results_folder() / run_id / REPORT
    if report.exists() and not arguments.no_browser:
        webbrowser.open(report.absolute().as_uri())
    return status


@contextlib.contextmanager
def _server(drafts: int) -> Iterator[str]:
    """Starts a scripted server in a process that ends with the context; gives its URL."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        acceptance = Path(folder) / "acceptance.json"
        by_line = {str(case.line): _ACCEPTANCE[case.name] for case in cases.HEADLINES}
        acceptance.write_text(json.dumps(by_line), encoding="utf-8")
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "spectap.golden", f"--drafts={drafts}"),
                *(f"--acceptance={acceptance}", *_SERVER),
            ],
            env={**os.environ, "VLLM_API_KEY": ""},  # it asks for no key
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().strip()
                if not url:
                    raise EndpointError("a scripted server did not start: see the lines above")
                yield url
            finally:
                process.terminate()


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-browser", action="store_true", help="does not open the report")


COMMAND: Final = Command(demo, _add_options)
