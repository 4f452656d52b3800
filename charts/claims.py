"""The device claim template that each service allocates from."""

from __future__ import annotations

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.names import NAMESPACE, claim_template
from experiment.schema import Experiment

DRIVER = "neuron.aws.com"
_REQUEST = "neurons"


class ClaimsChart(Chart):
    """Connected Neuron devices of one group, at one logical core size, such as ``xl-trn2``."""

    def __init__(self, scope: Construct, construct_id: str, *, experiment: Experiment) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        serving, instance = experiment.serving, experiment.capacity.instance_type
        k8s.KubeResourceClaimTemplate(
            self,
            "Devices",
            metadata=k8s.ObjectMeta(name=claim_template(experiment)),
            spec=k8s.ResourceClaimTemplateSpec(
                spec=k8s.ResourceClaimSpec(
                    devices=k8s.DeviceClaim(
                        requests=[
                            k8s.DeviceRequest(
                                name=_REQUEST,
                                exactly=k8s.ExactDeviceRequest(
                                    device_class_name=DRIVER,
                                    allocation_mode="ExactCount",
                                    count=serving.devices,
                                    selectors=[_instance_type(instance)],
                                ),
                            )
                        ],
                        # Tensor parallelism needs devices that are wired to each other.
                        constraints=[
                            k8s.DeviceConstraint(
                                requests=[_REQUEST],
                                match_attribute=f"resource.aws.com/devicegroup{serving.devices}_id",
                            )
                        ],
                        config=[
                            k8s.DeviceClaimConfiguration(
                                requests=[_REQUEST],
                                opaque=k8s.OpaqueDeviceConfiguration(
                                    driver=DRIVER,
                                    # The driver decodes this strictly: a misspelt field leaves
                                    # the pod in ContainerCreating.
                                    parameters={
                                        "apiVersion": f"{DRIVER}/v1",
                                        "kind": "NeuronConfig",
                                        "logicalNeuronCore": serving.logical_core_size,
                                    },
                                ),
                            )
                        ],
                    )
                )
            ),
        )


def _instance_type(instance: str) -> k8s.DeviceSelector:
    attributes = f"device.attributes['{DRIVER}']"
    return k8s.DeviceSelector(
        cel=k8s.CelDeviceSelector(
            expression=f"{attributes}.resourceType == 'neuron_device' && "
            f"{attributes}.instanceType == '{instance}'"
        )
    )
