"""Scanners that nobody here wrote find nothing but what is accepted with a reason.

Each would find a mistake that is made on purpose.
"""

import secrets
import string
import subprocess
from itertools import chain
from pathlib import Path

import kubernetes_validate

from stacks.cluster import KUBERNETES_VERSION
from tests.scan.conftest import CARELESS, SCANNED
from tests.scan.scanners import ROOT, Record, gitleaks, kube_score, line
from tests.stacks.lint import findings
from tests.synthesis import Synthesised


def careless(record: Record) -> bool:
    return CARELESS in Path(record["file_path"]).parts


def failed(record: Record) -> bool:
    return bool(record["check_result"]["result"] == "FAILED")


def test_linters_find_nothing_in_any_experiment_of_the_matrix(every: Synthesised) -> None:
    """``make test`` asks two of them. A finding of cdk-nag fails the synthesis."""
    assert findings(every) == []
    for manifest in chain.from_iterable(every.manifests.values()):
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


def test_checkov_finds_nothing(checked: list[Record]) -> None:
    """In templates, manifests, the benchmark's Dockerfile and the workflows."""
    findings = {line(record) for record in checked if failed(record) and not careless(record)}
    assert sorted(findings) == []


def test_what_checkov_skips_has_a_reason(checked: list[Record]) -> None:
    skipped = [record for record in checked if not failed(record)]
    assert len(skipped) > 40
    for record in skipped:
        assert len(record["check_result"]["suppress_comment"]) > 20, line(record)


def test_checkov_would_find_an_open_bucket_and_a_low_user(checked: list[Record]) -> None:
    ids = {record["check_id"] for record in checked if failed(record) and careless(record)}
    assert ids >= {"CKV_AWS_53", "CKV_K8S_40"}


def test_kube_score_finds_nothing(scanned: Path) -> None:
    for number, name in enumerate(SCANNED):
        assert kube_score(sorted((scanned / str(number)).glob("*.yaml"))) == [], name


def test_kube_score_would_find_a_low_user(scanned: Path) -> None:
    findings = kube_score([scanned / CARELESS / "job.yaml"])
    assert any("low user ID" in finding for finding in findings)


def test_gitleaks_finds_nothing() -> None:
    assert [(leak["File"], leak["StartLine"], leak["RuleID"]) for leak in gitleaks(ROOT)] == []


def test_gitleaks_would_find_a_key_that_was_taken_out_again(tmp_path: Path) -> None:
    key = "AKIA" + "".join(secrets.choice(string.ascii_uppercase + "234567") for _ in range(16))
    for text in (f"key = {key}\n", "key = none\n"):
        (tmp_path / "settings.ini").write_text(text)
        for command in ("init --quiet", "add .", "commit --quiet --message more"):
            author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
            subprocess.run(["git", *author, *command.split()], cwd=tmp_path, check=True)
    assert [leak["RuleID"] for leak in gitleaks(tmp_path)] == ["aws-access-token"]
