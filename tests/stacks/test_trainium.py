"""Trainium nodes, and CPU nodes that compile for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from charts.preparation import compile_pod
from experiment.runtimes import RUNTIMES, Runtime
from experiment.schema import CompileNode
from experiment.variants import variants
from stacks.cluster import KUBERNETES_VERSION
from stacks.nodes import VOLUME_GIB
from tests.matrix import FIRST_START, MATRIX, RESERVATION
from tests.stacks.templates import node_group, outputs
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
        synthesised = of_matrix("article" if purchase == "on-demand" else names[purchase])
        template = _template(synthesised, "trainium")
        assert node_group(synthesised, "trainium")["CapacityType"] == kind
        assert template.get("CapacityReservationSpecification") == target
        assert template.get("InstanceMarketOptions") == market
        # A Capacity Block accepts no placement group, and a reservation only its own.
        assert ("Placement" in template) == (target is None)


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_the_ami_is_of_the_clusters_kubernetes(runtime: Runtime) -> None:
    assert re.fullmatch(rf"{re.escape(KUBERNETES_VERSION)}\.\d+-\d{{8}}", runtime.ami_release)


def test_no_node_stands_after_a_deploy(each: Synthesised) -> None:
    """And an update takes away none that stands, if whoever deploys says that one does."""
    template, experiment = each.template("trainium"), each.experiment
    groups = {"trainium": ("KeepTrainiumNodes", experiment.capacity.nodes)}
    if experiment.compile_node is CompileNode.CPU:
        groups["compile"] = "KeepCompileNodes", min(4, len(variants(experiment)))
    for label, (parameter, most) in groups.items():
        assert template["Parameters"][parameter]["AllowedValues"] == ["true", "false"]
        assert template["Parameters"][parameter]["Default"] == "false"
        size = node_group(each, label)["ScalingConfig"]
        condition, *sizes = size.pop("DesiredSize")["Fn::If"]
        assert template["Conditions"][condition] == {"Fn::Equals": [{"Ref": parameter}, "true"]}
        assert sizes == [{"Ref": "AWS::NoValue"}, 0]
        assert size == {"MinSize": 0, "MaxSize": most}


def test_metadata_needs_a_token_and_reaches_no_pod(synthesised: Synthesised) -> None:
    options = [
        template["Properties"]["LaunchTemplateData"]["MetadataOptions"]
        for _, template in synthesised.resources("AWS::EC2::LaunchTemplate")
    ]
    assert options == [{"HttpTokens": "required", "HttpPutResponseHopLimit": 1}] * 3


def test_compile_nodes_exist_only_where_cpus_compile(
    of_matrix: Callable[[str], Synthesised],
) -> None:
    synthesised = of_matrix(FIRST_START)
    assert len([*synthesised.resources("AWS::EKS::Nodegroup")]) == 2
    names = outputs(synthesised, "trainium").keys()
    assert not {"CompileNodeGroup", "CompileGuardRole"} & names


def test_their_disk_holds_what_a_compile_may_fill(synthesised: Synthesised) -> None:
    (mapping,) = _template(synthesised, "compile")["BlockDeviceMappings"]
    assert mapping["Ebs"]["VolumeSize"] == VOLUME_GIB
    (baseline, _) = variants(synthesised.experiment)
    limits = [
        str(volume.empty_dir.size_limit.value)
        for volume in compile_pod(baseline).volumes or ()
        if volume.empty_dir and volume.empty_dir.size_limit
    ]
    images = 40
    assert sum(int(limit.removesuffix("Gi")) for limit in limits) + images <= 0.9 * VOLUME_GIB
    # As amazon-eks-ami asks for images that are pulled in parts (nodeadm/doc/examples.md).
    assert mapping["Ebs"]["Throughput"] >= 600


def _template(synthesised: Synthesised, label: str) -> dict[str, Any]:
    reference = node_group(synthesised, label)["LaunchTemplate"]["Id"]["Ref"]
    resource = synthesised.template("trainium")["Resources"][reference]
    return dict(resource["Properties"]["LaunchTemplateData"])
