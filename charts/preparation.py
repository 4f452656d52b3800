"""Jobs that fill the bucket with checkpoints and compiled graphs.

Checkpoints pass through a CPU node, graphs through the disk of the node that compiles. Each Job is
idempotent: a second run finds the completion marker and does nothing.
"""

from typing import Any, Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s

from charts import pods
from charts.names import (
    COMPILE_NODES,
    NEURON_TAINT,
    SCRIPTS_CONFIG,
    TRAINIUM_NODES,
    Component,
    ServiceAccount,
    artifact_prefix,
    model_prefix,
)
from charts.scripts import Scripts
from charts.server import paths
from experiment.runtimes import Preparation
from experiment.schema import CompileNode, Experiment
from experiment.variants import Variant, checkpoints, variants

COMPILES: Final = k8s.LabelSelector(match_labels={"step": "compile"})
"""All pods that compile."""
# Counted from a pod's start, so without the wait for a node.
_DEADLINE_SECONDS: Final = 8 * 60 * 60
_DISK: Final = 610
"""GiB: the volumes of a compile pod, and what its containers write beside them."""
_TOKEN_PATH: Final = "/hugging-face"
_SCRIPTS: Final = {
    "download": ("download.py", "download.lock"),
    "compile": (
        "complete.sh",
        "await-checkpoints.sh",
        "prepare_draft.py",
        "prepare_medusa.py",
        "compile.sh",
        "upload-artifact.sh",
    ),
}


def add_preparation(chart: Chart, experiment: Experiment, scripts: Scripts) -> None:
    """The download Job, and a compile Job for each variant that needs one."""
    k8s.KubeConfigMap(
        chart, "Scripts", metadata=k8s.ObjectMeta(name=SCRIPTS_CONFIG), data=dict(scripts)
    )
    jobs = {"download": ("download", _download(experiment))}
    if experiment.serving_runtime.preparation is not Preparation.FIRST_START:
        compiles = {v.service: ("compile", compile_pod(v)) for v in variants(experiment)}
        jobs |= {f"compile-{service}": value for service, value in compiles.items()}
    for name, (step, prepares) in jobs.items():
        # A Job that failed in a script runs again, under a new name, once the script is fixed.
        used = {script: scripts[script] for script in _SCRIPTS[step]}
        labels = {"component": Component.PREPARE, "step": step}
        pods.job(chart, name.capitalize(), name, labels, prepares, used, backoff_limit=3)


def _download(experiment: Experiment) -> k8s.PodSpec:
    """Copies the checkpoints, a file at a time: the node needs room for one shard only."""
    arguments = [
        f"{model.id}@{model.revision}={model_prefix(model)}" for model in checkpoints(experiment)
    ]
    return pods.pod(
        ServiceAccount.PREPARE,
        restart_policy="OnFailure",
        active_deadline_seconds=_DEADLINE_SECONDS,
        containers=[
            pods.container(
                "download",
                pods.PYTHON,
                command=pods.python_command("download"),
                args=arguments,
                variables={
                    # The client caches what it fetches. In memory that would exceed the limit.
                    "HF_HOME": f"{pods.SCRATCH_PATH}/hub",
                    "HF_TOKEN_PATH": f"{_TOKEN_PATH}/token",
                },
                env_from=[pods.MODEL_STORE_ENVIRONMENT],
                resources=pods.Resources(cpu=1, memory=2, memory_limit=4, disk=20, disk_limit=50),
                mounts=[
                    pods.mount("scratch", pods.SCRATCH_PATH),
                    pods.SCRIPTS_MOUNT,
                    pods.mount("token", _TOKEN_PATH, read_only=True),
                    pods.mount("tmp", "/tmp"),
                ],
            )
        ],
        volumes=[
            pods.SCRIPTS_VOLUME,
            # For gated models; Qwen's need none. A file, which no process inherits.
            k8s.Volume(
                name="token",
                secret=k8s.SecretVolumeSource(secret_name="hugging-face", optional=True),
            ),
            pods.empty_dir("scratch", "40Gi"),
            pods.empty_dir("tmp", "5Gi"),
        ],
    )


def compile_pod(variant: Variant) -> k8s.PodSpec:
    """Checks, compiles, uploads: one container after another, each in the image with its tool.

    No device claim: NxDI traces and shards on the CPU (docs/decisions/0004). So it runs on a CPU
    node; and on a Trainium node, where the waiting services may already hold all devices.
    """
    experiment, runtime, config = variant.experiment, variant.runtime, variant.engine_config
    artifact = artifact_prefix(variant.artifact)
    places = paths(variant, artifact=f"{pods.SCRATCH_PATH}/artifact", scratch=pods.SCRATCH_PATH)
    steps = [_aws("check", "await-checkpoints.sh", artifact, *map(model_prefix, variant.models))]
    if command := runtime.draft_command(config, places):
        # A draft that the runtime cannot compile as published. Its image has PyTorch.
        script, *arguments = command
        resources = pods.Resources(cpu=1, memory=16, memory_limit=64, disk=20, disk_limit=_DISK)
        steps.append(
            _neuron(variant, "draft", "python3", script, args=arguments, resources=resources)
        )
    # The request fits beside the services on a Trainium node, where they idle until this is done
    # and indexes are kept off. No limit of CPU: the compiler uses all cores.
    size = experiment.compile_instance
    resources = pods.Resources(
        size.compile_vcpus, size.compile_gib, 200, _DISK, size.compile_limit_gib
    )
    compiles: dict[str, Any] = {
        "args": runtime.compile_command(config, places),
        "variables": {**runtime.compile_environment(config, places), "HF_HUB_OFFLINE": "1"},
    }
    steps.append(
        _neuron(variant, "compile", "/bin/bash", "compile.sh", resources=resources, **compiles)
    )
    on_cpus = experiment.compile_node is CompileNode.CPU
    nodes = (COMPILE_NODES, COMPILE_NODES) if on_cpus else (TRAINIUM_NODES, NEURON_TAINT)
    parts = runtime.artifact_parts(config)
    return pods.pod(
        ServiceAccount.PREPARE,
        restart_policy="OnFailure",
        active_deadline_seconds=_DEADLINE_SECONDS,
        # Two on one node have filled its disk.
        affinity=not_beside(_what_it_slows(experiment)),
        init_containers=steps,
        containers=[_aws("upload", "upload-artifact.sh", artifact, *parts)],
        volumes=[
            pods.MODELS_VOLUME,
            pods.SCRIPTS_VOLUME,
            pods.empty_dir("scratch", "500Gi"),
            pods.empty_dir("tmp", "100Gi"),
        ],
        **pods.on_nodes(experiment, *nodes),
    )


def _what_it_slows(experiment: Experiment) -> k8s.LabelSelector:
    """Selects what a compile slows: other compiles and, of isolated variants, what measures.

    Services idle until their graphs are there. A download is selected, too, but on other nodes.
    """
    if not experiment.isolated:
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


def _aws(name: str, script: str, *arguments: str) -> k8s.Container:
    return pods.container(
        name,
        pods.AWS_CLI,
        command=["/bin/bash", f"{pods.SCRIPTS_PATH}/{script}"],
        args=[*arguments, pods.SCRATCH_PATH],
        env_from=[pods.MODEL_STORE_ENVIRONMENT],
        resources=pods.Resources(cpu=1, memory=1, memory_limit=8, disk=1, disk_limit=_DISK),
        mounts=pods.SCRATCH_MOUNTS,
    )


def _neuron(
    variant: Variant, name: str, interpreter: str, script: str, **settings: Any
) -> k8s.Container:
    """Runs a script in the runtime's own image."""
    return pods.container(
        name,
        variant.runtime.image,
        command=[interpreter, f"{pods.SCRIPTS_PATH}/{script}", pods.SCRATCH_PATH],
        working_dir="/tmp",
        read_only_root=False,
        **settings,
        mounts=[pods.mount("models", pods.MODELS_PATH, read_only=True), *pods.SCRATCH_MOUNTS],
    )
