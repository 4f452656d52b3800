"""Synthesis time of the whole app against an empty CDK app, in pairs, in one run.

Both run as the CDK CLI runs them: a Python process that writes a cloud assembly. The bound is a
ratio of three; machines differ, ratios less so.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.synthesis import CONTEXT, ROOT

PAIRS: Final = 5
BOUND: Final = 3.0

EMPTY: Final = """\
import aws_cdk as cdk
app = cdk.App()
cdk.Stack(app, "Empty")
app.synth()
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        empty = Path(scratch) / "empty.py"
        empty.write_text(EMPTY)
        pairs = []
        for number in range(PAIRS + 1):
            # An empty stack is an error under today's feature flags, so that app gets none.
            pair = (_seconds(empty, scratch, {}), _seconds(ROOT / "app.py", scratch, CONTEXT))
            # The first pair fills the caches of the file system and of Python.
            if number:
                pairs.append(pair)
                print(f"pair {number}: empty {pair[0]:.2f} s, whole app {pair[1]:.2f} s")
    ratio = statistics.median(app / empty for empty, app in pairs)
    empty_median, app_median = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"median:  empty {empty_median:.2f} s, whole app {app_median:.2f} s")
    print(f"ratio:   {ratio:.2f} (at most {BOUND:g})")
    return int(ratio > BOUND)


def _seconds(script: Path, scratch: str, context: Mapping[str, Any]) -> float:
    environment = os.environ | {
        "CDK_OUTDIR": str(Path(scratch) / f"{script.stem}.out"),
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, str(script)], cwd=ROOT, env=environment, check=True, capture_output=True
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
