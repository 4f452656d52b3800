"""Charts broken on purpose: what a schema lets pass, the control plane finds.

Each is looked at through what the other tests look through: applying, and the place of a pod.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from stacks.cluster import KUBERNETES_VERSION
from tests.cluster.api import Cluster, Refused
from tests.cluster.deployment import Manifests, Unschedulable, deployed, node_with_label
from tests.cluster.kubelets import Kubelets

TEMPLATE = ("ResourceClaimTemplate", "xl-trn2")
SERVICE = ("Deployment", "qwen-vllm")

Change = Callable[[Any], object]


def _request(template: Any) -> Any:
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    return request["exactly"]


def _expression(text: str) -> Change:
    return lambda template: _request(template).update(selectors=[{"cel": {"expression": text}}])


REFUSED: dict[str, tuple[tuple[str, str], Change, str]] = {
    "CEL that does not compile": (
        TEMPLATE,
        _expression("device.attributes['neuron.aws.com'].resourceType == "),
        "compilation failed",
    ),
    "attribute without a domain": (
        TEMPLATE,
        lambda t: t["spec"]["spec"]["devices"]["constraints"][0].update(
            matchAttribute="devicegroup8_id"
        ),
        "a fully qualified name must be a domain and a name",
    ),
}

UNSCHEDULABLE: dict[str, tuple[tuple[str, str], Change, str]] = {
    "attribute that no device has": (
        TEMPLATE,
        _expression("device.attributes['neuron.aws.com'].instanceTyp == 'trn2.48xlarge'"),
        "no such key: instanceTyp",
    ),
    "nine devices of a group of eight": (
        TEMPLATE,
        lambda t: _request(t).update(count=9),
        "cannot allocate all claims",
    ),
    "no toleration": (
        SERVICE,
        lambda d: d["spec"]["template"]["spec"].pop("tolerations"),
        "untolerated taint",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_refused(
    fault: str, cluster: Cluster, kubelets: Kubelets, manifests: Manifests, tmp_path: Path
) -> None:
    assert kubelets
    broken, message = _broken(manifests, REFUSED[fault], tmp_path)
    with pytest.raises(Refused, match=message), deployed(cluster, broken):
        pass


@pytest.mark.parametrize("fault", UNSCHEDULABLE)
def test_not_scheduled(
    fault: str, cluster: Cluster, kubelets: Kubelets, manifests: Manifests, tmp_path: Path
) -> None:
    assert kubelets
    broken, message = _broken(manifests, UNSCHEDULABLE[fault], tmp_path)
    with deployed(cluster, broken), pytest.raises(Unschedulable, match=message):
        node_with_label(cluster, "app", SERVICE[1])


def _broken(
    manifests: Manifests, fault: tuple[tuple[str, str], Change, str], directory: Path
) -> tuple[Manifests, str]:
    """The manifests with a fault that their schemas do not tell."""
    (kind, name), change, message = fault
    broken = manifests.changed(kind, name, change, directory / "broken")
    for manifest in broken.objects():
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
    return broken, message
