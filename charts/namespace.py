"""Objects that all pods need: the namespace, the claim of devices, the volume of checkpoints."""

from typing import Any, Final

from cdk8s import Chart, JsonPatch
from cdk8s_plus_35 import k8s

from charts.names import (
    MODEL_STORE_CONFIG,
    MODELS_CLAIM,
    MODELS_PREFIX,
    VLLM_PORT,
    Component,
    claim_template,
    namespace,
    service_accounts,
)
from charts.pods import USER_ID
from experiment.schema import Experiment

DRIVER: Final = "neuron.aws.com"
POD_SECURITY: Final = {
    f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
}
POD_IDENTITY_AGENT: Final = "169.254.170.23/32"
"""Where pods get their AWS credentials, on port 80 of the node. Network policies apply to it."""

_REQUEST: Final = "neurons"
CLUSTER_SCOPED: Final = JsonPatch.remove("/metadata/namespace")
"""Takes away the namespace that a chart gives all its objects."""
_CAPACITY: Final = {"storage": k8s.Quantity.from_string("1200Gi")}


def add_namespace(chart: Chart, experiment: Experiment) -> None:
    """A namespace with a list of allowed connections. All others are denied."""
    metadata = k8s.ObjectMeta(name=namespace(experiment), labels=POD_SECURITY)
    k8s.KubeNamespace(chart, "Namespace", metadata=metadata).add_json_patch(CLUSTER_SCOPED)
    for account in service_accounts(experiment):
        k8s.KubeServiceAccount(
            chart,
            account,
            metadata=k8s.ObjectMeta(name=account),
            # Credentials come from EKS Pod Identity; no pod here talks to the API server.
            automount_service_account_token=False,
        )
    dns = k8s.NetworkPolicyPeer(
        namespace_selector=_labelled("kubernetes.io/metadata.name", "kube-system"),
        pod_selector=_labelled("k8s-app", "kube-dns"),
    )
    # S3, CloudWatch and the Hugging Face Hub have no fixed addresses that a policy could name.
    anywhere = k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr="0.0.0.0/0"))
    agent = k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=POD_IDENTITY_AGENT))
    _policy(chart, "default-deny", ingress=None, egress=None)
    _policy(chart, "allow-dns", egress=[_to(dns, _port(53, "UDP"), _port(53))])
    _policy(chart, "allow-aws", egress=[_to(anywhere, _port(443)), _to(agent, _port(80))])
    # An index of a sweep asks its own vLLM, on loopback, which no policy touches.
    if experiment.isolated:
        return
    from_benchmark = k8s.NetworkPolicyIngressRule(
        from_=[_pods(Component.BENCHMARK)], ports=[_port(VLLM_PORT)]
    )
    _policy(chart, "allow-clients-to-vllm", Component.VLLM, ingress=[from_benchmark])
    to_vllm = _to(_pods(Component.VLLM), _port(VLLM_PORT))
    _policy(chart, "allow-benchmark-to-vllm", Component.BENCHMARK, egress=[to_vllm])


def _policy(chart: Chart, name: str, component: Component | None = None, **rules: Any) -> None:
    """For the pods of ``component``, or for all; of the directions that ``rules`` name."""
    k8s.KubeNetworkPolicy(
        chart,
        name,
        metadata=k8s.ObjectMeta(name=name),
        spec=k8s.NetworkPolicySpec(
            pod_selector=_labelled("component", component) if component else k8s.LabelSelector(),
            policy_types=[direction.capitalize() for direction in rules],
            **rules,
        ),
    )


def _labelled(key: str, value: str) -> k8s.LabelSelector:
    return k8s.LabelSelector(match_labels={key: value})


def _pods(component: Component) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(pod_selector=_labelled("component", component))


def _port(number: int, protocol: str = "TCP") -> k8s.NetworkPolicyPort:
    return k8s.NetworkPolicyPort(protocol=protocol, port=k8s.IntOrString.from_number(number))


def _to(peer: k8s.NetworkPolicyPeer, *ports: k8s.NetworkPolicyPort) -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(to=[peer], ports=[*ports])


def add_device_claims(chart: Chart, experiment: Experiment) -> None:
    """Neuron devices, connected where there are several, at one logical core size: ``xl-trn2``."""
    serving, instance = experiment.serving, experiment.capacity.instance_type
    attributes = f"device.attributes['{DRIVER}']"
    whole_devices = k8s.CelDeviceSelector(
        expression=f"{attributes}.resourceType == 'neuron_device' && "
        f"{attributes}.instanceType == '{instance}'"
    )
    devices = k8s.ExactDeviceRequest(
        device_class_name=DRIVER,
        allocation_mode="ExactCount",
        count=serving.devices,
        selectors=[k8s.DeviceSelector(cel=whole_devices)],
    )
    # Tensor parallelism needs devices that are wired to each other.
    wired = k8s.DeviceConstraint(
        requests=[_REQUEST],
        match_attribute=f"resource.aws.com/devicegroup{serving.devices}_id",
    )
    # The driver decodes this strictly: a misspelt field leaves the pod in ContainerCreating.
    cores = k8s.OpaqueDeviceConfiguration(
        driver=DRIVER,
        parameters={
            "apiVersion": f"{DRIVER}/v1",
            "kind": "NeuronConfig",
            "logicalNeuronCore": serving.logical_core_size,
        },
    )
    claim = k8s.DeviceClaim(
        requests=[k8s.DeviceRequest(name=_REQUEST, exactly=devices)],
        constraints=[wired] if serving.devices > 1 else None,
        config=[k8s.DeviceClaimConfiguration(requests=[_REQUEST], opaque=cores)],
    )
    metadata = k8s.ObjectMeta(name=claim_template(experiment))
    spec = k8s.ResourceClaimTemplateSpec(spec=k8s.ResourceClaimSpec(devices=claim))
    k8s.KubeResourceClaimTemplate(chart, "Devices", metadata=metadata, spec=spec)


def add_model_store(chart: Chart, experiment: Experiment, bucket: str) -> None:
    """The bucket's name, and a static volume on its ``models/``, mounted as the pod's identity.

    Compiled graphs are fetched onto local disks instead: Mountpoint can neither rename nor append,
    and a service reads all shards at once.
    """
    volume, region = f"{experiment.name}-models", experiment.aws.region
    metadata = k8s.ObjectMeta(name=MODEL_STORE_CONFIG)
    data = {"BUCKET": bucket, "AWS_REGION": region}
    k8s.KubeConfigMap(chart, "Config", metadata=metadata, data=data)
    persistent_volume = k8s.KubePersistentVolume(
        chart,
        "Volume",
        metadata=k8s.ObjectMeta(name=volume),
        spec=k8s.PersistentVolumeSpec(
            capacity=_CAPACITY,
            access_modes=["ReadOnlyMany"],
            persistent_volume_reclaim_policy="Retain",
            # Without a storage class: the API drops an empty one, so kubectl would set it again
            # with every apply.
            claim_ref=k8s.ObjectReference(name=MODELS_CLAIM, namespace=namespace(experiment)),
            mount_options=[
                "read-only",
                "allow-other",
                f"uid={USER_ID}",
                f"gid={USER_ID}",
                f"region {region}",
                f"prefix {MODELS_PREFIX}",
                # With a pod's identity Mountpoint cannot read the instance metadata, and
                # assumes 10 Gbps.
                "maximum-throughput-gbps 100",
            ],
            csi=k8s.CsiPersistentVolumeSource(
                driver="s3.csi.aws.com",
                volume_handle=volume,
                volume_attributes={"bucketName": bucket, "authenticationSource": "pod"},
            ),
        ),
    )
    persistent_volume.add_json_patch(CLUSTER_SCOPED)
    k8s.KubePersistentVolumeClaim(
        chart,
        "Claim",
        metadata=k8s.ObjectMeta(name=MODELS_CLAIM),
        spec=k8s.PersistentVolumeClaimSpec(
            access_modes=["ReadOnlyMany"],
            # Empty, not absent: absent would ask for the default storage class.
            storage_class_name="",
            volume_name=volume,
            resources=k8s.VolumeResourceRequirements(requests=_CAPACITY),
        ),
    )
