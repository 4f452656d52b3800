"""What the scanners are shown, in one folder, and what checkov says of it."""

import json
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.matrix import FIRST_START, MEDUSA, SWEEP, WHOLE_NODES
from tests.scan.scanners import ROOT, TOOLS, Record, checkov
from tests.synthesis import Of

SCANNED: Final = ("article", WHOLE_NODES, SWEEP, FIRST_START, MEDUSA)
"""One of each kind: services, an image and addresses of the user's own, indexes, first starts and
jobs."""
CARELESS: Final = "careless"
"""Where mistakes are, made on purpose."""

BUCKET: Final = {"Resources": {"Open": {"Type": "AWS::S3::Bucket", "Properties": {}}}}
JOB: Final = """\
apiVersion: batch/v1
kind: Job
metadata: {name: careless, namespace: default}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: one, image: "python:3", securityContext: {runAsUser: 0}}]
"""


def pytest_runtest_setup() -> None:
    """Without scanners nothing here means anything."""
    if not (TOOLS / "checkov").exists():
        pytest.exit(f"no scanners in {TOOLS}: run make scan", returncode=1)


@pytest.fixture(scope="session")
def scanned(of_matrix: Of, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Templates and manifests by the number of their experiment, the Dockerfile, the workflows.

    Not the assets that lie beside templates.
    """
    folder = tmp_path_factory.mktemp("scanned")
    for number, name in enumerate(SCANNED):
        subfolder = folder / str(number)
        subfolder.mkdir()
        beside = of_matrix(name).directory.parent
        for file in (*beside.glob("cdk.out/*.template.json"), *beside.glob("dist/*.k8s.yaml")):
            shutil.copy(file, subfolder)
    shutil.copytree(ROOT / ".github", folder / ".github")
    shutil.copy(ROOT / "packages" / "spectap" / "Dockerfile", folder)
    (folder / CARELESS).mkdir()
    (folder / CARELESS / "bucket.template.json").write_text(json.dumps(BUCKET))
    (folder / CARELESS / "job.yaml").write_text(JOB)
    return folder


@pytest.fixture(scope="session")
def checked(scanned: Path) -> list[Record]:
    return checkov(scanned)
