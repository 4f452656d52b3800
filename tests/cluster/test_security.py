"""What the namespace lets in."""

import copy
import json
from pathlib import Path

import pytest
from kubernetes.client import ApiException

from tests.cluster.api import NAMESPACE, Cluster, Manifest
from tests.cluster.deployment import objects


def _dry_run(cluster: Cluster, template: Manifest) -> None:
    """Lets admission see a pod, and keeps none of it. Raises ApiException."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": template["metadata"]["labels"]},
        "spec": {"restartPolicy": "Never", **template["spec"]},
    }
    cluster.create(pod, NAMESPACE, dry_run="All")


def test_every_pod_is_let_in_and_none_as_root(cluster: Cluster, deployment: Path) -> None:
    made_by = [o for o in objects(deployment) if o["kind"] in ("Deployment", "Job", "Pod")]
    assert len(made_by) == 6
    for manifest in made_by:
        name = manifest["metadata"]["name"]
        template = manifest if manifest["kind"] == "Pod" else manifest["spec"]["template"]
        _dry_run(cluster, template)
        forbidden = copy.deepcopy(template)
        forbidden["spec"]["securityContext"].update(runAsUser=0, runAsNonRoot=False)
        with pytest.raises(ApiException) as refusal:
            _dry_run(cluster, forbidden)
        assert refusal.value.status == 403, name
        message = json.loads(refusal.value.body)["message"]
        assert 'violates PodSecurity "restricted:latest"' in message, name
        assert "runAsNonRoot" in message, name
