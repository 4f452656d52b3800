"""A server and all that it has started keep to one core."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rehearsal.process.processes import await_line, running
from rehearsal.vllm import pinning
from tests.rehearsal.left import in_group

SERVER = """
import subprocess, sys, threading, time
threading.Thread(target=time.sleep, args=[60], daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "print('ready', flush=True); input()"],
                         stdin=subprocess.PIPE)
time.sleep(60)
"""


def test_from_now_on(tmp_path: Path) -> None:
    core, log = max(os.sched_getaffinity(0)), tmp_path / "log"
    with running([sys.executable, "-c", SERVER], os.environ, log) as process:
        await_line(process, log, "ready", 30)
        pinning.from_now_on(process, core)
        threads = [
            int(thread)
            for each in in_group(process.pid)
            for thread in os.listdir(f"/proc/{each}/task")
        ]
        assert len(threads) >= 3
        assert [os.sched_getaffinity(thread) for thread in threads] == [{core}] * len(threads)


def test_from_its_start(tmp_path: Path) -> None:
    core, log = max(os.sched_getaffinity(0)), tmp_path / "log"
    said = "import os; print(*os.sched_getaffinity(0), flush=True)"
    with running(
        pinning.from_its_start([sys.executable, "-c", said], core), os.environ, log
    ) as process:
        assert await_line(process, log, r"[\d ]+", 30) == str(core)
