"""CPU nodes that stand while graphs are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from charts.preparation import compile_pod
from experiment.schema import CompileNode
from experiment.variants import variants
from stacks.nodes import VOLUME_GIB
from tests.matrix import FIRST_START
from tests.stacks.templates import node_group, outputs, sized
from tests.synthesis import Synthesised


@pytest.mark.parametrize("name", ["article", FIRST_START])
def test_they_exist_where_cpus_compile(name: str, of_matrix: Callable[[str], Synthesised]) -> None:
    synthesised = of_matrix(name)
    groups = len(list(synthesised.resources("AWS::EKS::Nodegroup")))
    on_cpus = synthesised.experiment.compile_node is CompileNode.CPU
    assert on_cpus == (name == "article")
    assert groups == (3 if on_cpus else 2)
    values = {"CompileNodeGroup", "CompileGuardRole"} & outputs(synthesised, "trainium").keys()
    assert len(values) == (2 if on_cpus else 0)


def test_as_many_as_graphs_and_at_most_four_and_none_after_a_deploy(each: Synthesised) -> None:
    if each.experiment.compile_node is not CompileNode.CPU:
        return
    size = node_group(each, "compile")["ScalingConfig"]
    most = min(4, len(variants(each.experiment)))
    assert sized(each, size, "KeepCompileNodes", keep=False) == {
        "MinSize": 0,
        "DesiredSize": 0,
        "MaxSize": most,
    }
    assert sized(each, size, "KeepCompileNodes", keep=True) == {"MinSize": 0, "MaxSize": most}


def test_their_disk_holds_what_a_compile_may_fill(synthesised: Synthesised) -> None:
    (mapping,) = _template(synthesised)["BlockDeviceMappings"]
    disk = mapping["Ebs"]
    assert (disk["VolumeType"], disk["Encrypted"]) == ("gp3", True)
    assert disk["VolumeSize"] == VOLUME_GIB
    (baseline, _) = variants(synthesised.experiment)
    limits = [
        str(volume.empty_dir.size_limit.value)
        for volume in compile_pod(baseline).volumes or ()
        if volume.empty_dir and volume.empty_dir.size_limit
    ]
    filled = sum(int(limit.removesuffix("Gi")) for limit in limits)
    images = 40
    assert filled + images <= 0.9 * VOLUME_GIB
    # As amazon-eks-ami asks for images that are pulled in parts (nodeadm/doc/examples.md).
    assert disk["Throughput"] >= 600


def _template(synthesised: Synthesised) -> dict[str, Any]:
    named = node_group(synthesised, "compile")["LaunchTemplate"]["Id"]["Ref"]
    resource = synthesised.template("trainium")["Resources"][named]
    data: dict[str, Any] = resource["Properties"]["LaunchTemplateData"]
    return data
