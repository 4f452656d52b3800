"""Linters over every experiment of the matrix; ``make test`` has two of them."""

from __future__ import annotations

import kubernetes_validate

from stacks.cluster import KUBERNETES_VERSION
from tests.stacks.lint import findings
from tests.synthesis import Synthesised


def test_cfn_lint_finds_no_error(every: Synthesised) -> None:
    assert findings(every) == []


def test_cdk_nag_finds_nothing_that_is_not_acknowledged(every: Synthesised) -> None:
    # Synthesis with a finding fails; a plugin that found nothing is not in the report.
    reports = every.validation_report["pluginReports"]
    assert [report for report in reports if report["conclusion"] != "success"] == []


def test_manifests_follow_the_schemas_of_the_clusters_version(every: Synthesised) -> None:
    for manifests in every.manifests.values():
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
