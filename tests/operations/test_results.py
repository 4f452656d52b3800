"""Runs in the bucket are listed, and come home whole."""

import json
import re
from pathlib import Path

import pytest

from operations import results
from operations.account import Bucket, Deployment, DeploymentError
from tests.operations import conftest
from tests.operations.fake_aws import FakeAws
from tests.run_make import ROOT, contents

EARLIER_RUN = ROOT / "packages" / "spectap" / "tests" / "earlier_run"
CONFIG = json.dumps({"variants": [{"name": "Base"}, {"name": "SD"}]})
SERVICES = {
    "config.json": CONFIG,
    "ledger.jsonl": "{}\n",
    "llmperf/a/Base/round-1/x.json": "{}",
    "report.html": "<html>",
    "_COMPLETE": "",
}
MEASURED = {name: text.encode() for name, text in SERVICES.items() if name != "report.html"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are called in, where no page is drawn."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(results, "draw", lambda folder: "")
    return folder


def put(aws: FakeAws, run: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        conftest.put(aws, f"results/{run}/{name}", body=text)


def test_only_what_is_missing_or_has_changed_comes_again(
    aws: FakeAws, deployment: Deployment, tmp_path: Path
) -> None:
    with pytest.raises(DeploymentError, match="has no results yet"):  # without a bucket
        results.show(deployment, None)
    put(aws, "run-1", SERVICES)
    lines, folder = list[str](), tmp_path / "results" / "run-1"

    def bring() -> str:
        (run,) = results.listing(deployment)[0]
        assert results.download(deployment, run, into=folder.parent, say=lines.append) == folder
        return lines[-1]

    printed = bring()
    assert contents(folder) == MEASURED
    assert printed == f"4 files, 0.0 MB, into {folder}"  # the page is drawn at home

    (folder / "config.json").unlink()
    put(aws, "run-1", {"ledger.jsonl": "{}\n{}\n"})
    (folder / "_COMPLETE.draft").write_text("half of an earlier try")
    assert bring() == f"2 files, 0.0 MB, into {folder}; 2 were here"
    assert (folder / "ledger.jsonl").read_text() == "{}\n{}\n"

    # What is longer than it was when it was listed is not written until a disk is full.
    (run,) = results.listing(deployment)[0]
    put(aws, "run-1", {"ledger.jsonl": "{}\n" * 10**6})
    (folder / "ledger.jsonl").unlink()
    with pytest.raises(DeploymentError, match="refused: longer than the bucket listed it"):
        results.download(deployment, run, into=folder.parent)
    assert not (folder / "ledger.jsonl").exists()


def test_a_run_of_indexes_is_complete_when_none_is_missing(
    aws: FakeAws, deployment: Deployment
) -> None:
    put(aws, "sweep-1", {"sweep.json": CONFIG, "variants/Base-1234/ledger.jsonl": "{}\n"})
    for body, is_complete in (
        ('{"complete": ["Base"], "missing": {"SD": "not complete"}}', False),
        ("[" * 10**6, False),  # whoever may write to the bucket chooses it
        ("[]", False),
        ('{"complete": [], "missing": {}}', True),
    ):
        put(aws, "sweep-1", {"merged.json": body})
        (run,) = results.listing(deployment)[0]
        assert run.complete is is_complete
    assert "variants/Base-1234/ledger.jsonl" in [each.name for each in run.measured]


def test_several_runs_are_listed_and_one_is_named(
    aws: FakeAws, deployment: Deployment, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(aws, "aaaa-1", SERVICES)
    put(aws, "aabb-2", {"config.json": CONFIG})
    assert results.show(deployment, None) == 0
    listed = capsys.readouterr().out
    assert re.search(r"aaaa-1 .* UTC +complete\n.*aabb-2 .* UTC +not complete\n", listed)
    assert not (home / "results").exists()

    assert results.show(deployment, "aabb") == 0
    assert "This run is not complete" in capsys.readouterr().out
    with pytest.raises(DeploymentError, match="several runs begin so: aaaa-1, aabb-2"):
        results.show(deployment, "aa")
    with pytest.raises(DeploymentError, match="no run begins so"):
        results.show(deployment, "zz")


def test_the_report_is_drawn_at_home(
    aws: FakeAws,
    deployment: Deployment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever may write to the bucket may put any page and any name there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path))
    config = json.loads((EARLIER_RUN / "config.json").read_text())
    files = {
        "config.json": json.dumps(config | {"experiment": "<script>alert(1)</script>"}),
        "ledger.jsonl": (EARLIER_RUN / "ledger.jsonl").read_text(),
        **dict.fromkeys(("report.html", "summary.json", "a.png"), "<script>alert(2)</script>"),
        "_COMPLETE": "",
    }
    put(aws, "run-1", files)
    assert results.show(deployment, None) == 0
    printed_lines = capsys.readouterr().out.splitlines()
    assert printed_lines[-2].startswith("3 files")
    assert printed_lines[-1] == "report: results/run-1/report.html"
    page = (tmp_path / printed_lines[-1].removeprefix("report: ")).read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert not (tmp_path / "results/run-1/a.png").exists()


REFUSED = "refused, as no file of a run, or above 16 MiB:"
HOSTILE = ("`touch ran`", "$(shell touch ran)", "a\n::error::forged\x1b[2J", "-rf", "..")


def test_a_key_that_names_no_file_of_a_run_is_refused_in_one_line(
    aws: FakeAws, deployment: Deployment, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # On some file systems Report.html is report.html.
    pages = ("Report.html", "index.html", "x.svg", ".envrc", "llmperf/.env/a.json", "Summary.json")
    put(aws, "run-1", SERVICES | dict.fromkeys(("../../outside", "a\x1b[2J/\n", *pages), "x"))
    for run in HOSTILE:
        put(aws, run, SERVICES)
    # The newest of all is none of them.
    assert [run.id for run in results.listing(deployment)[0]] == ["run-1"]
    assert results.show(deployment, None) == 0
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"{REFUSED} results/%24%28shell%20touch%20ran%29/")
    assert line.endswith(" (32 in all)")
    assert "forged" not in printed.out
    assert all(line.isprintable() for line in printed.out.splitlines())
    # All that was measured has come, and nothing else.
    assert contents(home) == {f"results/run-1/{name}": data for name, data in MEASURED.items()}
    for run_id in HOSTILE[:4]:
        with pytest.raises(DeploymentError, match=r"^RUN = '[ -~]+': must match \[A-Za-z0-9\]"):
            results.show(deployment, run_id)


def test_pages_of_single_variants_stay(
    aws: FakeAws, deployment: Deployment, tmp_path: Path
) -> None:
    put(aws, "run-1", SERVICES | {"variants/k7/report.html": "<html>"})
    lines = list[str]()
    (run,) = results.listing(deployment)[0]
    results.download(deployment, run, into=tmp_path, say=lines.append)
    assert contents(tmp_path / "run-1") == MEASURED
    assert lines[-1].startswith("1 pages and pictures of single variants stay in the bucket")


def test_what_is_too_large_to_read_is_not_read(aws: FakeAws, deployment: Deployment) -> None:
    put(aws, "run-1", {"merged.json": "{}" + " " * (16 << 20)})
    _, refusal = results.listing(deployment)
    assert refusal == f"{REFUSED} results/run-1/merged.json (1 in all)"
    assert Bucket(deployment).read("results/run-1/merged.json") is None
