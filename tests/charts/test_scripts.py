"""What pods run to download, compile, serve and generate, against an embedded S3 and Hub."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from charts.sweep_job import EXIT_PERMANENT, EXIT_RETRY
from tests.charts.conftest import BUCKET, client, complete, keys, run, running

ARTIFACT: Final = "compiled/key/"
PARTS: Final = ("model.pt", "neuron_config.json", "weights")
CHECKPOINTS: Final = ("models/example/target/1/", "models/example/draft/2/")
RESULTS: Final = "results/mine-0123abcd/variants/k7-0a1b2c3d/"
COMPILER: Final = (
    *("bash", "-c"),
    'cd "$0/artifact"; mkdir weights; touch model.pt neuron_config.json weights/tp0',
)


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def files(folder: Path) -> list[str]:
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())


@pytest.mark.parametrize(
    ("devices", "folders", "status", "line"),
    [
        (2, 0, 0, "opened 2 devices"),
        # Not even root opens a folder for writing.
        (1, 1, EXIT_PERMANENT, "cannot open 1 of 2 devices: see docs/assumptions.md"),
        (0, 0, EXIT_PERMANENT, "the claim is of 2 devices, and the pod has 0"),
    ],
)
def test_a_pod_whose_devices_do_not_open_ends(
    environment: dict[str, str], tmp_path: Path, devices: int, folders: int, status: int, line: str
) -> None:
    for number in range(devices):
        (tmp_path / f"neuron{number}").touch()
    for number in range(devices, devices + folders):
        (tmp_path / f"neuron{number}").mkdir()
    printed = run(environment, "devices.sh", "2", str(tmp_path), status=status).stdout
    assert line in printed.splitlines()[-1]
    for number in range(devices + folders):
        assert f"{tmp_path}/neuron{number}" in printed


def test_a_listing_that_hangs_does_not_hold_the_node(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "neuron0").touch()
    programs = tmp_path / "bin"
    executable(programs / "neuron-ls", "exec sleep 9")
    # The real one, with less patience than the script has.
    executable(programs / "timeout", f'exec {shutil.which("timeout")} "0.$1" "${{@:2}}"')
    tools = environment | {"PATH": f"{programs}:{environment['PATH']}"}
    output = run(tools, "devices.sh", "1", str(tmp_path)).stdout.splitlines()
    assert output[0] == "neuron-ls ended with status 124"
    assert output[-1] == f"user {os.getuid()} opened 1 devices"


def test_an_artifact_is_compiled_once_marked_last_and_fetched_as_it_was_made(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """With the configuration of a prepared draft, whose weights are in the shards."""
    scratch, directory = tmp_path / "scratch", tmp_path / "artifact"
    for name in ("artifact/leftover", "draft/config.json", "draft/model.safetensors"):
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(name)
    parts = [*PARTS, "draft/config.json"]
    run(environment, "compile.sh", str(scratch), *COMPILER, str(scratch))
    run(environment, "upload-artifact.sh", ARTIFACT, *parts, str(scratch))
    expected = ["draft/config.json", "model.pt", "neuron_config.json", "weights/tp0"]
    assert keys(store) == [f"{ARTIFACT}{name}" for name in ("_COMPLETE", *expected)]
    run(environment, "fetch-artifact.sh", ARTIFACT, str(directory))
    assert files(directory) == expected
    assert (directory / "draft" / "config.json").read_text() == "draft/config.json"

    (tmp_path / "again").mkdir()
    before, again = keys(store), str(tmp_path / "again")
    run(environment, "await-checkpoints.sh", ARTIFACT, *CHECKPOINTS, again)
    run(environment, "compile.sh", again, "false")
    run(environment, "upload-artifact.sh", ARTIFACT, *PARTS, again)
    assert keys(store) == before


def test_a_failed_compile_fails_the_job_and_half_an_artifact_is_not_marked(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    run(environment, "compile.sh", str(tmp_path), "false", status=1)
    (tmp_path / "artifact" / "model.pt").touch()
    result = run(environment, "upload-artifact.sh", ARTIFACT, *PARTS, str(tmp_path), status=1)
    assert "the compiler left no neuron_config.json" in result.stderr
    assert keys(store) == []


def test_a_compile_waits_for_checkpoints_and_a_service_for_the_artifact(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    artifact, refused = str(tmp_path / "artifact"), environment | {"BUCKET": "nobody-s"}
    complete(store, CHECKPOINTS[0])
    store.put_object(Bucket=BUCKET, Key=f"{ARTIFACT}model.pt", Body=b"half of it")
    with (
        running(environment, "await-checkpoints.sh", ARTIFACT, *CHECKPOINTS, artifact) as compiles,
        running(environment, "fetch-artifact.sh", ARTIFACT, artifact) as serves,
        running(refused, "fetch-artifact.sh", ARTIFACT, artifact) as asks,
    ):
        prints_twice(compiles, f"waiting for s3://{BUCKET}/{CHECKPOINTS[1]}")
        prints_twice(serves, f"waiting for s3://{BUCKET}/{ARTIFACT}")
        prints_twice(asks, f"waiting for s3://nobody-s/{ARTIFACT}")
        assert not (tmp_path / "artifact").exists()
        complete(store, CHECKPOINTS[1])
        assert compiles.wait(timeout=20) == 0
        complete(store, ARTIFACT)
        assert serves.wait(timeout=20) == 0
    assert files(tmp_path / "artifact") == ["model.pt"]


def prints_twice(process: subprocess.Popen[str], line: str) -> None:
    """It has looked, and has looked again: it waits. One that ends prints nothing more."""
    assert process.stdout is not None
    for _ in range(2):
        assert line in map(str.rstrip, process.stdout)


@pytest.fixture
def index(environment: dict[str, str], tmp_path: Path) -> Path:
    """The ConfigMap of a sweep, mounted; the environment is that of index 1."""
    environment |= {"JOB_COMPLETION_INDEX": "1", "RUN_ID": "mine-0123abcd", "LOOKS": "4"}
    folder = tmp_path / "config"
    folder.mkdir()
    words = ["printf", "%s.", "two words", '{"a":"$HOME"}', "*", ""]
    for name, text in {
        "0.artifact": "compiled/other/",
        "0.variant": "Base",
        "1.artifact": ARTIFACT,
        "1.variant": "k7",
        "1.folder": "k7-0a1b2c3d",
        "1.serve": "\n".join(words),
        "1.generate": "inference_demo\n--prompt\ntwo words",
    }.items():
        (folder / name).write_text(f"{text}\n")
    (tmp_path / "artifact").mkdir()
    return folder


def test_an_index_fetches_its_own_artifact_and_serves_with_its_own_command(
    store: Any, environment: dict[str, str], index: Path, tmp_path: Path
) -> None:
    for key in ("model.pt", "weights/tp0"):
        store.put_object(Bucket=BUCKET, Key=f"{ARTIFACT}{key}", Body=b"graph")
    complete(store, ARTIFACT)
    # Begun and not complete, as that of a variant whose name this one begins with is.
    store.put_object(Bucket=BUCKET, Key=f"{RESULTS}ledger.jsonl", Body=b"")
    complete(store, "results/mine-0123abcd/variants/k7-b8/")
    artifact = tmp_path / "artifact"
    run(environment, "fetch-index.sh", str(index), str(artifact))
    assert files(artifact) == ["model.pt", "weights/tp0"]
    output = run(environment, "serve-index.sh", str(index), str(artifact)).stdout
    assert output.endswith('two words.{"a":"$HOME"}.*..')


def test_an_index_without_an_artifact_gives_up_in_a_way_that_is_no_failure(
    store: Any, environment: dict[str, str], index: Path, tmp_path: Path
) -> None:
    store.put_object(Bucket=BUCKET, Key=f"{ARTIFACT}model.pt", Body=b"half of it")
    words = ["fetch-index.sh", str(index), str(tmp_path / "artifact")]
    for looked in ("", "2"):
        result = run(environment | {"LOOKED": looked}, *words, status=EXIT_RETRY)
        assert f"s3://{BUCKET}/{ARTIFACT} is not there yet" in result.stdout
    last = run(environment | {"LOOKED": "3"}, *words, status=EXIT_PERMANENT)
    assert "is not there after 4 looks: see its compile Job" in last.stderr
    assert not [*(tmp_path / "artifact").iterdir()]
    # A bucket that refuses is no "not yet".
    refused = run(environment | {"BUCKET": "nobody-s"}, *words, status=1)
    assert refused.stderr.endswith("s3://nobody-s could not be listed\n")
    complete(store, ARTIFACT)
    run(environment | {"LOOKED": "3"}, *words)


def test_a_measured_index_fetches_and_serves_nothing_and_ends_when_it_is_told_to(
    store: Any, environment: dict[str, str], index: Path, tmp_path: Path
) -> None:
    complete(store, ARTIFACT)
    complete(store, RESULTS)
    artifact, results = tmp_path / "artifact", tmp_path / "results"
    run(environment, "fetch-index.sh", str(index), str(artifact))
    assert files(artifact) == ["nothing-to-do"]
    words = [str(index), str(artifact), str(results)]
    assert run(environment, "generate.sh", *words).stdout == "nothing to generate\n"
    assert not results.exists()
    with running(environment, "serve-index.sh", str(index), str(artifact)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "nothing to serve\n"
        process.terminate()
        assert process.wait(timeout=20) == 0


def test_report_and_log_of_a_job_are_in_the_variant_s_folder(
    environment: dict[str, str], index: Path, tmp_path: Path
) -> None:
    """A command line that is refused is not tried again."""
    demo = tmp_path / "bin" / "inference_demo"
    executable(
        demo,
        'echo "$@"; echo trouble >&2; [[ $STATUS == 0 ]] || exit "$STATUS"\n'
        "while [[ $1 != --benchmark-report-path ]]; do shift; done; echo '{}' >\"$2\"",
    )
    environment["PATH"] = f"{demo.parent}:{environment['PATH']}"
    words = ["generate.sh", *(str(tmp_path / name) for name in ("config", "artifact", "results"))]
    printed = run(environment | {"STATUS": "0"}, *words).stdout
    assert (tmp_path / RESULTS / "inference_demo.json").read_text() == "{}\n"
    log = (tmp_path / RESULTS / "inference_demo.log").read_text()
    assert log.startswith("--prompt two words --benchmark-report-path ")
    assert "trouble" in log
    assert log in printed
    for status, expected in ((2, EXIT_PERMANENT), (1, 1), (137, 137)):
        run(environment | {"STATUS": str(status)}, *words, status=expected)
    demo.unlink()
    run(environment, *words, status=EXIT_PERMANENT)


PACKAGES: Final = {
    "neuronx_distributed_inference/utils/hf_adapter.py": """\
class HuggingFaceGenerationAdapter:
    def _medusa_assisted_decoding(self, input_ids, assistant, criteria, pad, eos, **others):
        print(input_ids, assistant, criteria, pad, eos, others)
""",
    "neuronx_distributed_inference/inference_demo.py": """\
import sys
from neuronx_distributed.utils import medusa_utils
from neuronx_distributed_inference.utils.hf_adapter import HuggingFaceGenerationAdapter

class Tokens(list):
    def clamp(self, min):
        return [max(min, token) for token in self]

def main():
    print(sys.argv, medusa_utils.TOPK)
    adapter = HuggingFaceGenerationAdapter()
    adapter._medusa_assisted_decoding(Tokens([0, 7]), "model", "ends", 5, [], seed=1)
""",
    "neuronx_distributed/utils/medusa_utils.py": "TOPK = 10\n",
}


def test_medusa_gets_an_end_token_that_never_comes_and_the_compiled_candidates(
    tmp_path: Path,
) -> None:
    words = ["benchmark_medusa.py", "run", "--global-topk", "16"]
    image = {"PYTHONPATH": str(tmp_path)}
    unknown = run(image, *words, status=EXIT_PERMANENT)
    assert unknown.stderr.startswith("benchmark_medusa: this is not the inference_demo we know")
    for name, text in PACKAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert run(image, *words).stdout.splitlines() == [
        "['inference_demo', 'run', '--global-topk', '16'] 16",
        "[1, 7] model ends 5 -1 {'seed': 1}",
    ]


def test_the_key_gets_from_the_secret_into_the_servers_environment(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Without its key a server does not start."""
    manager, file = client("secretsmanager", environment), tmp_path / "key"
    environment |= {"AWS_MAX_ATTEMPTS": "1"}
    fetched = run(environment, "fetch-key.sh", "no/such", str(file), status=255)
    assert "ResourceNotFoundException" in fetched.stderr
    assert run(environment, "with-key.sh", str(tmp_path / "none"), "echo", status=1).stdout == ""
    manager.create_secret(Name="article/api-key", SecretString="sesame-and-more")
    fetched = run(environment, "fetch-key.sh", "article/api-key", str(file))
    assert "sesame" not in fetched.stdout + fetched.stderr
    assert file.stat().st_mode & 0o077 == 0
    show = "import json, os, sys; print(json.dumps([os.environ['VLLM_API_KEY'], sys.argv[1:]]))"
    served = run(environment, "with-key.sh", str(file), sys.executable, "-c", show, "--port", "1")
    assert json.loads(served.stdout) == ["sesame-and-more", ["--port", "1"]]


REVISION: Final = "1" * 40
PREFIX: Final = "models/example/target/1/"
ARGUMENT: Final = f"example/target@{REVISION}={PREFIX}"


@contextmanager
def hub(files: Mapping[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A hub on loopback with one revision, and the paths that somebody has downloaded.

    The tree is JSON; a file has its ETag, length and commit in the headers.
    """
    downloads: list[str] = []
    answers: dict[str, tuple[bytes, dict[str, str]]] = {}
    tree = []
    for name, content in files.items():
        digest = hashlib.sha1(content).hexdigest()
        tree.append({"type": "file", "path": name, "size": len(content), "oid": digest})
        headers = {"ETag": f'"{digest}"', "X-Repo-Commit": REVISION}
        answers[f"/example/target/resolve/{REVISION}/{name}"] = content, headers
    answers[f"/api/models/example/target/tree/{REVISION}"] = json.dumps(tree).encode(), {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            body, headers = answers[path]
            self.send_response(200)
            for header, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)
                if headers:
                    downloads.append(path.rpartition("/")[2])

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", downloads
    server.shutdown()
    server.server_close()


def test_downloads_a_checkpoint_once_and_goes_on_where_it_stopped(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    files = {
        "config.json": b"{}",
        shards[0]: b"1" * 1000,
        shards[1]: b"2" * 1000,
        "pytorch_model.bin": b"the same weights for another framework",
    }
    store.put_object(Bucket=BUCKET, Key=PREFIX + shards[0], Body=files[shards[0]])
    with hub(files) as (url, downloads):
        environment |= {"HF_ENDPOINT": url, "SCRATCH": str(tmp_path / "scratch")}
        run(environment, "download.py", ARGUMENT)
        assert keys(store) == sorted(
            PREFIX + name for name in ("config.json", *shards, "_COMPLETE")
        )
        assert sorted(downloads) == ["config.json", shards[1]]
        body = store.get_object(Bucket=BUCKET, Key=PREFIX + shards[1])["Body"]
        assert body.read() == files[shards[1]]
        assert "nothing to do" in run(environment, "download.py", ARGUMENT).stdout
        assert len(downloads) == 2


def test_downloads_a_head_that_is_published_pickled(
    store: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    head = ("config.json", "eagle_head.pt", "pytorch_model.bin")
    names = (*head, "training_args.bin", "optimizer.pt", "README.md")
    with hub(dict.fromkeys(names, b"{}")) as (url, _):
        environment |= {"HF_ENDPOINT": url, "SCRATCH": str(tmp_path / "scratch")}
        run(environment, "download.py", ARGUMENT)
    assert keys(store) == [f"{PREFIX}{name}" for name in ("_COMPLETE", *head)]
