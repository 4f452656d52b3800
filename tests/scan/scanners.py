"""The scanners of ``.venv-scan``, each as a function that returns its findings, one line each."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

from stacks.cluster import KUBERNETES_VERSION

ROOT: Final = Path(__file__).parent.parent.parent
TOOLS: Final = ROOT / ".venv-scan" / "bin"

FRAMEWORKS: Final = ("cloudformation", "kubernetes", "dockerfile", "github_actions")

Record = dict[str, Any]


def checkov(folder: Path) -> list[Record]:
    """Every failed and skipped check of the files below ``folder``, all in one run: it takes
    seconds to start."""
    result = _run("checkov", "--directory", folder, "--output", "json", "--framework", *FRAMEWORKS)
    reports = json.loads(result.stdout)
    assert sorted(report["check_type"] for report in reports) == sorted(FRAMEWORKS)
    assert not any(report["summary"]["parsing_errors"] for report in reports)
    return [
        record
        for report in reports
        for kind in ("failed_checks", "skipped_checks")
        for record in report["results"][kind]
    ]


def line(record: Record) -> str:
    check = f"{record['check_id']} {record['check_name']}"
    return f"{check}: {record['file_path']}, {record['resource']}"


def kube_score(manifests: list[Path]) -> list[str]:
    """Everything that it calls critical or worth a warning.

    A CPU limit is no finding: see ``charts.pods``. Its check is also that of
    memory, so it is told by a flag and not by an annotation, which would leave out both.
    """
    result = _run(
        "kube-score",
        "score",
        f"--kubernetes-version=v{KUBERNETES_VERSION}",
        "--ignore-container-cpu-limit",
        "--output-format=ci",
        *manifests,
    )
    lines = result.stdout.splitlines()
    assert any(finding.startswith("[OK]") for finding in lines), result.stderr
    return sorted(finding for finding in lines if re.match(r"\[(CRITICAL|WARNING)\]", finding))


def gitleaks(repository: Path) -> list[Record]:
    """Secrets in the commits of a repository, by the rules of this one."""
    rules = ROOT / ".gitleaks.toml"
    report = "--report-format=json", "--report-path=-"
    result = _run(
        "gitleaks", "git", repository, "--no-banner", "--redact", f"--config={rules}", *report
    )
    assert "commits scanned" in result.stderr, result.stderr
    secrets: list[Record] = json.loads(result.stdout)
    return secrets


def _run(tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a scanner. It ends with 0 if it finds nothing and with 1 if it does."""
    command = [str(TOOLS / tool), *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stderr
    return result
