"""Parts that the charts' pods share, and which findings of checkov and kube-score stay.

The reasons stand in annotations of the object, in the scanners' own form (checkov 3.3.30,
``checkov/kubernetes/kubernetes_utils.py``; kube-score v1.20.0, ``scorecard/scorecard.go``). Not in
those of a pod template, where another reason would be another pod.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cdk8s import Chart
from cdk8s_plus_35 import k8s

from charts.names import (
    DEVICES,
    MODEL_STORE_CONFIG,
    MODELS_CLAIM,
    NEURON_TAINT,
    NODE_GROUP_LABEL,
    SCRIPTS_CONFIG,
    ServiceAccount,
    node_label,
    taint_value,
)
from experiment.schema import Experiment

# Renovate raises their tags and adds their digests.
AWS_CLI: Final = (
    # This line keeps the parentheses, which a digest needs.
    "public.ecr.aws/aws-cli/aws-cli:2.36.15"
)
PYTHON: Final = (
    # As above.
    "public.ecr.aws/docker/library/python:3.12-slim-bookworm"
)

USER_ID: Final = 10001
"""Also the benchmark image's. Above the ids of a node's own users, whose files it must not be."""

MODELS_PATH: Final = "/models"
SCRIPTS_PATH: Final = "/scripts"
SCRATCH_PATH: Final = "/scratch"


UNDISTURBED: Final = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Annotations of each pod: moved to save a node, it would begin again. A node that expires or is
repaired takes it along (karpenter.sh, "Well-Known Annotations"; kubernetes/autoscaler, FAQ)."""


class Accepted(NamedTuple):
    """A finding that stays."""

    reason: str
    """Without an equals sign, at which checkov splits."""
    checkov: tuple[str, ...] = ()
    kube_score: tuple[str, ...] = ()


NO_CPU_LIMIT: Final = Accepted(
    "A CPU limit would throttle what is measured, and compilers that may use all idle cores",
    # kube-score has one check for CPU and memory. It is told to leave CPU limits out.
    checkov=("CKV_K8S_11",),
)
PULLED_ONCE: Final = Accepted(
    "A container that starts again must be what it was, also while the registry is away; "
    "the images are public or the account's own",
    checkov=("CKV_K8S_15",),
    kube_score=("container-image-pull-policy",),
)
NO_DIGEST: Final = Accepted(
    "Its tag is a hash of what it was built from, or its digest is not known here",
    checkov=("CKV_K8S_43",),
)
WRITES_TO_ROOT: Final = Accepted(
    "The Neuron tools write logs and caches next to themselves",
    checkov=("CKV_K8S_22",),
    kube_score=("container-security-context-readonlyrootfilesystem",),
)
ENDS_BY_ITSELF: Final = Accepted(
    "It serves nobody and ends; a probe could only end a run that is under way",
    checkov=("CKV_K8S_8", "CKV_K8S_9"),
)
ONE_ON_ITS_DEVICES: Final = Accepted(
    "It holds devices of its own, which a second pod beside it would wait for",
    kube_score=("deployment-replicas", "deployment-strategy"),
)


class Resources(NamedTuple):
    """A container's requests of its node, in CPUs and GiB, and its limits."""

    cpu: int
    memory: int
    disk: int
    disk_limit: int
    memory_limit: int | None = None
    """None: no more than it asks for."""
    devices: bool = False
    """Whether it opens the devices of the pod's claim."""


def pod(
    account: ServiceAccount,
    *,
    containers: Sequence[k8s.Container],
    volumes: Sequence[k8s.Volume],
    automount_service_account_token: bool = False,
    node_selector: Mapping[str, str] | None = None,
    **settings: Any,
) -> k8s.PodSpec:
    """A pod as Pod Security ``restricted`` asks; as a rule without a token for the API server."""
    return k8s.PodSpec(
        service_account_name=account,
        automount_service_account_token=automount_service_account_token,
        # The variables that Kubernetes injects for a Service can clash with vLLM's own, such as
        # VLLM_PORT.
        enable_service_links=False,
        security_context=k8s.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=USER_ID,
            run_as_group=USER_ID,
            fs_group=USER_ID,
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
        ),
        # An existing cluster may have nodes of another architecture than the images.
        node_selector={"kubernetes.io/arch": "amd64"} | dict(node_selector or {}),
        containers=[*containers],
        volumes=[*volumes],
        **settings,
    )


def container(
    name: str,
    image: str,
    *,
    resources: Resources,
    mounts: Sequence[k8s.VolumeMount],
    variables: Mapping[str, str] | None = None,
    references: Sequence[k8s.EnvVar] = (),
    read_only_root: bool = True,
    **settings: Any,
) -> k8s.Container:
    """A container as Pod Security ``restricted`` asks.

    ``references`` are environment variables that are not plain values. ``HOME`` and ``USER`` are
    always set: the pods' user has no entry in the images' passwd, and PyTorch asks for its name.
    """
    values = {"HOME": "/tmp", "USER": "nonroot"} | dict(variables or {})
    plain = [k8s.EnvVar(name=key, value=value) for key, value in values.items()]
    return k8s.Container(
        name=name,
        image=image,
        env=[*plain, *references],
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False,
            capabilities=k8s.Capabilities(drop=["ALL"]),
            read_only_root_filesystem=read_only_root,
        ),
        resources=k8s.ResourceRequirements(
            claims=[k8s.ResourceClaim(name=DEVICES)] if resources.devices else None,
            requests=_quantities(resources.memory, resources.disk, cpu=str(resources.cpu)),
            limits=_quantities(resources.memory_limit or resources.memory, resources.disk_limit),
        ),
        volume_mounts=[*mounts],
        **settings,
    )


def _quantities(memory: int, disk: int, **others: str) -> dict[str, k8s.Quantity]:
    amounts = {"memory": f"{memory}Gi", "ephemeral-storage": f"{disk}Gi", **others}
    return {name: k8s.Quantity.from_string(amount) for name, amount in amounts.items()}


def reference(name: str, field: str) -> k8s.EnvVar:
    """An environment variable with a field of the pod, such as ``metadata.name``."""
    source = k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path=field))
    return k8s.EnvVar(name=name, value_from=source)


def python_command(name: str) -> list[str]:
    """Runs ``name.py`` of ``charts/scripts`` with what ``name.lock`` pins. Arguments follow.

    The packages are installed at the start instead of into an image of their own: these pods fetch
    from the internet anyway.
    """
    install = (
        f"pip install --quiet --no-cache-dir --target {SCRATCH_PATH}/lib "
        f"--no-deps --require-hashes --only-binary :all: --requirement {SCRIPTS_PATH}/{name}.lock"
    )
    program = f"PYTHONPATH={SCRATCH_PATH}/lib exec python {SCRIPTS_PATH}/{name}.py"
    return ["/bin/sh", "-c", f'{install} && {program} "$@"', name]


def empty_dir(name: str, size: str, medium: str | None = None) -> k8s.Volume:
    """Scratch space on the node's disk, or in memory with ``medium="Memory"``."""
    limit = k8s.Quantity.from_string(size)
    source = k8s.EmptyDirVolumeSource(medium=medium, size_limit=limit)
    return k8s.Volume(name=name, empty_dir=source)


def config_volume(name: str, config_map: str) -> k8s.Volume:
    """The files of a ConfigMap."""
    return k8s.Volume(name=name, config_map=k8s.ConfigMapVolumeSource(name=config_map))


def mount(
    volume: str, path: str, *, read_only: bool = False, folder: str | None = None
) -> k8s.VolumeMount:
    """A mount of the volume named ``volume``, or of one folder of it."""
    return k8s.VolumeMount(
        name=volume, mount_path=path, read_only=read_only or None, sub_path=folder
    )


RUN_ID: Final = reference("RUN_ID", "metadata.uid")
"""One value for all restarts of a pod's container, another for the next pod."""
MODEL_STORE_ENVIRONMENT: Final = k8s.EnvFromSource(
    config_map_ref=k8s.ConfigMapEnvSource(name=MODEL_STORE_CONFIG)
)
"""``BUCKET`` and ``AWS_REGION``: references, so that no pod's specification holds an account or a
bucket. The specification of a Job or a Pod cannot be changed later."""
MODELS_VOLUME: Final = k8s.Volume(
    name="models",
    persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(
        claim_name=MODELS_CLAIM, read_only=True
    ),
)
SCRIPTS_VOLUME: Final = config_volume("scripts", SCRIPTS_CONFIG)
SCRIPTS_MOUNT: Final = mount("scripts", SCRIPTS_PATH, read_only=True)
SCRATCH_MOUNTS: Final = (mount("scratch", SCRATCH_PATH), SCRIPTS_MOUNT, mount("tmp", "/tmp"))
"""Mounts of a container that prepares something."""


def on_nodes(experiment: Experiment, kind: str, taint: str = NEURON_TAINT) -> dict[str, Any]:
    """Sends a pod to the experiment's own nodes of ``kind``: those of others have other values."""
    value = taint_value(experiment)
    tolerated = k8s.Toleration(key=taint, operator="Equal", value=value, effect="NoSchedule")
    return {
        "node_selector": {NODE_GROUP_LABEL: node_label(experiment, kind)},
        "tolerations": [tolerated],
    }


def job(
    chart: Chart,
    construct_id: str,
    prefix: str,
    labels: Mapping[str, str],
    pod: k8s.PodSpec,
    scripts: Any,
    *,
    stable: k8s.PodSpec | None = None,
    **settings: Any,
) -> None:
    """Adds a Job of ``pod``, whose name is ``prefix`` and a digest of the Job's specification.

    A Job cannot be changed. With the digest in its name a changed one is a new object, and the old
    one is pruned, instead of a deploy that fails on an immutable field. Another value of
    ``scripts`` gives a new name, too. ``stable``, if given, is hashed in place of ``pod``, where
    ``pod`` has parts that must not change the name.
    """

    def spec(pod: k8s.PodSpec) -> k8s.JobSpec:
        annotations = {"scripts": digest(scripts), **UNDISTURBED}
        metadata = k8s.ObjectMeta(labels=labels, annotations=annotations)
        template = k8s.PodTemplateSpec(metadata=metadata, spec=pod)
        return k8s.JobSpec(template=template, **settings)

    name = f"{prefix}-{digest(k8s.KubeJob.manifest(spec=spec(stable or pod)))}"
    annotations = acknowledged(pod)
    metadata = k8s.ObjectMeta(name=name, labels=labels, annotations=annotations)
    k8s.KubeJob(chart, construct_id, metadata=metadata, spec=spec(pod))


def acknowledged(pod: k8s.PodSpec, *findings: Accepted) -> dict[str, str]:
    """Annotations of what makes ``pod``: they accept ``findings``, and what is seen in the pod."""
    manifest = k8s.KubePod.manifest(spec=pod)["spec"]
    containers = [*manifest.get("initContainers", []), *manifest["containers"]]
    accepted = [NO_CPU_LIMIT, PULLED_ONCE]
    if any("@" not in container["image"] for container in containers):
        accepted.append(NO_DIGEST)
    if not all(c["securityContext"]["readOnlyRootFilesystem"] for c in containers):
        accepted.append(WRITES_TO_ROOT)
    accepted += findings
    skipped = [f"{rule}={finding.reason}" for finding in accepted for rule in finding.checkov]
    ignored = [rule for finding in accepted for rule in finding.kube_score]
    return {
        **{f"checkov.io/skip{number}": text for number, text in enumerate(skipped, start=1)},
        "kube-score/ignore": ",".join(ignored),
    }


def digest(value: Any) -> str:
    """The first eight hex digits of a JSON value's SHA-256."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
