"""The constructs for a cluster that exists: synthesised as the example says."""

import json
import re
import runpy
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks

from tests.synthesis import CONTEXT, ROOT


def test_every_cluster_in_the_example_is_the_imported_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cdk.App(outdir=str(tmp_path), context=CONTEXT)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    monkeypatch.setattr(cdk, "App", lambda: app)
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(ROOT / "examples" / "existing_cluster.py"))
    text = (tmp_path / "platform-neuron.template.json").read_text()
    clusters = re.findall(r'ClusterName\\?": ?\\?"([^"\\]+)', text)
    assert len(clusters) == 3
    assert {*clusters} == {"platform"}
    assert "article" not in text
    types = [resource["Type"] for resource in json.loads(text)["Resources"].values()]
    assert {"AWS::EKS::Nodegroup", "Custom::AWSCDK-EKS-HelmChart"} < {*types}
    assert "AWS::EKS::Cluster" not in types
