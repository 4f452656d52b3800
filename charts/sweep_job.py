"""The Job of variants that are measured one by one: an index each, of a sweep or of jobs."""

from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s

from charts import scripts as all_scripts
from charts.benchmark import (
    BENCHMARK_RESOURCES,
    CONFIG_PATH,
    RESULTS_PATH,
    benchmark_config,
    benchmark_container,
    benchmark_volumes,
    written,
)
from charts.names import DEVICES, Component, Deployed, ServiceAccount, artifact_prefix, indexed_job
from charts.pods import SCRIPTS_MOUNT, SCRIPTS_PATH, digest, job, mount, reference
from charts.preparation import COMPILES, not_beside
from charts.scripts import Scripts
from charts.server import (
    ARTIFACT_PATH,
    fetch,
    key_scripts,
    on_devices,
    program,
    server,
    serving_pod,
)
from experiment.cost.timeline import index_deadline_seconds, job_deadline_seconds
from experiment.runtimes.inference_demo import medusa_tree_files
from experiment.schema import Experiment
from experiment.variants import Variant, variants
from spectap.inputs import config

EXIT_RETRY: Final = 75
"""Exit status of ``fetch`` while there is no artifact: EX_TEMPFAIL of ``sysexits.h``."""

EXIT_PERMANENT: Final = 69
"""Exit status where trying again cannot help: EX_UNAVAILABLE of ``sysexits.h``."""

MAX_POLLS: Final = 24
"""How often an index looks for its graph before it fails. It looks only while its node compiles
nothing, and the Job waits between two looks, 10 s and twice as long each time up to 10 min: three
hours for all of them."""

START_SECONDS: Final = 45 * 60
"""The benchmark's patience with what it measures: as long as a service may take to start."""

_COMMON_SCRIPTS: Final = ("devices.sh", "complete.sh", "fetch-index.sh", "fetch-artifact.sh")
_RETRIES: Final = 2
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
MEASURED: Final = ("model", "load", "test_cases", "keep_answers")
"""Fields of the configuration that decide what is measured of any variant."""
_SHORT: Final = 12
"""Digits shown of an image's tag that is a digest: an image that is built here has one."""
_CONFIG_MOUNT: Final = mount("config", CONFIG_PATH, read_only=True)
_BENCHMARK: Final = "benchmark-"
"""Prefix of the benchmark's volumes, where its neighbour has one of that name, too."""


def add_indexes(chart: Chart, experiment: Experiment, deployed: Deployed, scripts: Scripts) -> None:
    """An Indexed Job, and a ConfigMap in which an index finds what it is.

    The pods of a Job have one specification. Those of a sweep are all made at the start, and wait
    for devices; jobs run one at a time, so that no variant is slowed by another.
    """
    image = deployed.benchmark_image
    settings = indexed_config(experiment, deployed)
    name = indexed_job(experiment)
    k8s.KubeConfigMap(
        chart,
        "Config",
        metadata=k8s.ObjectMeta(name=name),
        data={"config.json": written(settings), **_files(experiment, settings)},
    )
    component, measures = (
        (Component.SWEEP, "benchmark") if experiment.sweep else (Component.OFFLINE, "generate")
    )
    count = len(variants(experiment))
    # Those that its pods run: with others, it is another Job.
    serves = ("serve-index.sh", *key_scripts(experiment)) if experiment.sweep else ()
    run = (*_COMMON_SCRIPTS, *serves, *_instruments(experiment))
    job(
        chart,
        "Job",
        name,
        {"app": name, "component": component},
        _pod(experiment, image),
        {script: scripts[script] for script in run},
        # The account stands in the repository of an image that is built here, and must not change
        # the Job's name.
        stable=_pod(experiment, experiment.benchmark.image or _tag(deployed)),
        completion_mode="Indexed",
        completions=count,
        parallelism=count if experiment.sweep else 1,
        backoff_limit_per_index=_RETRIES,
        pod_failure_policy=_failure_policy(measures),
        active_deadline_seconds=job_deadline_seconds(experiment),
    )


def indexed_config(experiment: Experiment, deployed: Deployed) -> config.Config:
    """The input of all indexes."""
    shared = benchmark_config(experiment, deployed)
    measured = [
        each.model_copy(update={"served": _served(variant)})
        for each, variant in zip(shared.variants, variants(experiment), strict=True)
    ]
    image = experiment.benchmark.image or _tag(deployed)[:_SHORT]
    settings = {**shared.settings, "Benchmark": image}
    return shared.model_copy(update={"variants": tuple(measured), "settings": settings})


def _tag(deployed: Deployed) -> str:
    return deployed.benchmark_image.rpartition(":")[2]


def run_id(experiment: Experiment) -> str:
    """The run of an experiment's indexes: the same for every Job whose variants are asked the same.

    So a Job that is made again, for other windows or at another price, keeps what is complete. How
    a variant is served is in the name of its own folder. Nothing in it depends on the account.
    """
    shared = benchmark_config(experiment, Deployed("any", "any"))
    settings = shared.model_dump(mode="json", include={*MEASURED})
    number = experiment.sweep.run if experiment.sweep else "jobs"
    return f"{experiment.name}-{digest([settings, experiment.serving.length, number])}"


def _instruments(experiment: Experiment) -> tuple[str, ...]:
    """The scripts that measure: with others, it is another measurement."""
    if experiment.sweep:
        return ()
    # The tree decides what a step yields.
    return ("generate.sh", "benchmark_medusa.py", *medusa_tree_files())


def _served(variant: Variant) -> str:
    """Digest of all that decides what is measured of ``variant`` but for what it is asked."""
    measured_by = [all_scripts.read()[name] for name in _instruments(variant.experiment)]
    return digest([variant.artifact, *program(variant), *measured_by])


def _files(experiment: Experiment, settings: config.Config) -> dict[str, str]:
    """A description of each index, in files that bash can read: an argument of a command a line."""
    return {
        f"{index}.{name}": f"{text}\n"
        for index, variant in enumerate(variants(experiment))
        for name, text in (
            ("variant", variant.name),
            ("folder", settings.variants[index].folder),
            ("artifact", artifact_prefix(variant.artifact)),
            ("serve" if experiment.sweep else "generate", "\n".join(program(variant)[0])),
        )
    }


def _pod(experiment: Experiment, image: str) -> k8s.PodSpec:
    """Three containers: one fetches the artifact, one serves or generates, and the benchmark.

    vLLM is a sidecar, which Kubernetes ends after the benchmark and starts again if it fails. It
    has no probes: the benchmark waits for it and says why it does not start. A startup probe that
    failed would begin anew, for ever, and the benchmark would never run.
    """
    environment, *others = [program(variant)[1] for variant in variants(experiment)]
    assert all(other == environment for other in others), "a Job's pods have one environment"
    run = k8s.EnvVar(name="RUN_ID", value=run_id(experiment))
    # How often it has looked in vain. Kubernetes counts what it ignores in an annotation, which the
    # first pod does not have: then the variable is empty.
    looked = reference("LOOKED", f"metadata.annotations['{_IGNORED}']")
    brings = fetch(
        "fetch",
        ["fetch-index.sh", CONFIG_PATH, ARTIFACT_PATH],
        references=[run, looked, k8s.EnvVar(name="LOOKS", value=str(MAX_POLLS))],
        mounts=[_CONFIG_MOUNT],
    )
    if experiment.sweep:
        runs = server(
            experiment,
            ["/bin/bash", f"{SCRIPTS_PATH}/serve-index.sh", CONFIG_PATH, ARTIFACT_PATH],
            environment,
            beside=BENCHMARK_RESOURCES,
            mounts=[_CONFIG_MOUNT, SCRIPTS_MOUNT],
            restart_policy="Always",
        )
        patience = k8s.EnvVar(name="START_SECONDS", value=str(START_SECONDS))
        account, name, command = ServiceAccount.SWEEP, "benchmark", "index"
        references = [run, patience]
    else:
        runs = on_devices(
            experiment,
            "generate",
            ["/bin/bash", f"{SCRIPTS_PATH}/generate.sh", CONFIG_PATH, ARTIFACT_PATH, RESULTS_PATH],
            {**environment, "RUN_ID": run_id(experiment)},
            # It writes its tokenizer there (NxDI v0.6.10598, inference_demo.py, load_tokenizer).
            artifact=mount("artifact", ARTIFACT_PATH),
            mounts=[_CONFIG_MOUNT, SCRIPTS_MOUNT, mount("results", RESULTS_PATH)],
        )
        account, name, command = ServiceAccount.OFFLINE, "collect", "collect"
        references = [run]
    return serving_pod(
        experiment,
        account,
        # An index that failed is a new pod, which the Job counts.
        restart_policy="Never",
        # A generation that hangs would keep the devices until the Job's own deadline.
        active_deadline_seconds=None if experiment.sweep else index_deadline_seconds(experiment),
        # A compile takes all cores of its node: what is measured beside it would be slower, and
        # the controls need not show it. The scheduler keeps compiles away from these pods, too.
        affinity=not_beside(COMPILES),
        init_containers=[brings, runs],
        containers=[
            benchmark_container(image, name, command, references=references, prefix=_BENCHMARK)
        ],
        volumes=benchmark_volumes(indexed_job(experiment), prefix=_BENCHMARK),
    )


def _failure_policy(measures: str) -> k8s.PodFailurePolicy:
    """Says which endings of an index are final, and which are no failure; others are tried again.

    No failures are a graph that is not there yet and a node that is taken away.
    """

    def on_status(action: str, container: str, status: int) -> k8s.PodFailurePolicyRule:
        requirement = k8s.PodFailurePolicyOnExitCodesRequirement(
            container_name=container, operator="In", values=[status]
        )
        return k8s.PodFailurePolicyRule(action=action, on_exit_codes=requirement)

    last = [on_status("FailIndex", name, EXIT_PERMANENT) for name in (DEVICES, "fetch", measures)]
    taken_away = k8s.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    ignored = k8s.PodFailurePolicyRule(action="Ignore", on_pod_conditions=[taken_away])
    return k8s.PodFailurePolicy(rules=[on_status("Ignore", "fetch", EXIT_RETRY), *last, ignored])
