"""CPU nodes that stand while graphs are compiled."""

from __future__ import annotations

from email import message_from_string
from typing import Any

from ruamel.yaml import YAML

from charts.preparation import compile_pod
from experiment.hardware import COMPILE_INSTANCE
from experiment.schema import CompileNode
from experiment.variants import variants
from stacks.compile_nodes import VOLUME_GIB
from tests.stacks.templates import node_group, outputs, sized
from tests.synthesis import Synthesised


def test_they_exist_where_cpus_compile(every: Synthesised) -> None:
    groups = len(list(every.resources("AWS::EKS::Nodegroup")))
    on_cpus = every.experiment.compile_node is CompileNode.CPU
    assert groups == (3 if on_cpus else 2)
    told = {"CompileNodeGroup", "CompileGuardRole"} & outputs(every, "trainium").keys()
    assert len(told) == (2 if on_cpus else 0)


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


def test_only_compiles_run_on_them(synthesised: Synthesised) -> None:
    group = node_group(synthesised, "compile")
    assert group["Taints"] == [{"Key": "compile", "Value": "present", "Effect": "NO_SCHEDULE"}]
    assert group["InstanceTypes"] == [COMPILE_INSTANCE.name]
    assert group["AmiType"] == "AL2023_x86_64_STANDARD"
    (baseline, _) = variants(synthesised.experiment)
    pod = compile_pod(baseline)
    assert pod.node_selector == group["Labels"]


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


def test_images_are_pulled_in_parts(synthesised: Synthesised) -> None:
    message = message_from_string(_template(synthesised)["UserData"]["Fn::Base64"])
    (part,) = (part for part in message.walk() if not part.is_multipart())
    assert part.get_content_type() == "application/node.eks.aws"
    config = YAML(typ="safe").load(str(part.get_payload()))
    assert config["spec"] == {"featureGates": {"FastImagePull": True}}


def test_metadata_needs_a_token_and_reaches_no_pod(synthesised: Synthesised) -> None:
    options = _template(synthesised)["MetadataOptions"]
    assert options == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}


def _template(synthesised: Synthesised) -> dict[str, Any]:
    named = node_group(synthesised, "compile")["LaunchTemplate"]["Id"]["Ref"]
    resource = synthesised.template("trainium")["Resources"][named]
    data: dict[str, Any] = resource["Properties"]["LaunchTemplateData"]
    return data
