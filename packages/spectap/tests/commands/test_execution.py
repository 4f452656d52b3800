"""What ``run`` and ``measure`` have in common, and what is only a pod's."""

import threading
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from spectap.aws import bucket, calls
from spectap.commands import execution, recorded
from spectap.commands.execution import Ended, Pause
from spectap.inputs import config as configuration
from spectap.run.run import Run
from spectap.run.taps import Patience
from tests import samples
from tests.commands.processes import Benchmark


def test_a_run_of_several_launches_needs_what_restarts_the_servers(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    load = samples.load(rounds=3, launches=3)
    path.write_text(configuration.dump(samples.config(load=load)), encoding="utf-8")
    ended = benchmark("run", BENCHMARK_CONFIG=str(path), RESULTS_DIR=str(tmp_path))
    assert (ended.status, ended.err) == (
        2,
        f"spectap: RELAUNCH is needed: {path} has load.launches: 3\n",
    )


@pytest.mark.parametrize(
    ("failures", "request_", "status"),
    [([], None, 0), (["counting, round 1: all failed"], None, 1), ([], "restart the servers", 75)],
)
def test_a_run_ends_the_nodes_once_all_is_well(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failures: list[str],
    request_: str | None,
    status: int,
) -> None:
    stopped: list[str] = []
    ended = create_autospec(Run, request=request_, shipper=None)
    measured = execution.Measured(ended, failures, None)
    monkeypatch.setattr(execution, "measure", lambda *_, **__: measured)
    monkeypatch.setattr(recorded, "draw", lambda folder, **_: None)
    results = create_autospec(bucket.Bucket)
    monkeypatch.setattr(bucket, "Bucket", results)
    monkeypatch.setattr(calls, "start_state_machine", lambda arn, *_: stopped.append(arn))
    config = samples.config(stopper="arn:stop")
    assert execution.execute(config, tmp_path, Patience(), files=tmp_path) == status
    assert stopped == ([] if status else ["arn:stop"])


def test_a_signal_ends_a_thread_s_pause(capsys: pytest.CaptureFixture[str]) -> None:
    pause = Pause()
    threading.Timer(0.2, pause.set).start()
    with pytest.raises(Ended):
        pause(300)
    assert capsys.readouterr().err == "AWS does not answer; trying again in 300 s\n"
