"""The pod that compiles one variant's graph, on the disk of its node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cdk8s_plus_35 import k8s

from charts.names import (
    COMPILE_NODES,
    NODE_GROUP_LABEL,
    TRAINIUM_NODES,
    Component,
    ServiceAccount,
    artifact_prefix,
    model_prefix,
)
from charts.pods import (
    MODELS_PATH,
    SCRATCH_PATH,
    SCRIPTS_PATH,
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
from charts.server import paths
from experiment.images import AWS_CLI, pinned
from experiment.runtimes import Paths
from experiment.schema import CompileNode, Experiment
from experiment.variants import Variant

COMPILES: Final = k8s.LabelSelector(match_labels={"step": "compile"})
"""All pods that compile."""
# Counted from a pod's start, so without the wait for a node.
DEADLINE_SECONDS: Final = 8 * 60 * 60
_DISK_LIMIT: Final = "610Gi"
"""The pod's volumes, and what its containers write beside them."""


def compile_pod(variant: Variant) -> k8s.PodSpec:
    """Checks, compiles, uploads: one container after another, each in the image with its tool.

    No device claim: NxDI traces and shards on the CPU (docs/decisions/0004). So it runs on a CPU
    node; and on a Trainium node, where the waiting services may already hold all devices.
    """
    nodes, toleration = _nodes(variant.experiment)
    return k8s.PodSpec(
        service_account_name=ServiceAccount.PREPARE,
        automount_service_account_token=False,
        enable_service_links=False,
        restart_policy="OnFailure",
        active_deadline_seconds=DEADLINE_SECONDS,
        security_context=pod_security(),
        # Two on one node have filled its disk.
        affinity=not_beside(_what_it_slows(variant.experiment)),
        init_containers=[
            _check(variant),
            *_draft(variant),
            _compiler(variant),
        ],
        containers=[
            _aws(
                "upload",
                [
                    "upload-artifact.sh",
                    artifact_prefix(variant.artifact),
                    *variant.runtime.artifact_parts(variant),
                ],
            )
        ],
        volumes=[
            models_volume(),
            scripts_volume(),
            empty_dir("scratch", "500Gi"),
            empty_dir("tmp", "100Gi"),
        ],
        node_selector={NODE_GROUP_LABEL: nodes},
        tolerations=[toleration],
    )


def _nodes(experiment: Experiment) -> tuple[str, k8s.Toleration]:
    """The node group that compiles, and what lets a pod onto its nodes."""
    if experiment.compile_node is CompileNode.TRAINIUM:
        return TRAINIUM_NODES, neuron_toleration()
    only = k8s.Toleration(key=COMPILE_NODES, operator="Exists", effect="NoSchedule")
    return COMPILE_NODES, only


def _what_it_slows(experiment: Experiment) -> k8s.LabelSelector:
    """All pods that compile or, as an index, measure. A download is selected, too, on other nodes.

    Services idle until their graphs are there.
    """
    if not experiment.apart:
        return COMPILES
    measuring = Component.SWEEP if experiment.sweep else Component.OFFLINE
    return k8s.LabelSelector(
        match_expressions=[
            k8s.LabelSelectorRequirement(
                key="component", operator="In", values=[Component.PREPARE, measuring]
            )
        ]
    )


def not_beside(others: k8s.LabelSelector) -> k8s.Affinity:
    """Keeps a pod from a node that has one of ``others``.

    Kubernetes applies it in both directions. But a pod that waits is tried again as soon as another
    has ended only if that matches all of its own terms, and otherwise within five minutes
    (kube-scheduler v1.35.0, ``interpodaffinity/plugin.go``, ``isSchedulableAfterPodChange``). So
    there is one term for all.
    """
    term = k8s.PodAffinityTerm(label_selector=others, topology_key="kubernetes.io/hostname")
    return k8s.Affinity(
        pod_anti_affinity=k8s.PodAntiAffinity(
            required_during_scheduling_ignored_during_execution=[term]
        )
    )


def _check(variant: Variant) -> k8s.Container:
    models = [model for model in (variant.experiment.models.target, variant.draft) if model]
    return _aws(
        "check",
        [
            "await-checkpoints.sh",
            artifact_prefix(variant.artifact),
            *(model_prefix(model.id, model.revision) for model in models),
        ],
    )


def _aws(name: str, script: list[str]) -> k8s.Container:
    return k8s.Container(
        name=name,
        image=pinned(AWS_CLI),
        command=["/bin/bash", f"{SCRIPTS_PATH}/{script[0]}"],
        args=[*script[1:], SCRATCH_PATH],
        env=environment({}),
        env_from=model_store_environment(),
        security_context=container_security(read_only_root=True),
        resources=k8s.ResourceRequirements(
            requests=quantities(cpu="1", memory="1Gi", ephemeral_storage="1Gi"),
            limits=quantities(memory="8Gi", ephemeral_storage=_DISK_LIMIT),
        ),
        volume_mounts=[
            mount("scratch", SCRATCH_PATH),
            mount("scripts", SCRIPTS_PATH, read_only=True),
            mount("tmp", "/tmp"),
        ],
    )


def _compiler(variant: Variant) -> k8s.Container:
    runtime = variant.runtime
    return _neuron(
        variant,
        "compile",
        command=["/bin/bash", f"{SCRIPTS_PATH}/compile.sh", SCRATCH_PATH],
        args=runtime.compile_command(variant, _paths(variant)),
        variables={**runtime.compile_environment(variant, _paths(variant)), "HF_HUB_OFFLINE": "1"},
        # The request fits beside the services on a Trainium node, where they idle until this is
        # done and indexes are kept off. No limit of CPU: the compiler uses all cores.
        resources=k8s.ResourceRequirements(
            requests=quantities(cpu="16", memory="400Gi", ephemeral_storage="200Gi"),
            limits=quantities(memory="600Gi", ephemeral_storage=_DISK_LIMIT),
        ),
    )


def _draft(variant: Variant) -> Iterator[k8s.Container]:
    """Prepares a draft that the runtime cannot compile as published. Its image has PyTorch."""
    if command := variant.runtime.draft_command(variant, _paths(variant)):
        script, *arguments = command
        yield _neuron(
            variant,
            "draft",
            command=["python3", f"{SCRIPTS_PATH}/{script}", SCRATCH_PATH],
            args=arguments,
            variables={},
            resources=k8s.ResourceRequirements(
                requests=quantities(cpu="1", memory="16Gi", ephemeral_storage="20Gi"),
                limits=quantities(memory="64Gi", ephemeral_storage=_DISK_LIMIT),
            ),
        )


def _paths(variant: Variant) -> Paths:
    return paths(variant, artifact=f"{SCRATCH_PATH}/artifact", scratch=SCRATCH_PATH)


def _neuron(
    variant: Variant,
    name: str,
    *,
    command: list[str],
    args: list[str],
    variables: Mapping[str, str],
    resources: k8s.ResourceRequirements,
) -> k8s.Container:
    """A container of the runtime's own image, with checkpoints and scratch."""
    return k8s.Container(
        name=name,
        image=pinned(variant.runtime.image),
        command=command,
        args=args,
        working_dir="/tmp",
        env=environment(variables),
        security_context=container_security(read_only_root=False),
        resources=resources,
        volume_mounts=[
            mount("models", MODELS_PATH, read_only=True),
            mount("scratch", SCRATCH_PATH),
            mount("scripts", SCRIPTS_PATH, read_only=True),
            mount("tmp", "/tmp"),
        ],
    )
