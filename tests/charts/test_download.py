"""The download of checkpoints, from as much of the Hugging Face Hub as it asks for."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from tests.charts.conftest import BUCKET, keys, run

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
