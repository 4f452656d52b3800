"""A run's folder into a bucket that refuses, fails and comes back: moto behind a loopback port."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

from benchmark.aws.bucket import Bucket
from benchmark.aws.retry import PATIENCE_SECONDS
from benchmark.errors import BucketError

REGION = "us-east-2"
BUCKET = "results-bucket"

Environment = dict[str, Any]


class _Quiet(MotoRequestHandler):
    def log(self, *_: object) -> None:
        """Tests look at what the benchmark logs."""


class Aws:
    """moto as a server that can be told to misbehave.

    ``before`` may answer in moto's place; ``after`` sees what moto has done and may break the
    connection, so that the caller never hears of it. ``asked`` lists method and path.
    """

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self.port = 0
        self.start()
        self.behave()

    def behave(self) -> None:
        """No trouble, and nothing asked yet."""
        self.before: Callable[[Environment], Response | None] = lambda _: None
        self.after: Callable[[Environment], object] = lambda _: None
        self.asked: list[tuple[str, str]] = []

    def start(self) -> None:
        self._server = make_server(
            "127.0.0.1", self.port, self._serve, threaded=True, request_handler=_Quiet
        )
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """From now on connections are refused."""
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        """Forgets all that was stored."""
        self.behave()
        with urlopen(Request(f"http://127.0.0.1:{self.port}/moto-api/reset", method="POST")):
            self.asked.clear()

    def _serve(self, environ: Environment, start_response: Any) -> Iterable[bytes]:
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        trouble = self.before(environ)
        if trouble is not None:
            return trouble(environ, start_response)
        answer: Iterable[bytes] = self._moto(environ, start_response)
        self.after(environ)
        return answer


def hang_up(environ: Environment) -> None:
    """Breaks the connection before the answer is out."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """Points the SDK at ``aws`` and at nothing else; forgets everything before and afterwards,
    since moto's state is the process's and other files have servers too."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{aws.port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    aws.reset()
    yield aws
    aws.reset()


class Clock:
    """Time that passes in pauses only. ``at`` has what happens at a moment."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.at: dict[float, Callable[[], None]] = {}

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    aws = Aws()
    yield aws
    aws.stop()


@pytest.fixture
def aws(server: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with serving(server, monkeypatch):
        boto3.client("s3", region_name=REGION).create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        server.behave()
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run-1"
    for name, text in {
        "config.json": "{}",
        "ledger.jsonl": "one\n",
        "llmperf/counting/SD/round-1/x_summary.json": "{}",
        "report.html": "<p>",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def failure(status: int, code: str) -> Response:
    body = f"<Error><Code>{code}</Code><Message>in\ntrouble</Message></Error>"
    return Response(body, status, content_type="application/xml")


def stored() -> dict[str, bytes]:
    client = boto3.client("s3", region_name=REGION)
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def on_disk(run_dir: Path) -> dict[str, bytes]:
    return {
        f"results/run-1/{path.relative_to(run_dir)}": path.read_bytes()
        for path in run_dir.rglob("*")
        if path.is_file()
    }


def put(aws: Aws) -> list[str]:
    return [path for method, path in aws.asked if method == "PUT"]


def test_every_file_is_put_where_its_path_says(aws: Aws, run_dir: Path, clock: Clock) -> None:
    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)
    assert len(put(aws)) == 4
    assert clock.pauses == []


def test_report_opens_in_a_browser(aws: Aws, run_dir: Path) -> None:
    Bucket(BUCKET, REGION).upload(run_dir)

    head = boto3.client("s3").head_object(Bucket=BUCKET, Key="results/run-1/report.html")
    assert head["ContentType"] == "text/html"
    assert aws.asked


def test_only_what_changed_is_put_again(aws: Aws, run_dir: Path) -> None:
    Bucket(BUCKET, REGION).upload(run_dir)
    aws.asked.clear()
    Bucket(BUCKET, REGION).upload(run_dir)
    assert put(aws) == []

    with (run_dir / "ledger.jsonl").open("a") as ledger:
        ledger.write("two\n")
    (run_dir / "config.json").write_text("[]")  # another content of the same size
    Bucket(BUCKET, REGION).upload(run_dir)

    assert put(aws) == [
        f"/{BUCKET}/results/run-1/{name}" for name in ("config.json", "ledger.jsonl")
    ]
    assert stored() == on_disk(run_dir)


def test_more_files_than_one_listing_has(
    aws: Aws, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")  # S3's own are 1000
    Bucket(BUCKET, REGION).upload(run_dir)
    aws.asked.clear()
    Bucket(BUCKET, REGION).upload(run_dir)

    assert put(aws) == []


def test_file_that_vanishes_is_passed_over(aws: Aws, run_dir: Path) -> None:
    (run_dir / "gone").symlink_to(run_dir / "nowhere")  # listed, but no longer there to be read

    Bucket(BUCKET, REGION).upload(run_dir)

    assert len(put(aws)) == 4


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (500, "InternalError"),
        (503, "SlowDown"),
        (503, "ServiceUnavailable"),
        (400, "RequestTimeout"),
        (429, "TooManyRequests"),
    ],
)
def test_nothing_is_lost_when_s3_fails_for_a_minute(
    aws: Aws, run_dir: Path, clock: Clock, status: int, code: str
) -> None:
    aws.before = lambda _: failure(status, code) if clock.now < 60 else None

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)
    assert 60 <= clock.now < 60 + 30


def test_nothing_is_lost_when_s3_refuses_connections_for_a_minute(
    aws: Aws, run_dir: Path, clock: Clock
) -> None:
    aws.stop()
    clock.at[60] = aws.start

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)


def test_nothing_is_lost_when_answers_are_cut_off_for_a_minute(
    aws: Aws, run_dir: Path, clock: Clock
) -> None:
    aws.after = lambda environ: hang_up(environ) if clock.now < 60 else None

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)


def test_it_fails_in_the_middle_and_goes_on_from_there(
    aws: Aws, run_dir: Path, clock: Clock
) -> None:
    aws.before = lambda environ: (
        failure(503, "SlowDown")
        if environ["PATH_INFO"].endswith("report.html") and clock.now < 60
        else None
    )

    Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert stored() == on_disk(run_dir)
    assert sum(not path.endswith("report.html") for path in put(aws)) == 3


def test_it_gives_up_after_minutes_in_one_line(aws: Aws, run_dir: Path, clock: Clock) -> None:
    aws.before = lambda _: failure(503, "SlowDown")

    with pytest.raises(BucketError) as caught:
        Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert PATIENCE_SECONDS - 30 <= clock.now <= PATIENCE_SECONDS
    assert "s3://results-bucket: failing for 5 minutes" in str(caught.value)
    assert "SlowDown" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pauses_grow_and_vary(aws: Aws, run_dir: Path, clock: Clock) -> None:
    aws.before = lambda _: failure(503, "SlowDown")

    with pytest.raises(BucketError):
        Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    whole = [min(30, 0.5 * 2**number) for number in range(len(clock.pauses))]
    shares = [pause / most for pause, most in zip(clock.pauses, whole, strict=True)]
    assert all(0.5 <= share <= 1 for share in shares)
    assert len(set(shares)) > 1


def test_access_denied_is_not_tried_again(aws: Aws, run_dir: Path, clock: Clock) -> None:
    aws.before = lambda _: failure(403, "AccessDenied")

    with pytest.raises(BucketError) as caught:
        Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert str(caught.value).startswith("s3://results-bucket: An error occurred (AccessDenied)")
    assert str(caught.value).endswith(
        "check that the pod's role may list and put objects below results/ in it"
    )
    assert "\n" not in str(caught.value)
    assert len(aws.asked) == 1
    assert clock.pauses == []


@pytest.mark.usefixtures("aws")
def test_missing_bucket_is_not_tried_again(run_dir: Path, clock: Clock) -> None:
    with pytest.raises(BucketError, match=r"s3://no-such: .*NoSuchBucket.*; check the conf[^\n]*$"):
        Bucket("no-such", REGION, sleep=clock.sleep).upload(run_dir)

    assert clock.pauses == []


@pytest.mark.usefixtures("aws")
def test_missing_credentials_are_one_line(
    run_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with monkeypatch.context() as session:
        session.setattr(boto3, "DEFAULT_SESSION", None)  # which has credentials of its own
        with pytest.raises(BucketError, match=r"Unable to locate credentials; check [^\n]*$"):
            Bucket(BUCKET, REGION, sleep=clock.sleep).upload(run_dir)

    assert clock.pauses == []
