"""The server of one variant on devices of its own: in a service, or in an index of a sweep.

Both are built here, so that what a sweep measures is what a service would be.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdk8s_plus_35 import k8s

from charts import pods
from charts.names import (
    DEVICES,
    MODELS_PREFIX,
    TRAINIUM_NODES,
    VLLM_PORT,
    ServiceAccount,
    claim_template,
    model_prefix,
)
from experiment.known_models import Model
from experiment.runtimes import Paths, Workload
from experiment.schema import Experiment
from experiment.variants import Variant

ARTIFACT_PATH: Final = "/artifact"
KEY_FILE: Final = "/key/key"
"""The key of services that ask for one: in memory, and of no use to other pods."""

_SHARED_MEMORY_GIB: Final = 16
"""Memory that a pod shares, for each of its devices."""
_DISK: Final = 410
"""GiB: a pod's volumes, and what its containers write beside them."""


def paths(variant: Variant, *, artifact: str = ARTIFACT_PATH, scratch: str = "/tmp") -> Paths:
    """Where a container finds what its command line names; by default one that serves."""

    def checkpoint(model: Model) -> str:
        below_mount = model_prefix(model).removeprefix(MODELS_PREFIX)
        return f"{pods.MODELS_PATH}/{below_mount}".rstrip("/")

    return Paths(
        target=checkpoint(variant.experiment.models.target),
        draft=checkpoint(variant.draft) if variant.draft else None,
        artifact=artifact,
        scratch=scratch,
        scripts=pods.SCRIPTS_PATH,
    )


def program(variant: Variant) -> tuple[list[str], dict[str, str]]:
    """The command that serves ``variant``, or as a job generates, and its environment."""
    runtime, config, places = variant.runtime, variant.engine_config, paths(variant)
    if variant.experiment.workload is Workload.JOB:
        command = runtime.generate_command(config, places)
        environment = runtime.generate_environment(config, places)
    else:
        command = runtime.serve_command(config, places, VLLM_PORT)
        environment = runtime.serve_environment(config, places)
    return command, {**environment, "HF_HUB_OFFLINE": "1"}


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

    ``scratch`` is the size of its ``/tmp``.
    """
    devices = pods.container(
        DEVICES,
        # Has ``neuron-ls``, and has to be pulled anyway.
        experiment.serving_runtime.image,
        command=["/bin/bash", f"{pods.SCRIPTS_PATH}/devices.sh"],
        args=[str(experiment.serving.devices), "/dev"],
        resources=pods.Resources(cpu=1, memory=1, disk=1, disk_limit=1, devices=True),
        mounts=[pods.SCRIPTS_MOUNT, pods.mount("tmp", "/tmp")],
    )
    if secret := experiment.api_key_secret:
        mounts = [key_mount(read_only=False)]
        words = ["fetch-key.sh", secret, KEY_FILE]
        init_containers = [fetch("fetch-key", words, mounts=mounts, cpu=1), *init_containers]
        volumes = [*volumes, pods.empty_dir("key", "1Mi", medium="Memory")]
    template = claim_template(experiment)
    shared_memory = f"{experiment.serving.devices * _SHARED_MEMORY_GIB}Gi"
    return pods.pod(
        account,
        # Shorter than the ten minutes after which Mountpoint's own pod ends.
        termination_grace_period_seconds=120,
        resource_claims=[k8s.PodResourceClaim(name=DEVICES, resource_claim_template_name=template)],
        init_containers=[devices, *init_containers],
        containers=containers,
        volumes=[
            pods.MODELS_VOLUME,
            pods.SCRIPTS_VOLUME,
            # Compiled graph and sharded weights, on the node's NVMe.
            pods.empty_dir("artifact", "300Gi"),
            pods.empty_dir("shared-memory", shared_memory, medium="Memory"),
            pods.empty_dir("tmp", scratch),
            *volumes,
        ],
        **pods.on_nodes(experiment, TRAINIUM_NODES),
        **settings,
    )


def key_scripts(experiment: Experiment) -> tuple[str, ...]:
    """The scripts of pods whose server asks for a key."""
    return ("fetch-key.sh", "with-key.sh") if experiment.serving.api_key else ()


def key_mount(*, read_only: bool = True) -> k8s.VolumeMount:
    """Where the key is."""
    return pods.mount("key", KEY_FILE.rpartition("/")[0], read_only=read_only)


def fetch(
    name: str,
    script: Sequence[str],
    *,
    references: Sequence[k8s.EnvVar] = (),
    mounts: Sequence[k8s.VolumeMount] = (),
    cpu: int = 4,
    **settings: Any,
) -> k8s.Container:
    """An init container that brings graph and shards with ``script``, a script's name and words."""
    file, *words = script
    return pods.container(
        name,
        pods.AWS_CLI,
        command=["/bin/bash", f"{pods.SCRIPTS_PATH}/{file}"],
        args=words,
        references=references,
        env_from=[pods.MODEL_STORE_ENVIRONMENT],
        resources=pods.Resources(cpu=cpu, memory=4, memory_limit=8, disk=1, disk_limit=_DISK),
        mounts=[
            pods.mount("artifact", ARTIFACT_PATH),
            pods.SCRIPTS_MOUNT,
            pods.mount("tmp", "/tmp"),
            *mounts,
        ],
        **settings,
    )


def server(
    experiment: Experiment,
    command: Sequence[str],
    variables: Mapping[str, str],
    **settings: Any,
) -> k8s.Container:
    """The container with vLLM that loads what is compiled; see ``on_devices``.

    The artifact is read-only: the loader compiles again what it cannot read, for hours and with its
    own defaults, and begins by writing there. This makes it fail instead.
    """
    return on_devices(
        experiment,
        "vllm",
        command,
        variables,
        artifact=pods.mount("artifact", ARTIFACT_PATH, read_only=True),
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
    beside: pods.Resources | None = None,
    disk: int = 100,
    mounts: Sequence[k8s.VolumeMount] = (),
    **settings: Any,
) -> k8s.Container:
    """The container of the runtime's image that has the devices, and gets their part of the node.

    ``beside`` is what another container of the pod takes of that; ``disk`` is in GiB.
    """
    devices, instance = experiment.serving.devices, experiment.capacity.instance
    cpu, memory = devices * instance.pod_cpus_per_device, devices * instance.pod_gib_per_device
    if beside:
        cpu, memory = cpu - beside.cpu, memory - (beside.memory_limit or beside.memory)
    if experiment.serving.api_key:
        command = ["/bin/bash", f"{pods.SCRIPTS_PATH}/with-key.sh", KEY_FILE, *command]
        scripts = [] if any(each.name == "scripts" for each in mounts) else [pods.SCRIPTS_MOUNT]
        mounts = [*mounts, *scripts, key_mount()]
    return pods.container(
        name,
        experiment.serving_runtime.image,
        command=[*command],
        working_dir="/tmp",
        variables=variables,
        # The Neuron tools write logs and caches next to themselves.
        read_only_root=False,
        resources=pods.Resources(cpu=cpu, memory=memory, disk=disk, disk_limit=_DISK, devices=True),
        mounts=[
            pods.mount("models", pods.MODELS_PATH, read_only=True),
            artifact,
            pods.mount("shared-memory", "/dev/shm"),
            pods.mount("tmp", "/tmp"),
            *mounts,
        ],
        **settings,
    )
