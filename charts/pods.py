"""What the charts' pods have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cdk8s_plus_35 import k8s

from charts.names import (
    MODEL_STORE_CONFIG,
    MODELS_CLAIM,
    NEURON_TAINT,
    SCRIPTS_CONFIG,
)

USER_ID: Final = 10001
"""Also the benchmark image's. Above the ids of a node's own users, whose files it must not be."""

MODELS_PATH: Final = "/models"
SCRIPTS_PATH: Final = "/scripts"
SCRATCH_PATH: Final = "/scratch"


class Room(NamedTuple):
    """What a container may take of its node."""

    cpu: int
    memory: int
    """GiB."""


def pod_security() -> k8s.PodSecurityContext:
    """What Pod Security ``restricted`` asks of a pod."""
    return k8s.PodSecurityContext(
        run_as_non_root=True,
        run_as_user=USER_ID,
        run_as_group=USER_ID,
        fs_group=USER_ID,
        seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
    )


def container_security(*, read_only_root: bool) -> k8s.SecurityContext:
    """What Pod Security ``restricted`` asks of a container."""
    return k8s.SecurityContext(
        allow_privilege_escalation=False,
        capabilities=k8s.Capabilities(drop=["ALL"]),
        read_only_root_filesystem=read_only_root,
    )


def environment(values: Mapping[str, str]) -> list[k8s.EnvVar]:
    """Environment variables with plain values.

    ``HOME`` and ``USER`` are always set: the pods' user has no entry in the images' passwd, and
    PyTorch asks for its name.
    """
    return [
        k8s.EnvVar(name=name, value=value)
        for name, value in ({"HOME": "/tmp", "USER": "nonroot"} | dict(values)).items()
    ]


def run_id() -> k8s.EnvVar:
    """``RUN_ID``: one value for all restarts of a pod's container, another for the next pod."""
    return k8s.EnvVar(
        name="RUN_ID",
        value_from=k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path="metadata.uid")),
    )


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


def model_store_environment() -> list[k8s.EnvFromSource]:
    """``BUCKET`` and ``AWS_REGION``.

    They are references, so that no pod's specification holds an account or a bucket: the
    specification of a Job or a Pod cannot be changed later.
    """
    return [k8s.EnvFromSource(config_map_ref=k8s.ConfigMapEnvSource(name=MODEL_STORE_CONFIG))]


def quantities(**amounts: str) -> dict[str, k8s.Quantity]:
    """Resource amounts. An underscore in a name stands for a dash."""
    return {
        name.replace("_", "-"): k8s.Quantity.from_string(amount) for name, amount in amounts.items()
    }


def empty_dir(name: str, size: str, medium: str | None = None) -> k8s.Volume:
    """Scratch space on the node's disk, or in memory with ``medium="Memory"``."""
    return k8s.Volume(
        name=name,
        empty_dir=k8s.EmptyDirVolumeSource(
            medium=medium, size_limit=k8s.Quantity.from_string(size)
        ),
    )


def models_volume() -> k8s.Volume:
    """The checkpoints of the model bucket, read-only."""
    return k8s.Volume(
        name="models",
        persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(
            claim_name=MODELS_CLAIM, read_only=True
        ),
    )


def scripts_volume() -> k8s.Volume:
    """The scripts of ``charts/scripts``."""
    return k8s.Volume(name="scripts", config_map=k8s.ConfigMapVolumeSource(name=SCRIPTS_CONFIG))


def mount(
    volume: str, path: str, *, read_only: bool = False, folder: str | None = None
) -> k8s.VolumeMount:
    """A mount of the volume named ``volume``, or of one folder of it."""
    return k8s.VolumeMount(
        name=volume, mount_path=path, read_only=read_only or None, sub_path=folder
    )


def neuron_toleration() -> k8s.Toleration:
    """Lets a pod onto the tainted Trainium nodes."""
    return k8s.Toleration(key=NEURON_TAINT, operator="Exists", effect="NoSchedule")


def job_name(prefix: str, spec: k8s.JobSpec) -> str:
    """``prefix`` and a digest of ``spec``.

    A Job cannot be changed. With the digest in its name a changed one is a new object, and the
    old one is pruned, instead of a deploy that fails on an immutable field.
    """
    return f"{prefix}-{digest(k8s.KubeJob.manifest(spec=spec))}"


def digest(value: Any) -> str:
    """The first eight hex digits of a JSON value's SHA-256."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
