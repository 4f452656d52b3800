"""An embedded AWS, empty, and one with the stacks of the matrix, each started once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.aws.cdk import Cdk
from rehearsal.aws.client import Aws, embedded_aws
from rehearsal.rehearse import stacks
from tests.matrix import MATRIX
from tests.synthesis import ROOT, Synthesised

REGION = "us-east-2"


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """An AWS that nothing was deployed to."""
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws


@pytest.fixture(scope="session")
def deployed(
    of_matrix: Callable[[str], Synthesised], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aws]:
    """Another one, with the bucket, the roles and the dashboards of each experiment."""
    matrix = [of_matrix(name) for name in MATRIX]
    assert len({one.experiment.name for one in matrix}) == len(matrix)
    logs = tmp_path_factory.mktemp("deployed")
    cdk = Cdk(ROOT, assembly_of_all(matrix, logs), logs)
    with embedded_aws(REGION, logs / "aws.log") as aws:
        cdk.bootstrap(aws)
        cdk.deploy(aws, [stack for one in matrix for stack in stacks(one.experiment)])
        yield aws


def assembly_of_all(matrix: Iterable[Synthesised], directory: Path) -> Path:
    """A cloud assembly with the stacks of all: the CLI takes longer to start than to deploy."""
    artifacts: dict[str, Any] = {}
    for synthesised in matrix:
        for path in synthesised.directory.glob("*.json"):
            shutil.copy(path, directory)
        manifest = json.loads((directory / "manifest.json").read_text())
        artifacts |= manifest["artifacts"]
    (directory / "manifest.json").write_text(json.dumps(manifest | {"artifacts": artifacts}))
    return directory
