"""A mode whose workload is a job gets the job's chart, and no endpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import aws_cdk as cdk
import cdk8s
import pytest
from aws_cdk.assertions import Template
from cdk8s_plus_35 import k8s
from constructs import Construct

import charts
from charts.names import NAMESPACE, ServiceAccount
from charts.pods import job_name
from experiment import Experiment
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Mode, Workload
from experiment.variants import Variant
from stacks.observability import ObservabilityStack
from tests.experiment.files import edited

FORK: Final = RUNTIMES["vllm-0.9.1-nxdi"]
OFFLINE: Final = replace(FORK.modes[Mode.FUSED], draft=None, workload=Workload.JOB)
SPECULATION: Final = [
    {"name": "SD", "mode": "fused", "num_speculative_tokens": 7},
    {"name": "heads", "mode": "medusa", "num_speculative_tokens": 4},
]


class OfflineChart(cdk8s.Chart):
    """Decodes with one variant, and ends."""

    def __init__(self, scope: Construct, construct_id: str, *, variant: Variant) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        pod = k8s.PodSpec(
            service_account_name=ServiceAccount.SERVE,
            restart_policy="Never",
            containers=[k8s.Container(name="decode", image=variant.runtime.image)],
        )
        spec = k8s.JobSpec(template=k8s.PodTemplateSpec(spec=pod))
        name = job_name(variant.service, spec)
        k8s.KubeJob(self, "Job", metadata=k8s.ObjectMeta(name=name), spec=spec)


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A baseline and SD, with half a node each, and a variant that runs as a job."""
    runtime = replace(FORK, modes={**FORK.modes, Mode.MEDUSA: OFFLINE})
    monkeypatch.setitem(RUNTIMES, FORK.name, runtime)
    monkeypatch.setitem(charts.WORKLOADS, Workload.JOB, OfflineChart)
    return parse(edited({"speculation": SPECULATION}), "mine.yaml")


@pytest.fixture
def objects(experiment: Experiment) -> dict[tuple[str, str], Any]:
    """Every object by kind and name, the digests of Jobs left out."""
    deployed = charts.Deployed(bucket="bucket", benchmark_image="registry.example.com/benchmark:1")
    found = [o for c in charts.charts(cdk8s.App(), experiment, deployed) for o in c.to_json()]
    named = ((o["kind"], o["metadata"]["name"], o) for o in found)
    return {(k, n.rpartition("-")[0] if k == "Job" else n): o for k, n, o in named}


def test_it_is_compiled_and_runs_as_a_job(objects: dict[tuple[str, str], Any]) -> None:
    assert {("Job", "compile-qwen-heads-vllm"), ("Job", "qwen-heads-vllm")} <= objects.keys()


def test_it_is_not_served(objects: dict[tuple[str, str], Any]) -> None:
    for kind in ("Service", "Deployment"):
        assert [name for k, name in objects if k == kind] == ["qwen-vllm", "qwen-sd-vllm"]


def test_it_is_not_measured(objects: dict[tuple[str, str], Any]) -> None:
    config = json.loads(objects["ConfigMap", "qwen-llmperf"]["data"]["config.json"])
    assert [variant["name"] for variant in config["variants"]] == ["Base", "SD"]
    (quality,) = objects["Job", "qwen-lmeval"]["spec"]["template"]["spec"]["containers"]
    assert [word.partition("=")[0] for word in quality["args"][-2:]] == ["Base", "SD"]


def test_no_curve_and_no_alarm_waits_for_it(experiment: Experiment) -> None:
    stack = ObservabilityStack(cdk.App(), "observability", experiment=experiment)
    template = json.dumps(Template.from_stack(stack).to_json())
    assert "lost-its-benefit-SD" in template
    assert "heads" not in template
