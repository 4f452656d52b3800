"""The ledger: nothing written is lost, whenever the process dies."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import jsonschema
import orjson
import pytest

import spectap
from spectap.errors import JournalError, RunError
from spectap.records import ledger
from spectap.records.journal import Journal, refuse_links, write_whole
from spectap.records.ledger import last_attempts, read_ledger
from tests import samples


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def test_reads_what_was_written(path: Path) -> None:
    written = [
        samples.record(),
        samples.record(case="Ümläut\n\u2028", sent=0.1 + 0.2, chunks=(), prompt_tokens=2**53),
        samples.record(
            status=None, error="reset", output_tokens=None, end=1e-9, due=1e9, attempt=2
        ),
    ]
    with Journal(path) as open_ledger:
        for record in written:
            open_ledger.append(record)
    assert read_ledger(path) == written


def test_a_line_of_another_version_is_refused_by_its_place(path: Path) -> None:
    assert read_ledger(path) == []
    # Keys that it does not know are left alone.
    lines = [asdict(samples.record()) | more for more in ({"later": 1}, {"version": 2})]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with pytest.raises(JournalError, match=rf"^{path}:2: version: Input should be 1$"):
        read_ledger(path)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ("[[0.1, 1], [1, 2]]", ""),
        ("[[1e11, 1], [1e11, 2]]", ""),
        ("[]", ""),
        ("[[-0.1, 1]]", "chunks.0.0: Input should be greater than or equal to 0"),
        ("[[1e12, 1]]", "chunks.0.0: Input should be less than or equal to"),
        ("[[0.1, 1], [NaN, 1]]", "chunks.1.0: Input should be a finite number"),
        ("[[0.1, -1], [0.2, 2]]", "chunks.0.1: Input should be greater than or equal to 0"),
        ("[[0.1, 1.5]]", "chunks.0.1: Input should be a valid integer"),
        ("[[0.1, 1], [0.2]]", "chunks.1.1: Field required"),
        ("7", "chunks: Input should be a valid "),
    ],
)
def test_chunks_are_packed_and_each_is_validated(path: Path, chunks: str, message: str) -> None:
    line = json.dumps(asdict(samples.record(chunks=())))
    path.write_text(line.replace('"chunks": []', f'"chunks": {chunks}') + "\n", encoding="utf-8")
    if message:
        with pytest.raises(JournalError, match=rf"^{path}:1: {message}"):
            read_ledger(path)
    else:
        assert read_ledger(path)[0].chunks == tuple(map(tuple, json.loads(chunks)))


def test_the_published_schema_is_that_of_the_lines() -> None:
    published = json.loads(Path(spectap.__file__).with_name("ledger.schema.json").read_text())
    assert published == ledger.schema()
    jsonschema.validate(json.loads(orjson.dumps(samples.record())), published)
    for description in published["properties"].values():
        assert description["description"]


def test_an_attempt_takes_the_place_of_the_one_before_on_all_variants() -> None:
    counted = [
        samples.record(variant="SD", attempt=2),
        samples.record(variant="SD", round=2),
        samples.record(variant="SD", case="sonnets"),
        samples.record(variant="Base", run="another"),
        # Of controls each attempt counts.
        samples.record(variant="SD", round=-1),
        samples.record(variant="SD", round=-1, attempt=2),
    ]
    replaced = [samples.record(variant="SD"), samples.record(variant="Base")]
    assert last_attempts([*replaced, *counted]) == counted
    assert last_attempts([*counted, *replaced]) == counted
    # Variants that are measured apart have attempts of their own.
    assert last_attempts([*replaced, *counted], isolated=True) == [replaced[1], *counted]


@pytest.mark.parametrize("length", [1, 200])
def test_a_torn_last_line_counts_as_not_written(path: Path, length: int) -> None:
    first, second = samples.record(request="first"), samples.record(request="second")
    with Journal(path) as open_ledger:
        open_ledger.append(first)
    content = path.read_bytes()
    path.write_bytes(content + content[:length])
    assert read_ledger(path) == [first]
    with Journal(path) as open_ledger:
        open_ledger.append(second)
    assert read_ledger(path) == [first, second]
    path.write_bytes(b"x" * 200_000)
    with Journal(path) as open_ledger:
        open_ledger.append(first)
    assert read_ledger(path) == [first]


def test_a_full_disk_leaves_whole_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with Journal(path) as open_ledger:
        open_ledger.append(samples.record())
        with monkeypatch.context() as disk:
            disk.setattr(os, "write", lambda file, data: write(file, data[:10]))
            with pytest.raises(OSError, match="10 of"):
                open_ledger.append(samples.record())
        open_ledger.append(samples.record(request="next"))
    assert [record.request for record in read_ledger(path)] == ["q", "next"]


def test_a_line_is_written_whatever_its_values(path: Path) -> None:
    with Journal(path) as open_ledger:
        open_ledger.append(samples.record(output_tokens=2**64, request="\ud800"))
        open_ledger.append({"counters": [2**64]})
    first, second = map(json.loads, path.read_bytes().splitlines())
    assert (first["output_tokens"], first["request"]) == (2**64, "?")
    assert second == {"counters": [2**64]}
    with pytest.raises(JournalError, match=rf"^{path}:1: output_tokens: Input should be less"):
        read_ledger(path)


@pytest.mark.parametrize("target", ["elsewhere.txt", "."])
def test_nothing_is_written_through_a_link(tmp_path: Path, target: str) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere.txt"
    folder.mkdir()
    elsewhere.write_text("mine", encoding="utf-8")
    for name in ("report.html", "report.html.draft"):
        (folder / name).symlink_to(tmp_path / target)
    with pytest.raises(RunError, match=r"report.html.*: is a symbolic link"):
        refuse_links(folder)
    write_whole(folder / "report.html", [b"theirs"])
    assert (folder / "report.html").read_bytes() == b"theirs"
    assert elsewhere.read_text(encoding="utf-8") == "mine"
    refuse_links(folder)


def test_kill_9_right_after_the_write_loses_nothing(path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path;"
        "from spectap.records.journal import Journal;"
        "from tests import samples; ledger = Journal(Path(sys.argv[1]));"
        "[ledger.append(samples.record(request=str(i))) for i in range(50)];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [record.request for record in read_ledger(path)] == [str(i) for i in range(50)]
