"""The quality Job: GSM8K against all services. Suspended until someone starts it."""

from typing import Final

from cdk8s import Chart

from charts import pods
from charts.benchmark import endpoint
from charts.names import Component, ServiceAccount, quality_job
from charts.scripts import Scripts
from experiment.schema import Experiment
from experiment.variants import variants
from spectap.names import RESULTS_PREFIX

MAX_ANSWER_TOKENS: Final = 512
"""Room for a brief solution, as in the published sample. A question is shorter."""


def add_quality(chart: Chart, experiment: Experiment, scripts: Scripts) -> None:
    """A Job to start by hand, since it loads the services. The stack's output says how."""
    name = quality_job(experiment)
    labels = {"app": name, "component": Component.QUALITY}
    used = [scripts["quality.py"], scripts["quality.lock"]]
    assert experiment.quality is not None  # a sweep, which may have none, has no such chart
    secret = experiment.api_key_secret
    evaluates = pods.pod(
        ServiceAccount.QUALITY,
        restart_policy="Never",
        containers=[
            pods.container(
                "lm-eval",
                pods.PYTHON,
                command=pods.python_command("quality"),
                args=[
                    experiment.models.target.id,
                    str(experiment.quality.limit),
                    str(experiment.concurrency_without_a_queue),
                    str(min(MAX_ANSWER_TOKENS, experiment.serving.length // 2)),
                    f"{RESULTS_PREFIX}quality/",
                    *(f"{v.name}={endpoint(v)}" for v in variants(experiment) if not v.matched),
                ],
                variables={"API_KEY_SECRET": secret} if secret else {},
                references=[pods.RUN_ID],
                env_from=[pods.MODEL_STORE_ENVIRONMENT],
                resources=pods.Resources(cpu=1, memory=2, memory_limit=6, disk=4, disk_limit=12),
                mounts=pods.SCRATCH_MOUNTS,
            )
        ],
        volumes=[
            pods.SCRIPTS_VOLUME,
            pods.empty_dir("scratch", "5Gi"),
            pods.empty_dir("tmp", "5Gi"),
        ],
    )
    pods.job(chart, "Job", name, labels, evaluates, used, suspend=True, backoff_limit=1)
