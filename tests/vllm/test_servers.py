"""A command that vLLM does not take ends at once, in one line, with nothing left."""

import os
from pathlib import Path

import pytest

from rehearsal.processes import ProcessError, await_health, running
from tests.rehearsal.processes import left_in_group
from tests.synthesis import ROOT

MODULE = ("-m", "vllm.entrypoints.openai.api_server", "--model", "/nowhere")
FLAG = "--disable-log-requests"


def test_a_flag_that_vllm_does_not_know(tmp_path: Path) -> None:
    """It is on the list of flags left out because of this."""
    log = tmp_path / "log"
    python = ROOT / ".venv-vllm" / "bin" / "python"
    with running([str(python), *MODULE, FLAG], os.environ, log) as process:
        with pytest.raises(ProcessError, match=f"unrecognized arguments: {FLAG}") as failure:
            await_health("Base", process, "http://127.0.0.1:1", log, 120)
        group = process.pid
    assert "\n" not in str(failure.value)
    assert str(failure.value).startswith("the server for Base ended with status 2: ")
    assert not left_in_group(group)
