"""The preparation scripts, run for real: bash and the AWS CLI against an embedded S3."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from charts.indexes import NEVER, NOT_YET
from tests.charts.conftest import BUCKET, keys
from tests.charts.hub import Hub
from tests.synthesis import ROOT

SCRIPTS = ROOT / "charts" / "scripts"
ARTIFACT = "compiled/key/"
PARTS = ("model.pt", "neuron_config.json", "weights")
CHECKPOINTS = ("models/example/target/1/", "models/example/draft/2/")


@pytest.mark.parametrize(
    ("devices", "folders", "status", "line"),
    [
        (2, 0, 0, "opened 2 devices"),
        # Not even root opens a folder for writing.
        (1, 1, NEVER, "cannot open 1 of 2 devices: see docs/assumptions.md"),
        (0, 0, NEVER, "the claim is of 2 devices, and the pod has 0"),
    ],
)
def test_a_pod_whose_devices_do_not_open_ends(
    environment: dict[str, str], tmp_path: Path, devices: int, folders: int, status: int, line: str
) -> None:
    for number in range(devices):
        (tmp_path / f"neuron{number}").touch()
    for number in range(devices, devices + folders):
        (tmp_path / f"neuron{number}").mkdir()
    printed = _run(environment, "devices.sh", "2", str(tmp_path), status=status).stdout
    assert line in printed.splitlines()[-1]
    for number in range(devices + folders):
        assert f"{tmp_path}/neuron{number}" in printed


def test_a_listing_that_hangs_does_not_hold_the_node(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "neuron0").touch()
    programs = {
        "neuron-ls": "exec sleep 9",
        # The real one, with less patience than the script has.
        "timeout": f'exec {shutil.which("timeout")} "0.$1" "${{@:2}}"',
    }
    for name, line in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)
    tools = environment | {"PATH": f"{tmp_path / 'bin'}:{environment['PATH']}"}
    output = _run(tools, "devices.sh", "1", str(tmp_path)).stdout.splitlines()
    assert output[0] == "neuron-ls ended with status 124"
    assert output[-1] == f"user {os.getuid()} opened 1 devices"


def test_a_command_that_is_served_from_a_cache_has_no_visible_cores_to_fail_on(
    environment: dict[str, str], tmp_path: Path
) -> None:
    variables = environment | {"NEURON_RT_VISIBLE_CORES": "32-63"}
    command = ["bash", "-c", "echo visible: ${NEURON_RT_VISIBLE_CORES-none}"]
    output = _run(variables, "serve-cached.sh", str(tmp_path), "SETTING=1", *command).stdout
    assert output.splitlines()[-1] == "visible: none"


def test_an_artifact_that_is_there_is_not_made_again(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    _complete(store, ARTIFACT)
    before = keys(store)
    _run(environment, "await-checkpoints.sh", ARTIFACT, *CHECKPOINTS, str(tmp_path))
    _run(environment, "compile.sh", str(tmp_path), "false")
    _run(environment, "upload-artifact.sh", ARTIFACT, *PARTS, str(tmp_path))
    assert keys(store) == before


def test_compiles_and_uploads_and_marks_last_what_the_service_fetches(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    scratch, directory = tmp_path / "scratch", tmp_path / "artifact"
    leftover = scratch / "artifact" / "leftover"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    compiler = 'cd "$0/artifact"; mkdir weights; touch model.pt neuron_config.json weights/tp0'
    _run(environment, "compile.sh", str(scratch), "bash", "-c", compiler, str(scratch))
    assert not leftover.exists()
    _run(environment, "upload-artifact.sh", ARTIFACT, *PARTS, str(scratch))
    assert keys(store) == [
        f"{ARTIFACT}{name}"
        for name in ("_COMPLETE", "model.pt", "neuron_config.json", "weights/tp0")
    ]
    _run(environment, "fetch-artifact.sh", ARTIFACT, str(directory))
    fetched = sorted(str(f.relative_to(directory)) for f in directory.rglob("*") if f.is_file())
    assert fetched == ["model.pt", "neuron_config.json", "weights/tp0"]


def test_a_prepared_drafts_configuration_is_a_part_of_the_artifact(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    draft = tmp_path / "draft"
    draft.mkdir()
    (draft / "config.json").write_text('{"model_type": "llama"}')
    (draft / "model.safetensors").write_bytes(b"in the shards")
    compiler = 'cd "$0/artifact"; mkdir weights; touch model.pt neuron_config.json weights/tp0'
    _run(environment, "compile.sh", str(tmp_path), "bash", "-c", compiler, str(tmp_path))
    parts = [*PARTS, "draft/config.json"]
    _run(environment, "upload-artifact.sh", ARTIFACT, *parts, str(tmp_path))
    _run(environment, "fetch-artifact.sh", ARTIFACT, str(tmp_path / "fetched"))
    fetched = tmp_path / "fetched" / "draft"
    assert [file.name for file in fetched.iterdir()] == ["config.json"]
    assert (fetched / "config.json").read_text() == '{"model_type": "llama"}'


def test_half_an_artifact_is_not_marked(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / "model.pt").touch()
    result = _run(environment, "upload-artifact.sh", ARTIFACT, *PARTS, str(tmp_path), status=1)
    assert "the compiler left no neuron_config.json" in result.stderr
    assert keys(store) == []


def test_a_failed_compile_fails_the_job(environment: dict[str, str], tmp_path: Path) -> None:
    _run(environment, "compile.sh", str(tmp_path), "false", status=1)


def test_a_compile_waits_for_checkpoints_and_a_service_for_the_artifact(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    artifact, refused = str(tmp_path / "artifact"), environment | {"BUCKET": "nobody-s"}
    _complete(store, CHECKPOINTS[0])
    store.put_object(Bucket=BUCKET, Key=f"{ARTIFACT}model.pt", Body=b"half of it")
    with (
        _waiting(environment, "await-checkpoints.sh", ARTIFACT, *CHECKPOINTS, artifact) as compiles,
        _waiting(environment, "fetch-artifact.sh", ARTIFACT, artifact) as serves,
        _waiting(refused, "fetch-artifact.sh", ARTIFACT, artifact) as asks,
    ):
        _says_twice(compiles, f"waiting for s3://{BUCKET}/{CHECKPOINTS[1]}")
        _says_twice(serves, f"waiting for s3://{BUCKET}/{ARTIFACT}")
        _says_twice(asks, f"waiting for s3://nobody-s/{ARTIFACT}")
        assert not (tmp_path / "artifact").exists()
        _complete(store, CHECKPOINTS[1])
        assert compiles.wait(timeout=20) == 0
        _complete(store, ARTIFACT)
        assert serves.wait(timeout=20) == 0
    assert [path.name for path in (tmp_path / "artifact").iterdir()] == ["model.pt"]


@pytest.fixture
def index(environment: dict[str, str], tmp_path: Path) -> Path:
    """The ConfigMap of a sweep, mounted; the environment is that of index 1."""
    environment |= {"JOB_COMPLETION_INDEX": "1", "RUN_ID": "mine-0123abcd", "LOOKS": "4"}
    config = tmp_path / "config"
    config.mkdir()
    (config / "0.artifact").write_text("compiled/other/\n")
    (config / "0.variant").write_text("Base\n")
    (config / "1.artifact").write_text(f"{ARTIFACT}\n")
    (config / "1.variant").write_text("k7\n")
    (config / "1.folder").write_text("k7-0a1b2c3d\n")
    words = ["printf", "%s.", "two words", '{"a":"$HOME"}', "*", ""]
    (config / "1.serve").write_text("\n".join(words) + "\n")
    (tmp_path / "artifact").mkdir()
    return config


RESULTS = "results/mine-0123abcd/variants/k7-0a1b2c3d/"


def test_an_index_fetches_its_own_artifact_and_serves_with_its_own_command(
    store: Any, environment: dict[str, str], index: Path, tmp_path: Path
) -> None:
    for key in ("model.pt", "weights/tp0"):
        store.put_object(Bucket=BUCKET, Key=f"{ARTIFACT}{key}", Body=b"graph")
    _complete(store, ARTIFACT)
    # Begun and not complete, as that of a variant whose name this one begins with is.
    store.put_object(Bucket=BUCKET, Key=f"{RESULTS}ledger.jsonl", Body=b"")
    _complete(store, "results/mine-0123abcd/variants/k7-b8/")
    artifact = str(tmp_path / "artifact")
    _run(environment, "fetch-index.sh", str(index), artifact)
    fetched = sorted(path.name for path in (tmp_path / "artifact").rglob("*") if path.is_file())
    assert fetched == ["model.pt", "tp0"]
    output = _run(environment, "serve-index.sh", str(index), artifact).stdout
    assert output.endswith('two words.{"a":"$HOME"}.*..')


def test_an_index_without_an_artifact_gives_up_in_a_way_that_is_no_failure(
    store: Any, environment: dict[str, str], index: Path, tmp_path: Path
) -> None:
    store.put_object(Bucket=BUCKET, Key=f"{ARTIFACT}model.pt", Body=b"half of it")
    command = ["fetch-index.sh", str(index), str(tmp_path / "artifact")]
    for looked in ("", "2"):
        result = _run(environment | {"LOOKED": looked}, *command, status=NOT_YET)
        assert f"s3://{BUCKET}/{ARTIFACT} is not there yet" in result.stdout
    often = _run(environment | {"LOOKED": "3"}, *command, status=NEVER)
    assert "is not there after 4 looks: see its compile Job" in often.stderr
    assert not [*(tmp_path / "artifact").iterdir()]
    # A bucket that refuses is no "not yet".
    refused = _run(environment | {"BUCKET": "nobody-s"}, *command, status=1)
    assert refused.stderr.endswith("s3://nobody-s could not be listed\n")
    _complete(store, ARTIFACT)
    _run(environment | {"LOOKED": "3"}, *command)


def test_a_measured_index_fetches_and_serves_nothing_and_ends_when_it_is_told_to(
    store: Any, environment: dict[str, str], index: Path, tmp_path: Path
) -> None:
    _complete(store, ARTIFACT)
    _complete(store, RESULTS)
    artifact = str(tmp_path / "artifact")
    _run(environment, "fetch-index.sh", str(index), artifact)
    assert [path.name for path in (tmp_path / "artifact").iterdir()] == ["nothing-to-do"]
    with _waiting(environment, "serve-index.sh", str(index), artifact) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "nothing to serve\n"
        process.terminate()
        assert process.wait(timeout=20) == 0


def test_downloads_a_checkpoint_once_and_goes_on_where_it_stopped(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    files = {
        "config.json": b"{}",
        "model-00001-of-00002.safetensors": b"1" * 1000,
        "model-00002-of-00002.safetensors": b"2" * 1000,
        "pytorch_model.bin": b"the same weights for another framework",
    }
    prefix, stored = "models/example/target/1/", "model-00001-of-00002.safetensors"
    store.put_object(Bucket=BUCKET, Key=prefix + stored, Body=files[stored])
    with Hub({("example/target", "1" * 40): files}) as hub:
        environment |= {"HF_ENDPOINT": hub.url, "SCRATCH": str(tmp_path / "scratch")}
        argument = f"example/target@{'1' * 40}={prefix}"
        _run(environment, "download.py", argument)
        expected = {"config.json", "model-00001-of-00002.safetensors"} | {
            "model-00002-of-00002.safetensors"
        }
        assert keys(store) == sorted(prefix + name for name in (*expected, "_COMPLETE"))
        assert set(hub.downloads) == {"config.json", "model-00002-of-00002.safetensors"}
        body = store.get_object(Bucket=BUCKET, Key=f"{prefix}model-00002-of-00002.safetensors")
        assert body["Body"].read() == files["model-00002-of-00002.safetensors"]
        hub.downloads.clear()
        again = _run(environment, "download.py", argument)
        assert "nothing to do" in again.stdout
        assert hub.downloads == []


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "eagle_head.pt"])
def test_downloads_a_head_that_is_published_pickled(
    weights: str, store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    files = {
        "config.json": b"{}",
        weights: b"1" * 1000,
        "training_args.bin": b"what it was trained with",
        "optimizer.pt": b"how far it had come",
        "README.md": b"words",
    }
    prefix = "models/example/head/1/"
    with Hub({("example/head", "1" * 40): files}) as hub:
        environment |= {"HF_ENDPOINT": hub.url, "SCRATCH": str(tmp_path / "scratch")}
        _run(environment, "download.py", f"example/head@{'1' * 40}={prefix}")
    assert keys(store) == sorted(
        f"{prefix}{name}" for name in ("_COMPLETE", "config.json", weights)
    )


def _command(script: str, *arguments: str) -> list[str]:
    interpreter = "bash" if script.endswith(".sh") else sys.executable
    return [interpreter, str(SCRIPTS / script), *arguments]


def _run(
    environment: dict[str, str], script: str, *arguments: str, status: int = 0
) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        _command(script, *arguments),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == status, result.stderr
    return result


@contextlib.contextmanager
def _waiting(
    environment: dict[str, str], script: str, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """A script that waits for something; ended, if it still does."""
    command = _command(script, *arguments)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _says_twice(process: subprocess.Popen[str], line: str) -> None:
    """It has looked, and has looked again: it waits. One that ends says nothing more."""
    assert process.stdout is not None
    for _ in range(2):
        assert line in map(str.rstrip, process.stdout)


def _complete(store: Any, prefix: str) -> None:
    store.put_object(Bucket=BUCKET, Key=f"{prefix}_COMPLETE", Body=b"")
