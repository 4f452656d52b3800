"""What serves one variant on devices of its own: in a service, or in an index of a sweep.

Both are built here, so that what a sweep measures is what a service would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdk8s_plus_35 import k8s

from charts.names import (
    DEVICES,
    MODELS_PREFIX,
    NODE_GROUP_LABEL,
    TRAINIUM_NODES,
    VLLM_PORT,
    ServiceAccount,
    claim_template,
    model_prefix,
)
from charts.pods import (
    MODELS_PATH,
    SCRIPTS_PATH,
    Room,
    container_security,
    empty_dir,
    environment,
    model_store_environment,
    models_volume,
    mount,
    neuron_toleration,
    pod_security,
    quantities,
    scripts_volume,
)
from experiment.images import AWS_CLI, pinned
from experiment.known_models import Model
from experiment.runtimes import Paths
from experiment.schema import Experiment
from experiment.variants import Variant

ARTIFACT_PATH: Final = "/artifact"
KEY_FILE: Final = "/key/key"
"""Of services that ask for one: in memory, and of no use to other pods."""

# For each device that a pod has. Sixteen make a trn2.48xlarge (192 vCPU, 2 TiB), less what
# compiling and the node's own pods need.
_CPU: Final = 10
_MEMORY_GIB: Final = 80
_SHARED_MEMORY_GIB: Final = 16
_ALONE: Final = Room(cpu=0, memory=0)
_DISK_LIMIT: Final = "410Gi"
"""A pod's volumes, and what its containers write beside them."""


def paths(variant: Variant, *, artifact: str, scratch: str) -> Paths:
    """Where the containers of ``variant`` find what their command lines name."""
    draft = checkpoint_path(variant.draft) if variant.draft else None
    target = checkpoint_path(variant.experiment.models.target)
    return Paths(
        target=target, draft=draft, artifact=artifact, scratch=scratch, scripts=SCRIPTS_PATH
    )


def checkpoint_path(model: Model) -> str:
    """Where a checkpoint is mounted, e.g. ``/models/Qwen/Qwen3-32B/<revision>``."""
    below_mount = model_prefix(model.id, model.revision).removeprefix(MODELS_PREFIX)
    return f"{MODELS_PATH}/{below_mount}".rstrip("/")


def serve_command(variant: Variant) -> list[str]:
    """What serves ``variant``."""
    return variant.runtime.serve_command(variant, _paths(variant), VLLM_PORT)


def serve_environment(variant: Variant) -> Mapping[str, str]:
    """The environment of ``serve_command``."""
    runtimes_own = variant.runtime.serve_environment(variant, _paths(variant))
    return {**runtimes_own, "HF_HUB_OFFLINE": "1"}


def _paths(variant: Variant) -> Paths:
    return paths(variant, artifact=ARTIFACT_PATH, scratch="/tmp")


def serving_pod(
    experiment: Experiment,
    account: ServiceAccount,
    *,
    init_containers: Sequence[k8s.Container],
    containers: Sequence[k8s.Container],
    volumes: Sequence[k8s.Volume] = (),
    scratch: str = "50Gi",
    **settings: Any,
) -> k8s.PodSpec:
    """A pod on a Trainium node, with a claim of its own and the volumes that ``server`` mounts.

    ``scratch`` is the size of its ``/tmp``; ``settings`` are further fields.
    """
    shared_memory = experiment.serving.devices * _SHARED_MEMORY_GIB
    if secret := experiment.api_key_secret:
        init_containers = [_fetch_key(secret), *init_containers]
        volumes = [*volumes, empty_dir("key", "1Mi", medium="Memory")]
    return k8s.PodSpec(
        service_account_name=account,
        automount_service_account_token=False,
        # The variables that Kubernetes injects for a Service can clash with vLLM's own, such as
        # VLLM_PORT.
        enable_service_links=False,
        security_context=pod_security(),
        # Shorter than the ten minutes after which Mountpoint's own pod ends.
        termination_grace_period_seconds=120,
        resource_claims=[
            k8s.PodResourceClaim(
                name="devices", resource_claim_template_name=claim_template(experiment)
            )
        ],
        init_containers=[_devices(experiment), *init_containers],
        containers=[*containers],
        volumes=[
            models_volume(),
            scripts_volume(),
            # Compiled graph and sharded weights, on the node's NVMe.
            empty_dir("artifact", "300Gi"),
            empty_dir("shared-memory", f"{shared_memory}Gi", medium="Memory"),
            empty_dir("tmp", scratch),
            *volumes,
        ],
        node_selector={NODE_GROUP_LABEL: TRAINIUM_NODES},
        tolerations=[neuron_toleration()],
        **settings,
    )


def _devices(experiment: Experiment) -> k8s.Container:
    """In the image that serves, which has ``neuron-ls``: it has to be pulled anyway."""
    return k8s.Container(
        name=DEVICES,
        image=pinned(experiment.serving_runtime.image),
        command=["/bin/bash", f"{SCRIPTS_PATH}/devices.sh"],
        args=[str(experiment.serving.devices), "/dev"],
        env=environment({}),
        security_context=container_security(read_only_root=True),
        resources=k8s.ResourceRequirements(
            claims=[k8s.ResourceClaim(name="devices")],
            requests=quantities(cpu="1", memory="1Gi", ephemeral_storage="1Gi"),
            limits=quantities(memory="1Gi", ephemeral_storage="1Gi"),
        ),
        volume_mounts=[mount("scripts", SCRIPTS_PATH, read_only=True), mount("tmp", "/tmp")],
    )


def _fetch_key(secret: str) -> k8s.Container:
    return fetch(
        "fetch-key", ["fetch-key.sh", secret, KEY_FILE], mounts=[key_mount(read_only=False)], cpu=1
    )


def key_scripts(experiment: Experiment) -> tuple[str, ...]:
    """The scripts of pods whose server asks for a key."""
    return ("fetch-key.sh", "with-key.sh") if experiment.serving.api_key else ()


def key_mount(*, read_only: bool = True) -> k8s.VolumeMount:
    """Where the key is, in pods of services that ask for one."""
    return mount("key", KEY_FILE.rpartition("/")[0], read_only=read_only)


def fetch(
    name: str,
    script: Sequence[str],
    *,
    variables: Sequence[k8s.EnvVar] = (),
    mounts: Sequence[k8s.VolumeMount] = (),
    cpu: int = 4,
    **settings: Any,
) -> k8s.Container:
    """An init container that brings graph and shards with ``script``, a script's name and words.

    ``settings`` are further fields.
    """
    file, *words = script
    return k8s.Container(
        name=name,
        image=pinned(AWS_CLI),
        command=["/bin/bash", f"{SCRIPTS_PATH}/{file}"],
        args=words,
        env=[*environment({}), *variables],
        env_from=model_store_environment(),
        security_context=container_security(read_only_root=True),
        resources=k8s.ResourceRequirements(
            requests=quantities(cpu=str(cpu), memory="4Gi", ephemeral_storage="1Gi"),
            limits=quantities(memory="8Gi", ephemeral_storage=_DISK_LIMIT),
        ),
        volume_mounts=[
            mount("artifact", ARTIFACT_PATH),
            mount("scripts", SCRIPTS_PATH, read_only=True),
            mount("tmp", "/tmp"),
            *mounts,
        ],
        **settings,
    )


def server(
    experiment: Experiment,
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    beside: Room = _ALONE,
    mounts: Sequence[k8s.VolumeMount] = (),
    **settings: Any,
) -> k8s.Container:
    """The container with vLLM. Read as ``on_devices``.

    The artifact is read-only: the loader compiles again what it cannot read, for hours and with its
    own defaults, and begins by writing there. This makes it fail instead.
    """
    return on_devices(
        experiment,
        "vllm",
        command,
        variables,
        artifact=mount("artifact", ARTIFACT_PATH, read_only=True),
        beside=beside,
        mounts=mounts,
        ports=[k8s.ContainerPort(name="http", container_port=VLLM_PORT)],
        **settings,
    )


def on_devices(
    experiment: Experiment,
    name: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    artifact: k8s.VolumeMount,
    beside: Room = _ALONE,
    disk: str = "100Gi",
    mounts: Sequence[k8s.VolumeMount] = (),
    **settings: Any,
) -> k8s.Container:
    """The container of the runtime's image that has the devices, and gets their part of the node.

    ``beside`` is what another container of the pod takes of that, ``disk`` what it asks for of the
    node's; ``settings`` are further fields.
    """
    devices = experiment.serving.devices
    memory = f"{devices * _MEMORY_GIB - beside.memory}Gi"
    cpu = str(devices * _CPU - beside.cpu)
    if experiment.serving.api_key:
        command = ["/bin/bash", f"{SCRIPTS_PATH}/with-key.sh", KEY_FILE, *command]
        mounts = [*_with_scripts(mounts), key_mount()]
    return k8s.Container(
        name=name,
        image=pinned(experiment.serving_runtime.image),
        command=[*command],
        working_dir="/tmp",
        env=environment(variables),
        # The Neuron tools write logs and caches next to themselves.
        security_context=container_security(read_only_root=False),
        resources=k8s.ResourceRequirements(
            claims=[k8s.ResourceClaim(name="devices")],
            requests=quantities(cpu=cpu, memory=memory, ephemeral_storage=disk),
            limits=quantities(memory=memory, ephemeral_storage=_DISK_LIMIT),
        ),
        volume_mounts=[
            mount("models", MODELS_PATH, read_only=True),
            artifact,
            mount("shared-memory", "/dev/shm"),
            mount("tmp", "/tmp"),
            *mounts,
        ],
        **settings,
    )


def _with_scripts(mounts: Sequence[k8s.VolumeMount]) -> list[k8s.VolumeMount]:
    there = any(one.name == "scripts" for one in mounts)
    return [*mounts] if there else [*mounts, mount("scripts", SCRIPTS_PATH, read_only=True)]
