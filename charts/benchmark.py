"""The benchmark's pod, which measures all services, writes results and publishes metrics."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s

from charts import pods, scripts
from charts.names import (
    VLLM_PORT,
    Component,
    Deployed,
    ServiceAccount,
    benchmark_pod,
    namespace,
)
from charts.relaunches import allow_relaunches
from experiment.known_models import Model
from experiment.measurement import TestCase
from experiment.runtimes import Workload
from experiment.schema import Experiment
from experiment.variants import Variant, variants
from spectap.inputs import config, load_points

CONFIG_PATH = "/etc/benchmark"
RESULTS_PATH = "/results"
BENCHMARK_RESOURCES: Final = pods.Resources(cpu=2, memory=4, memory_limit=8, disk=4, disk_limit=24)


def add_llmperf(chart: Chart, experiment: Experiment, deployed: Deployed) -> None:
    """A bare pod, as in the article: it runs once, and a new run is a new pod.

    Kubernetes lets only the image of a pod be changed. So its name ends in a digest of all else, as
    a Job's does, and its inputs come from the ConfigMap: a deploy with another load ends no run.
    """
    name = benchmark_pod(experiment)
    labels = {"app": name, "component": Component.BENCHMARK}
    settings = benchmark_config(experiment, deployed)
    files, references = {"config.json": written(settings)}, [pods.RUN_ID]
    relaunches = experiment.benchmark.launches > 1
    if relaunches:
        files[scripts.RELAUNCH] = scripts.read_relaunch()
        command = f"python {CONFIG_PATH}/{scripts.RELAUNCH}"
        references.append(k8s.EnvVar(name="RELAUNCH", value=command))
        allow_relaunches(chart, experiment, name)
    k8s.KubeConfigMap(chart, "Config", metadata=k8s.ObjectMeta(name=name), data=files)

    def measures(image: str) -> k8s.PodSpec:
        return pods.pod(
            ServiceAccount.BENCHMARK,
            # A restarted container resumes the run that it finds in the results volume.
            restart_policy="OnFailure",
            containers=[benchmark_container(image, "llmperf", "run", references=references)],
            volumes=benchmark_volumes(name),
            automount_service_account_token=relaunches,
        )

    spec = measures(deployed.benchmark_image)
    metadata = k8s.ObjectMeta(
        name=f"{name}-{pods.digest(k8s.KubePod.manifest(spec=measures('any')))}",
        labels=labels,
        annotations=pods.acknowledged(spec, pods.ENDS_BY_ITSELF) | pods.UNDISTURBED,
    )
    k8s.KubePod(chart, "Pod", metadata=metadata, spec=spec)


def benchmark_config(experiment: Experiment, deployed: Deployed) -> config.Config:
    """The benchmark's input: all variants. Of indexes, see ``charts.sweep_job``."""
    load = experiment.benchmark
    arguments = load.chat_template_kwargs
    template = {"chat_template_kwargs": dict(arguments)} if arguments else {}
    return config.Config(
        experiment=experiment.name,
        model=experiment.models.target.id,
        variants=tuple(map(_variant, variants(experiment))),
        region=experiment.aws.region,
        bucket=deployed.bucket,
        prompts_bucket=deployed.prompts_bucket
        if any(case.line or case.file for case in load.test_cases)
        else None,
        load=load_points.Load(
            # Of lines: where there are none, it is the length of nothing.
            mean_input_tokens=load.mean_input_tokens or load_points.MINIMUM_INPUT_TOKENS,
            stddev_input_tokens=load.stddev_input_tokens,
            mean_output_tokens=load.mean_output_tokens,
            stddev_output_tokens=load.stddev_output_tokens,
            timeout_seconds=load.timeout_seconds,
            spread_minutes=load.spread_minutes,
            points=load.points,
            rounds=load.rounds,
            launches=load.launches,
            endpoint_type=load.endpoint_type,
            sampling={
                "temperature": load.temperature,
                **({"ignore_eos": True} if load.ignore_eos else {}),
                **template,
            },
        ),
        test_cases=tuple(_test_case(experiment, case) for case in load.test_cases),
        objectives=load.objectives,
        keep_answers=load.keep_answers,
        isolated=experiment.isolated,
        machines=1 if experiment.isolated else experiment.capacity.nodes,
        stopper=deployed.stopper if experiment.capacity.stops_after_run else None,
        api_key_secret=experiment.api_key_secret,
        cost=cost(experiment),
        settings=_settings(experiment),
        published=experiment.published,
    )


def written(settings: config.Config) -> str:
    """The configuration as its ConfigMap has it: without lines, where a bucket has them."""
    return config.dump(config.without_lines(settings)[0] if settings.prompts_bucket else settings)


def prompt_assets(experiment: Experiment) -> dict[str, bytes]:
    """Objects that the benchmark reads in the prompts' bucket: files, and all lines in one."""
    _, lines = config.without_lines(benchmark_config(experiment, Deployed("any", "any")))
    contents = [file.content for file in experiment.prompt_files.values()] + [lines] * bool(lines)
    return {hashlib.sha256(content).hexdigest(): content for content in contents}


def _test_case(experiment: Experiment, case: TestCase) -> config.TestCase:
    fields = case.model_dump(exclude={"set", "file", "classes", "limit"})
    if case.is_line:
        return config.TestCase(**fields, prompts=None)
    prompts = config.PromptSource(
        set=case.set,
        file=case.file,
        digest=experiment.prompt_files[case.file].digest if case.file else None,
        classes=case.classes,
        limit=case.limit,
    )
    return config.TestCase(**fields, prompts=prompts)


def endpoint(variant: Variant) -> str | None:
    """Base URL of a variant for its benchmark, in a sweep in the same pod; None for a job."""
    if variant.experiment.workload is Workload.JOB:
        return None
    if variant.experiment.sweep:
        return f"http://127.0.0.1:{VLLM_PORT}/v1"
    host = f"{variant.service}.{namespace(variant.experiment)}.svc.cluster.local"
    return f"http://{host}:{VLLM_PORT}/v1"


def cost(experiment: Experiment) -> config.Cost:
    """The price of one variant."""
    devices, capacity = experiment.serving.devices, experiment.capacity
    return config.Cost(
        usd_per_hour=capacity.price.usd_per_hour,
        price_of=experiment.price_description,
        as_of=capacity.price.as_of.isoformat(),
        share=devices / capacity.instance.devices,
        denominator=f"{devices} of {capacity.instance.devices} devices of one "
        f"{capacity.instance_type}",
    )


def _variant(variant: Variant) -> config.Variant:
    return config.Variant(
        name=variant.name,
        endpoint=endpoint(variant),
        baseline=variant.baseline,
        runtime=variant.runtime.name,
        mode=variant.mode,
        draft=_checkpoint(variant.draft) if variant.draft else None,
        window=variant.window,
        drafts_per_step=variant.drafts_per_step,
        batch=variant.batch,
        artifact=variant.artifact,
        without=variant.without,
    )


def _checkpoint(model: Model) -> str:
    return f"{model.id} @ {model.revision[:8]}"


def _settings(experiment: Experiment) -> dict[str, str]:
    """Settings that all variants have, in a person's words."""
    serving, price = experiment.serving, cost(experiment)
    arguments, thinking = dict(experiment.benchmark.chat_template_kwargs), dict[str, str]()
    if "enable_thinking" in arguments:
        # Qwen3's template asks whether it "is false", which no other value is.
        thinking = {"Thinking": "off" if arguments.pop("enable_thinking") is False else "on"}
    elif experiment.models.target.resolved_architecture.thinks:
        thinking = {"Thinking": "on, the model's default"}
    return {
        "Target": _checkpoint(experiment.models.target),
        "Image": experiment.serving_runtime.tag,
        "Devices": f"{serving.devices} of a {experiment.capacity.instance_type}, "
        f"LNC {serving.logical_core_size}, TP {serving.tensor_parallel}",
        "Length": f"{serving.length} tokens",
        **thinking,
        **({"Chat template": json.dumps(arguments)} if arguments else {}),
        "Region": experiment.aws.region,
        "Price": f"{price.usd_per_hour} USD per hour ({price.price_source})",
    }


def benchmark_container(
    image: str, name: str, command: str, *, references: Sequence[k8s.EnvVar], prefix: str = ""
) -> k8s.Container:
    """The benchmark, with one of its commands; ``prefix`` is that of ``benchmark_volumes``."""
    return pods.container(
        name,
        image,
        args=[command],
        variables={"BENCHMARK_CONFIG": f"{CONFIG_PATH}/config.json", "RESULTS_DIR": RESULTS_PATH},
        references=references,
        resources=BENCHMARK_RESOURCES,
        mounts=[
            pods.mount("config", CONFIG_PATH, read_only=True),
            pods.mount("results", RESULTS_PATH),
            pods.mount(f"{prefix}tmp", "/tmp"),
            pods.mount(f"{prefix}shared-memory", "/dev/shm"),
        ],
    )


def benchmark_volumes(config_map: str, *, prefix: str = "") -> list[k8s.Volume]:
    """Its mounts. ``prefix`` begins the names that another container of the pod has, too."""
    return [
        pods.config_volume("config", config_map),
        pods.empty_dir("results", "10Gi"),
        pods.empty_dir(f"{prefix}tmp", "10Gi"),
        # llmperf runs its clients on Ray, which keeps its object store there.
        pods.empty_dir(f"{prefix}shared-memory", "4Gi", medium="Memory"),
    ]
