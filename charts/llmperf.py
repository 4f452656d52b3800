"""The ``qwen-llmperf`` pod: measures both services, writes results, publishes metrics, ends."""

from __future__ import annotations

import json
from typing import Any

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from benchmark.names import BASE, SPECULATIVE
from charts.names import (
    BENCHMARK_POD,
    NAMESPACE,
    VLLM_PORT,
    Component,
    ServiceAccount,
)
from charts.pods import (
    container_security,
    empty_dir,
    environment,
    mount,
    pod_security,
    quantities,
    run_id,
)
from experiment.schema import Experiment
from experiment.variants import Variant, variants

CONFIG_PATH = "/etc/benchmark"
RESULTS_PATH = "/results"


class LlmperfChart(Chart):
    """A bare pod, as in the article: it runs once.

    Nothing in its specification but the image depends on the experiment, for a pod can be changed
    in nothing else. All inputs come from the ConfigMap; a new run is a new pod.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        experiment: Experiment,
        bucket: str,
        image: str,
    ) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        labels = {"app": BENCHMARK_POD, "component": Component.BENCHMARK}
        k8s.KubeConfigMap(
            self,
            "Config",
            metadata=k8s.ObjectMeta(name=BENCHMARK_POD),
            data={"config.json": json.dumps(benchmark_config(experiment, bucket), indent=2)},
        )
        k8s.KubePod(
            self,
            "Pod",
            metadata=k8s.ObjectMeta(name=BENCHMARK_POD, labels=labels),
            spec=k8s.PodSpec(
                service_account_name=ServiceAccount.BENCHMARK,
                automount_service_account_token=False,
                enable_service_links=False,
                # A restarted container goes on with the run it finds in the results volume.
                restart_policy="OnFailure",
                security_context=pod_security(),
                containers=[_container(image)],
                volumes=[
                    k8s.Volume(
                        name="config", config_map=k8s.ConfigMapVolumeSource(name=BENCHMARK_POD)
                    ),
                    empty_dir("results", "10Gi"),
                    empty_dir("tmp", "10Gi"),
                    # Ray, which llmperf runs its clients on, keeps its object store there.
                    empty_dir("shared-memory", "4Gi", medium="Memory"),
                ],
            ),
        )


def benchmark_config(experiment: Experiment, bucket: str) -> dict[str, Any]:
    """What ``benchmark.config`` reads: the pod's only input."""
    load = experiment.benchmark
    baseline, speculative = variants(experiment)
    share = experiment.serving.devices / experiment.capacity.instance.devices
    return {
        "experiment": experiment.name,
        "model": experiment.models.target.id,
        "endpoints": {BASE: endpoint(baseline), SPECULATIVE: endpoint(speculative)},
        "region": experiment.aws.region,
        "bucket": bucket,
        "load": {
            "mean_input_tokens": load.mean_input_tokens,
            "stddev_input_tokens": load.stddev_input_tokens,
            "mean_output_tokens": load.mean_output_tokens,
            "stddev_output_tokens": load.stddev_output_tokens,
            "concurrency": load.concurrency,
            "requests": load.requests,
            "rounds": load.rounds,
            "timeout_seconds": load.timeout_seconds,
            "sampling": {"temperature": load.temperature},
        },
        "test_cases": [case.model_dump(mode="json") for case in load.test_cases],
        "cost": {
            "usd_per_hour": experiment.capacity.price.usd_per_hour,
            "price_of": experiment.price_of,
            "as_of": experiment.capacity.price.as_of.isoformat(),
            "share": share,
            "denominator": f"{experiment.serving.devices} of "
            f"{experiment.capacity.instance.devices} devices of one "
            f"{experiment.capacity.instance_type}",
        },
        "settings": _settings(experiment, baseline, speculative),
    }


def endpoint(variant: Variant) -> str:
    """Base URL of a variant inside the cluster."""
    return f"http://{variant.service}.{NAMESPACE}.svc.cluster.local:{VLLM_PORT}/v1"


def _settings(experiment: Experiment, baseline: Variant, speculative: Variant) -> dict[str, str]:
    """What the report prints about the experiment, as a person would put it."""
    models, serving = experiment.models, experiment.serving
    return {
        "Target": f"{models.target.id} @ {models.target.revision[:8]}",
        "Draft": f"{models.draft.id} @ {models.draft.revision[:8]}",
        "Speculation": f"{experiment.speculation.mode}, "
        f"{experiment.speculation.num_speculative_tokens} tokens",
        "Runtime": experiment.serving_runtime.image.rpartition(":")[2],
        "Devices": f"{serving.devices} of a {experiment.capacity.instance_type}, "
        f"LNC {serving.logical_core_size}, TP {serving.tensor_parallel}",
        "Batch and length": f"{serving.batch} x {serving.length} tokens",
        "Region": experiment.aws.region,
        "Price": f"{experiment.capacity.price.usd_per_hour} USD per hour "
        f"(as of {experiment.capacity.price.as_of}, {experiment.price_of})",
        "Baseline artifact": baseline.artifact,
        "Speculative artifact": speculative.artifact,
    }


def _container(image: str) -> k8s.Container:
    return k8s.Container(
        name="llmperf",
        image=image,
        args=["run"],
        env=[
            *environment(
                {
                    "BENCHMARK_CONFIG": f"{CONFIG_PATH}/config.json",
                    "RESULTS_DIR": RESULTS_PATH,
                }
            ),
            run_id(),
        ],
        security_context=container_security(read_only_root=True),
        resources=k8s.ResourceRequirements(
            requests=quantities(cpu="2", memory="4Gi"), limits=quantities(memory="8Gi")
        ),
        volume_mounts=[
            mount("config", CONFIG_PATH, read_only=True),
            mount("results", RESULTS_PATH),
            mount("tmp", "/tmp"),
            mount("shared-memory", "/dev/shm"),
        ],
    )
