from __future__ import annotations

from typing import Any

from tests.synthesis import Synthesised


def test_asks_for_connected_devices_of_one_group(each: Synthesised) -> None:
    devices = _devices(each)
    (request,) = devices["requests"]
    exactly = request["exactly"]
    assert exactly["deviceClassName"] == "neuron.aws.com"
    assert exactly["allocationMode"] == "ExactCount"
    assert exactly["count"] == each.experiment.serving.devices
    assert devices["constraints"] == [
        {
            "requests": [request["name"]],
            "matchAttribute": f"resource.aws.com/devicegroup{exactly['count']}_id",
        }
    ]


def test_is_written_in_the_stable_api(synthesised: Synthesised) -> None:
    template = synthesised.object("ResourceClaimTemplate", "xl-trn2")
    assert template["apiVersion"] == "resource.k8s.io/v1"


def test_configures_logical_cores_in_the_drivers_own_words(each: Synthesised) -> None:
    (config,) = _devices(each)["config"]
    assert config["opaque"] == {
        "driver": "neuron.aws.com",
        "parameters": {
            "apiVersion": "neuron.aws.com/v1",
            "kind": "NeuronConfig",
            "logicalNeuronCore": each.experiment.serving.logical_core_size,
        },
    }


def test_selects_devices_and_not_whole_nodes(synthesised: Synthesised) -> None:
    ((selector,),) = (r["exactly"]["selectors"] for r in _devices(synthesised)["requests"])
    expression = selector["cel"]["expression"]
    assert "resourceType == 'neuron_device'" in expression
    assert "instanceType == 'trn2.48xlarge'" in expression


def test_another_shape_is_another_template(each: Synthesised) -> None:
    """Its specification cannot be changed."""
    (template,) = each.objects("ResourceClaimTemplate")
    serving = each.experiment.serving
    is_the_articles = (serving.devices, serving.logical_core_size) == (8, 2)
    assert (template["metadata"]["name"] == "xl-trn2") is is_the_articles


def _devices(synthesised: Synthesised) -> dict[str, Any]:
    (template,) = synthesised.objects("ResourceClaimTemplate")
    devices: dict[str, Any] = template["spec"]["spec"]["devices"]
    return devices
