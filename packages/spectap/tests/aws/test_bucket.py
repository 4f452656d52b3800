"""What goes into a bucket and comes back; calls of an AWS that refuses and fails."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from spectap.aws.bucket import Bucket, fetch_prompts
from spectap.aws.calls import PATIENCE_SECONDS, read_secret, start_state_machine
from spectap.commands import execution
from spectap.errors import ConfigError, RunError, ShippingError, SpectapError
from spectap.inputs.config import Config, PromptSource, Structure, TestCase, dump, without_lines
from spectap.run import prompts as prompt_sets
from tests import samples
from tests.aws.embedded import (
    ACCOUNT,
    BUCKET,
    REGION,
    Aws,
    Clock,
    failure,
    hang_up,
    put,
    stored,
)
from tests.samples import contents


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run-1"
    for name, text in {
        "config.json": "{}",
        "ledger.jsonl": "one\n",
        "llmperf/counting/SD/round-1/x_summary.json": "{}",
        "progress.jsonl": "{}\n",
        "report.html": "<p>",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def bucket(store: Aws, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")  # a listing has pages; S3's have 1000 keys
    return Bucket(BUCKET, REGION, clock.sleep)


def test_only_what_changed_is_put_again(store: Aws, bucket: Bucket, run_dir: Path) -> None:
    """And what is of the run alone: another pod may have written more of a variant meanwhile.

    An upload that is cut off leaves no half turn that looks whole: progress and mark come last.
    """
    (run_dir / "_COMPLETE").touch()
    expected = {f"results/run-1/{name}": data for name, data in contents(run_dir).items()}
    (run_dir / "gone").symlink_to(run_dir / "nowhere")  # listed, but no longer there to be read
    (run_dir / "variants" / "k3").mkdir(parents=True)
    (run_dir / "variants" / "k3" / "ledger.jsonl").write_text("old\n")
    bucket.upload(run_dir, "run-1")
    assert stored() == expected
    head = boto3.client("s3").head_object(Bucket=BUCKET, Key="results/run-1/report.html")
    assert head["ContentType"] == "text/html"  # it opens in a browser

    store.asked.clear()
    with (run_dir / "ledger.jsonl").open("a") as ledger:
        ledger.write("two\n")
    (run_dir / "config.json").write_text("[]")  # another content of the same size
    (run_dir / "progress.jsonl").write_text("[]\n")
    bucket.upload(run_dir, "run-1")
    names = [path.rpartition("/")[2] for method, path in store.asked if method == "PUT"]
    assert names == ["ledger.jsonl", "config.json", "progress.jsonl"]
    assert stored() == {
        f"results/run-1/{name}": data
        for name, data in contents(run_dir).items()
        if "variants" not in name
    }


def test_what_the_folder_lacks_comes_back(
    store: Aws, bucket: Bucket, run_dir: Path, tmp_path: Path
) -> None:
    """What it has is newer than the bucket's."""
    bucket.upload(run_dir, "run-1")
    bucket.upload(run_dir, "run-2")
    bucket.fetch("run-2", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(run_dir)
    (run_dir / "ledger.jsonl").write_text("one\ntwo\n")
    (run_dir / "report.html").unlink()
    store.asked.clear()
    bucket.fetch("run-1", run_dir)
    assert (run_dir / "ledger.jsonl").read_text() == "one\ntwo\n"
    assert (run_dir / "report.html").read_text() == "<p>"
    brought = [path for method, path in store.asked if method == "GET" and path != f"/{BUCKET}"]
    assert brought == [f"/{BUCKET}/results/run-1/report.html"]


def test_a_key_that_leads_elsewhere_is_passed_over(bucket: Bucket, tmp_path: Path) -> None:
    for name in ("../../elsewhere", "a//b", "folder/"):
        put(f"results/run-1/{name}")
    bucket.fetch("run-1", tmp_path / "runs" / "back")
    assert [*tmp_path.rglob("*")] == []


def test_variants_are_complete_with_their_mark(bucket: Bucket) -> None:
    for path in ("variants/k3/ledger.jsonl", "variants/k5/llmperf/_COMPLETE", "_COMPLETE"):
        put(f"results/run-1/{path}")
    for path in ("run-1/variants/Base", "run-1/variants/k7", "run-2/variants/k9"):
        put(f"results/{path}/_COMPLETE")
    assert bucket.complete("run-1") == {"Base", "k7"}


CONTENT = '{"prompt": "Größe?"}\n'.encode()
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def config(bucket: str | None = BUCKET) -> Config:
    source = PromptSource(file="own.jsonl", digest=DIGEST)
    case = TestCase(name="counting", prompts=source)
    changes = {"region": REGION, "prompts_bucket": bucket, "test_cases": (case,)}
    return samples.config().model_copy(update=changes)


@pytest.mark.usefixtures("store")
def test_a_run_reads_its_prompts_from_the_bucket(tmp_path: Path, clock: Clock) -> None:
    subject = f"prompts of {config().test_cases[0].name}: s3://{BUCKET}/{DIGEST}"
    with pytest.raises(RunError, match=f"^{subject}: .*; make deploy uploads it$"):
        fetch_prompts(config(), tmp_path, clock.sleep)
    put(DIGEST, CONTENT)
    path = tmp_path / "config.json"
    path.write_text(dump(config()))
    with execution.inputs(path) as (read, folder):
        ((_, loaded),) = prompt_sets.loaded(read, folder).items()
    assert loaded.prompts[0].messages[0]["content"] == "Größe?"
    assert loaded.source == "own.jsonl"
    assert not folder.exists()
    put(DIGEST, b"others")
    with (
        execution.inputs(path) as (read, folder),
        pytest.raises(RunError, match=f"was changed: its SHA-256 is .* and not {DIGEST}"),
    ):
        prompt_sets.loaded(read, folder)
    path.write_text(dump(config(None)))
    with execution.inputs(path) as (read, folder):
        assert (read, folder) == (config(None), tmp_path)


@pytest.mark.usefixtures("store")
def test_a_run_reads_its_lines_from_the_bucket(tmp_path: Path) -> None:
    case = TestCase(name="long", line="一行" * 9999, structure=Structure.OPEN_ENDED)
    whole = config().model_copy(update={"test_cases": (case,)})
    apart, content = without_lines(whole)
    path = tmp_path / "config.json"
    path.write_text(dump(apart))
    assert path.stat().st_size < 4096 < len(content)
    put(str(apart.lines), content)
    with execution.inputs(path) as (read, _):
        assert read == whole
    put(str(apart.lines), b"{}")
    with pytest.raises(ConfigError, match="lines: were changed"), execution.inputs(path):
        pass


def test_outages_broken_connections_and_closed_ports_are_waited_for(
    store: Aws, clock: Clock
) -> None:
    bucket = Bucket(BUCKET, REGION, clock.sleep)
    store.before = lambda _: failure(400, "RequestTimeout") if clock.now < 60 else None
    assert bucket.complete("run-1") == set()
    assert 60 <= clock.now < 60 + 30
    store.after = lambda environ: hang_up(environ) if clock.now < 110 else None
    assert bucket.complete("run-1") == set()
    assert 110 <= clock.now < 150
    store.stop()
    clock.at[170] = store.start
    assert bucket.complete("run-1") == set()


def test_it_gives_up_after_minutes_of_growing_pauses_in_one_line(store: Aws, clock: Clock) -> None:
    store.before = lambda _: failure(503, "SlowDown")
    with pytest.raises(
        ShippingError, match=r"^s3://results-bucket: failing for 5 .*SlowDown[^\n]*$"
    ):
        Bucket(BUCKET, REGION, clock.sleep).complete("run-1")
    assert PATIENCE_SECONDS - 30 <= clock.now <= PATIENCE_SECONDS
    longest = [min(30, 0.5 * 2**number) for number in range(len(clock.pauses))]
    shares = [pause / most for pause, most in zip(clock.pauses, longest, strict=True)]
    assert all(0.5 <= share <= 1 for share in shares)
    assert len(set(shares)) > 1


MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:article-stop"


@pytest.mark.parametrize(
    ("ask", "error", "line"),
    [
        (
            lambda sleep: Bucket("no-such", REGION, sleep).complete("run-1"),
            ShippingError,
            r"s3://no-such: .*NoSuchBucket.*; check the configuration's bucket, and",
        ),
        (lambda sleep: read_secret("a/b", REGION, sleep), RunError, "secret a/b: .*its stack"),
        (
            lambda sleep: start_state_machine(MACHINE, REGION, sleep),
            RunError,
            f"{MACHINE}: .*; check that its stack is deployed",
        ),
    ],
)
@pytest.mark.usefixtures("store")
def test_what_is_not_there_is_named_at_once_with_what_to_check(
    clock: Clock, ask: Callable[[object], object], error: type[SpectapError], line: str
) -> None:
    with pytest.raises(error, match=rf"^{line}[^\n]*$"):
        ask(clock.sleep)
    assert clock.pauses == []


def test_a_secret_is_read_and_the_state_machine_is_started(aws: Aws, clock: Clock) -> None:
    secrets = boto3.client("secretsmanager", region_name=REGION)
    secrets.create_secret(Name="a/b", SecretString="sesame")
    assert read_secret("a/b", REGION, clock.sleep) == "sesame"
    definition = {"StartAt": "Stop", "States": {"Stop": {"Type": "Succeed"}}}
    client = boto3.client("stepfunctions", region_name=REGION)
    arn = client.create_state_machine(
        name="article-stop",
        definition=json.dumps(definition),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/stop",
    )["stateMachineArn"]
    aws.before = lambda _: failure(503, "ServiceUnavailable") if clock.now < 20 else None
    start_state_machine(arn, REGION, clock.sleep)
    assert len(client.list_executions(stateMachineArn=arn)["executions"]) == 1
