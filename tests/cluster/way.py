"""``make experiment`` in a rehearsed account: called, looked at, killed, and called again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from experiment import load
from rehearsal.account.small import write_small
from rehearsal.account.world import World, world
from tests.experiment.files import edited
from tests.rehearsal.test_sweep import checkout
from tests.synthesis import ROOT

STAGES: Final = (
    *("preflight", "deploy", "objects", "download", "compile", "start"),
    *("serve", "benchmark", "stop", "results"),
)
"""All that there are. An experiment lacks some of them, and may have them in another order."""
SECONDS: Final = 600.0
CALLER: Final = "a-person"
"""The access key that commands sign with, and nothing else in the account."""
_POLL_SECONDS: Final = 0.1


@dataclass
class Way:
    """An account, and every time that ``make experiment`` was called in it."""

    world: World
    file: Path
    root: Path
    calls: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Every time that a command was called."""

    def run(self, *words: str) -> None:
        """Calls a command, by default ``experiment``, and waits for its good end."""
        status = self._call(*words).wait(SECONDS)
        assert status == 0, self.shown()
        self.world.check()

    def shown(self) -> str:
        """What the newest call has printed until now."""
        return self._log(len(self.calls)).read_text(encoding="utf-8")

    def stages(self) -> list[str]:
        """Names of the stages that the newest call has begun until now."""
        begun = [line for line in self.shown().splitlines() if line.startswith("[")]
        return [line.rpartition("] ")[2] for line in begun]

    def kill_at(self, stage: str, is_amid: Callable[[World], bool] | None = None) -> None:
        """Calls it and kills it in the middle of a stage, as far as that can be seen from outside.

        Without ``is_amid`` the stage may be over before it is seen.
        """
        process = self._call()
        following = {*STAGES[STAGES.index(stage) + 1 :]}
        deadline = time.monotonic() + SECONDS
        while process.poll() is None:
            assert time.monotonic() < deadline, self.shown()
            self.world.check()
            begun = self.stages()
            if stage in begun and (is_amid is None or is_amid(self.world)):
                break
            if following & {*begun}:
                assert is_amid is None, f"{stage} was over at once:\n{self.shown()}"
                break
            time.sleep(_POLL_SECONDS)
        assert process.poll() in (None, 0), self.shown()
        self.kill()

    def kill(self) -> None:
        """Ends the newest call, and all that it has started, without a word to them."""
        if self.calls and self.calls[-1].poll() is None:
            os.killpg(self.calls[-1].pid, signal.SIGKILL)
            self.calls[-1].wait()

    def _call(self, *words: str) -> subprocess.Popen[bytes]:
        """In a process group of its own."""
        asked = words or ("experiment", "--yes")
        line = [sys.executable, "-u", "-m", "deployment", *asked, "--experiment", str(self.file)]
        with self._log(len(self.calls) + 1).open("wb") as log:
            called = subprocess.Popen(
                line,
                cwd=self.root,
                env={**self.world.environment, "AWS_ACCESS_KEY_ID": CALLER},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.calls.append(called)
        return called

    def _log(self, number: int) -> Path:
        return self.root / f"call-{number}.log"


@contextlib.contextmanager
def begun(folder: Path, changes: Mapping[str, Any]) -> Iterator[Way]:
    """A bootstrapped account without stacks, for the article's experiment with these changes.

    Its load is small. ``folder`` takes all that is written.
    """
    if os.environ.get("KUBECONFIG"):
        pytest.skip("the account needs an API server that asks it whose a token is")
    root, whole = folder / "checkout", folder / "article.yaml"
    root.mkdir()
    checkout(root)
    whole.write_text(edited(changes), encoding="utf-8")
    file = write_small(str(whole), folder / "experiments")
    with world(load(str(file)), ROOT, folder / "account") as account:
        its = Way(account, file, root)
        try:
            its.run("bootstrap")
            yield its
        finally:
            its.kill()
