"""Linters over every experiment of the matrix; ``make test`` has two of them."""

import kubernetes_validate

from stacks.cluster import KUBERNETES_VERSION
from tests.stacks.lint import findings
from tests.synthesis import Synthesised


def test_cfn_lint_finds_no_error(every: Synthesised) -> None:
    """Nor does cdk-nag, whose findings fail the synthesis."""
    assert findings(every) == []


def test_manifests_follow_the_schemas_of_the_clusters_version(every: Synthesised) -> None:
    for manifests in every.manifests.values():
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
