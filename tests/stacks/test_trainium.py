from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from experiment.runtimes import RUNTIMES, Runtime
from stacks.cluster import KUBERNETES_VERSION
from tests.matrix import MATRIX, RESERVATION
from tests.stacks.templates import node_group, sized
from tests.synthesis import Synthesised


def test_capacity_is_bought_as_the_experiment_says(
    of_matrix: Callable[[str], Synthesised],
) -> None:
    reserved = {"CapacityReservationTarget": {"CapacityReservationId": RESERVATION}}
    names = {c.get("capacity.purchase", "on-demand"): name for name, c in MATRIX.items()}
    for purchase, kind, target, market in (
        ("on-demand", "ON_DEMAND", None, None),
        ("spot", "SPOT", None, None),
        ("reservation", "ON_DEMAND", reserved, None),
        ("capacity-block", "CAPACITY_BLOCK", reserved, {"MarketType": "capacity-block"}),
    ):
        name = "article" if purchase == "on-demand" else names[purchase]
        template, group = _template(of_matrix(name)), _group(of_matrix(name))
        assert group["CapacityType"] == kind
        assert template.get("CapacityReservationSpecification") == target
        assert template.get("InstanceMarketOptions") == market
        # A Capacity Block accepts no placement group, and a reservation only its own.
        assert ("Placement" in template) == (target is None)


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_the_ami_is_of_the_clusters_kubernetes(runtime: Runtime) -> None:
    assert re.fullmatch(rf"{re.escape(KUBERNETES_VERSION)}\.\d+-\d{{8}}", runtime.ami_release)


def test_no_trainium_node_stands_after_a_deploy(each: Synthesised) -> None:
    """And an update takes away none that stands, if whoever deploys says that one does."""
    size = _group(each)["ScalingConfig"]
    most = each.experiment.capacity.nodes
    assert sized(each, size, "KeepTrainiumNodes", keep=False) == {
        "MinSize": 0,
        "DesiredSize": 0,
        "MaxSize": most,
    }
    assert sized(each, size, "KeepTrainiumNodes", keep=True) == {"MinSize": 0, "MaxSize": most}


def test_metadata_needs_a_token_and_reaches_no_pod(synthesised: Synthesised) -> None:
    options = [
        template["Properties"]["LaunchTemplateData"]["MetadataOptions"]
        for _, template in synthesised.resources("AWS::EC2::LaunchTemplate")
    ]
    assert options == [{"HttpTokens": "required", "HttpPutResponseHopLimit": 1}] * 3


def _template(synthesised: Synthesised) -> dict[str, Any]:
    ((_, template),) = (
        (logical_id, resource)
        for logical_id, resource in synthesised.resources("AWS::EC2::LaunchTemplate")
        if "NetworkInterfaces" in resource["Properties"]["LaunchTemplateData"]
    )
    data: dict[str, Any] = template["Properties"]["LaunchTemplateData"]
    return data


def _group(synthesised: Synthesised) -> dict[str, Any]:
    return node_group(synthesised, "trainium")
