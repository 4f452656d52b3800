"""An index of a sweep from end to end: what it measures, keeps, and merges.

The whole sweep is measured once. The other tests begin with what that has left in the bucket.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from moto.cloudwatch.models import cloudwatch_backends

from spectap.aws import calls
from spectap.aws.bucket import Bucket
from spectap.commands import execution, recorded
from spectap.golden.server import GoldenEndpoint
from spectap.names import CONTROL
from spectap.report import results
from tests import samples
from tests.aws.embedded import ACCOUNT, REGION, Aws, failure, make_bucket, put, stored
from tests.commands import processes
from tests.commands.processes import Benchmark, Ended, eventually, started
from tests.standins import InProcess

RUN_ID = "sweep-1a2b3c4d"
RUN = f"results/{RUN_ID}/"


class Sweep:
    """Its configuration on the disk, and what an index is told."""

    def __init__(
        self, folder: Path, servers: Mapping[str, GoldenEndpoint], aws: Aws, benchmark: Benchmark
    ) -> None:
        self.folder, self.servers, self.aws, self._benchmark = folder, servers, aws, benchmark
        self.pods = 0
        self.write()

    def run(self, variant: str, *, start_seconds: int = 20, **environment: str) -> Ended:
        """A new pod of this variant's index, in this process."""
        own = self.environment(variant, start_seconds=start_seconds)
        return self._benchmark("index", **(own | environment))

    def write(self, **changes: Any) -> None:
        """The configuration of all indexes; ``changes`` replace top-level keys."""
        urls = {name: server.url for name, server in self.servers.items()}
        variants, load = samples.variants(**urls), samples.load(rounds=1)
        settings = samples.settings(isolated=True, variants=variants, load=load) | changes
        (self.folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")

    def environment(self, variant: str, *, start_seconds: int = 20) -> dict[str, str]:
        """What a new pod of this variant's index gets."""
        self.pods += 1
        return {
            "BENCHMARK_CONFIG": str(self.folder / "config.json"),
            "RESULTS_DIR": str(self.folder / f"pod-{self.pods}"),
            "RUN_ID": RUN_ID,
            "START_SECONDS": str(start_seconds),
            "JOB_COMPLETION_INDEX": str([*self.servers].index(variant)),
        }

    @property
    def root(self) -> Path:
        """The run's folder in the pod that was made last."""
        return self.folder / f"pod-{self.pods}" / RUN_ID


def restore(files: Mapping[str, bytes], variants: Collection[str], *left_out: str) -> None:
    """Puts what was measured of these variants into the bucket, but for some files."""
    for name, content in files.items():
        if name.startswith(tuple(f"variants/{v}/" for v in variants)) and name not in left_out:
            put(f"{RUN}{name}", content)


NAMES = ("Base", "k3", "k7")
TURNS = 2
"""Two test cases in one round; each has two requests, as has a wave."""
MARKS = {name: f"variants/{name}/_COMPLETE" for name in NAMES}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, GoldenEndpoint]]:
    with processes.serving(*map(processes.golden, (1, 3, 7))) as golden:
        yield dict(zip(NAMES, golden, strict=True))


@pytest.fixture
def sweep(
    tmp_path: Path,
    store: Aws,
    servers: dict[str, GoldenEndpoint],
    benchmark: Benchmark,
    monkeypatch: pytest.MonkeyPatch,
) -> Sweep:
    """Requests are sent from this process, and nothing is drawn: both take longer than the rest."""
    monkeypatch.setattr(execution, "Driver", InProcess)
    monkeypatch.setattr(recorded, "draw", lambda _: None)
    for golden in servers.values():
        golden.healthy = True
    return Sweep(tmp_path, servers, store, benchmark)


def published(variant: str) -> int:
    """How many requests of a variant are in CloudWatch."""
    data: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    ends = [datum for datum in data if datum.name == "EndToEndLatency"]
    return sum(variant in {d.value for d in datum.dimensions} for datum in ends)


measured: dict[str, bytes] = {}
"""What a whole sweep leaves in the bucket: the first test fills it, whichever that is."""


@pytest.fixture
def objects(sweep: Sweep) -> Mapping[str, bytes]:
    if not measured:
        for variant in NAMES:
            ended = sweep.run(variant)
            assert ended.status == 0, ended.err
        measured.update(stored(RUN))
        sweep.aws.reset()
        make_bucket()
    return measured


def test_the_last_to_end_leaves_the_whole_report_and_ends_the_nodes(
    sweep: Sweep, objects: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    arns: list[str] = []
    handlers: list[object] = []
    monkeypatch.setattr(calls, "start_state_machine", lambda arn, *_: arns.append(arn))
    monkeypatch.setattr(recorded, "draw", lambda _: handlers.append(signal.getsignal(15)))
    sweep.write(stopper="arn:stop")
    restore(objects, NAMES[1:])
    ended = sweep.run("k3")
    assert (ended.status, "merged: 0 of 3 variants" in ended.out) == (0, True)
    assert json.loads(stored(RUN)["merged.json"])["missing"]["k3"].startswith("the results of Base")
    assert ("config.json" in stored(RUN), arns) == (False, [])  # there is no run to show
    restore(objects, NAMES)
    for golden in sweep.servers.values():
        golden.healthy = False  # what is complete needs none
    before = stored(f"{RUN}variants/")
    ended = sweep.run("k7")
    assert (stored(f"{RUN}variants/"), published("k7")) == (before, 0)
    assert ended.status == 0, ended.err
    assert "spectap: k7 is complete\nmerged: 3 of 3 variants\n" in ended.out
    assert ended.out.splitlines()[-1].startswith("spectap: the Trainium nodes are being stopped")
    assert arns == ["arn:stop"]
    assert signal.SIG_DFL not in handlers  # SIGTERM ends it at once while it merges

    read = results.read(sweep.root)
    cells = {(cell.test_case, cell.variant) for case in read.summary.cases for cell in case.cells}
    assert cells == {(case, name) for case in ("counting", "sonnets") for name in NAMES}
    assert [check.failures for check in read.checks] == [()] * len(cells)


def test_a_pod_that_is_deleted_leaves_its_results_and_another_goes_on(sweep: Sweep) -> None:
    """With an empty disk: it measures the rest, and publishes nothing twice."""
    progress = "variants/Base/progress.jsonl"
    with started("index", environment=os.environ | sweep.environment("Base")) as process:
        # Not sooner: what was on its way to CloudWatch is not sent again.
        eventually(lambda: published("Base") >= 2)
        process.terminate()
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert "spectap: ended by SIGTERM; what was measured is kept in " in out
    before = stored(RUN)
    assert MARKS["Base"] not in before
    assert before[progress].count(b"\n") == 2  # a control and a turn

    sweep.servers["Base"].healthy = False
    ended = sweep.run("Base", start_seconds=1)
    # Something was measured, so the server may come back in the next pod.
    assert (ended.status, "not serving after 1 s" in ended.err) == (1, True)
    sweep.servers["Base"].healthy = True
    ended = sweep.run("Base")
    assert ended.status == 0, ended.err
    after = stored(RUN)
    ledger = "variants/Base/ledger.jsonl"
    assert after[ledger].startswith(before[ledger])
    rounds = [json.loads(line)["round"] for line in after[progress].splitlines()]
    assert (rounds.count(CONTROL), rounds[-1], len(rounds)) == (3, CONTROL, 3 + TURNS)
    assert published("Base") == 2 * TURNS


def test_a_variant_that_never_serves_is_named(sweep: Sweep) -> None:
    sweep.servers["k7"].healthy = False
    ended = sweep.run("k7", start_seconds=1)
    assert ended.status == os.EX_UNAVAILABLE == 69
    assert ended.err.splitlines()[-1] == (
        f"spectap: failed: k7: not serving after 1 s: k7 ({sweep.servers['k7'].url}), at the last "
        "try: HTTP 503; 2 of 2 turns were not run"
    )


def test_two_that_end_at_once_leave_the_whole_report(
    sweep: Sweep, objects: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """k7 is complete, and writes its report, while k3 is about to write one without it."""
    restore(objects, NAMES[:2])
    restore(objects, NAMES[2:], MARKS["k7"])
    upload, raced = Bucket.upload, list[Ended]()

    def racing(self: Bucket, run_dir: Path, run_id: str) -> None:
        if run_dir.name == RUN_ID and not raced:
            raced.append(Ended(None, "", ""))
            raced[0] = sweep.run("k7")
        upload(self, run_dir, run_id)

    monkeypatch.setattr(Bucket, "upload", racing)
    ended = sweep.run("k3")
    assert (ended.status, raced[0].status) == (0, 0)
    assert "merged: 3 of 3 variants" in raced[0].out
    assert ended.out.splitlines().count("merged: 3 of 3 variants") == 1
    assert json.loads(stored(RUN)["merged.json"])["missing"] == {}
    ledger = stored(RUN)["ledger.jsonl"].splitlines()
    assert {json.loads(line)["variant"] for line in ledger} == {*NAMES}


@pytest.mark.parametrize(
    ("trouble", "line"),
    [
        ("merged.json", "the variants were not merged: s3://results-bucket: "),
        ("draw", "the variants were not merged: ZeroDivisionError: no reason"),
        ("stopper", "the Trainium nodes were not stopped: arn:aws:states:"),
    ],
)
def test_what_fails_after_it_is_complete_fails_no_index(
    sweep: Sweep,
    objects: Mapping[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    line: str,
) -> None:
    def draw(_: Path) -> None:
        raise ZeroDivisionError("no\nreason")

    sweep.write(stopper=f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:article-stop")
    restore(objects, NAMES, MARKS["k7"])
    if trouble == "merged.json":
        sweep.aws.before = lambda environ: (
            failure(403, "AccessDenied")
            if environ["REQUEST_METHOD"] == "PUT" and "/merged.json" in environ["PATH_INFO"]
            else None
        )
    if trouble == "draw":
        monkeypatch.setattr(recorded, "draw", draw)
    ended = sweep.run("k7")
    assert ended.status == 0
    assert MARKS["k7"] in stored(RUN)
    # The nodes stay where the report is not in the bucket.
    (message,) = (text for text in ended.err.splitlines() if "were not" in text)
    assert message.startswith(f"spectap: {line}")
    assert message.endswith("; make stop stops them, and later their guard") == (
        trouble == "stopper"
    )


def test_it_ends_at_once_where_nothing_is_to_be_put_in_order() -> None:
    script = (
        "import os, signal; from spectap.commands.execution import ending_at_once\n"
        "with ending_at_once(): os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (143, "spectap: ended by SIGTERM\n")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"JOB_COMPLETION_INDEX": "3"}, "JOB_COMPLETION_INDEX = '3': must be a whole number from"),
        ({"START_SECONDS": "0"}, "START_SECONDS = '0': must be a whole number of at least 1"),
        ({"RUN_ID": "a/b"}, "RUN_ID = 'a/b': must match [A-Za-z0-9][A-Za-z0-9._-]{0,127}"),
        ({}, "config.json: isolated = false: must be true"),
    ],
)
def test_a_bad_environment_is_one_line(
    sweep: Sweep, environment: dict[str, Any], message: str
) -> None:
    sweep.write(isolated=bool(environment))
    assert message in sweep.run("Base", **environment).refusal()
