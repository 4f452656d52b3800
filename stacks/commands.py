"""What a person types after a deploy: the outputs of the serving stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from charts.names import NAMESPACE, benchmark_pod, indexed_job, quality_job
from experiment.schema import Experiment
from experiment.variants import variants
from spectap.names import RESULTS_PREFIX, VARIANTS

_KUBECTL: Final = f"kubectl --namespace {NAMESPACE}"
# Made again as it was applied: what controllers have added to an object is no part of a new one.
_REPLACE: Final = "kubectl replace --force --save-config -f -"


class Command(NamedTuple):
    """A line for the shell."""

    name: str
    text: str
    description: str


def first(experiment: Experiment, region: str, role_arn: str) -> Iterator[Command]:
    """Those that every experiment begins with."""
    yield Command(
        "Kubeconfig",
        f"aws eks update-kubeconfig --name {experiment.name} --region {region} "
        f"--role-arn {role_arn}",
        "First: kubectl for this cluster",
    )
    yield Command("Watch", f"{_KUBECTL} get pods --watch", "Watch the pods")
    # A download, and a compile Job a variant, which has four containers at most.
    streams = max(10, 1 + 4 * len(variants(experiment)))
    yield Command(
        "Preparation",
        f"{_KUBECTL} logs --selector component=prepare --all-containers --prefix "
        f"--follow --max-log-requests {streams} --ignore-errors",
        "Downloads and compiles",
    )


def of_services(experiment: Experiment) -> Iterator[Command]:
    """Those for variants that stand side by side."""
    pod, job = benchmark_pod(experiment), quality_job(experiment)
    yield Command("Results", f"{_KUBECTL} logs --follow {pod}", "The benchmark and its table")
    yield Command(
        "Again",
        f"{_KUBECTL} apply view-last-applied pod {pod} --output yaml | {_REPLACE}",
        "Another run",
    )
    yield Command(
        "Quality",
        f"{_KUBECTL} patch $({_KUBECTL} get job --selector app={job} --output name) "
        """--type merge --patch '{"spec":{"suspend":false}}'""",
        "GSM8K against the services",
    )


def of_indexes(experiment: Experiment, run_id: str, bucket: str) -> Iterator[Command]:
    """Those for variants that are measured one by one: of a sweep, or as jobs."""
    selector = f"--selector app={indexed_job(experiment)}"
    measures = (
        "its vLLM and its benchmark"
        if experiment.sweep
        else "its inference_demo and what is collected"
    )
    columns = "COMPLETE:.status.completedIndexes,FAILED:.status.failedIndexes"
    yield Command(
        "Indexes",
        f"{_KUBECTL} get job {selector} "
        f"--output custom-columns=NAME:.metadata.name,ALL:.spec.completions,{columns}",
        "Which indexes are complete, and which have failed",
    )
    yield Command(
        "Index",
        f"{_KUBECTL} logs {selector},batch.kubernetes.io/job-completion-index=0 "
        "--all-containers --prefix --tail 50 --follow --max-log-requests 1000 --ignore-errors",
        f"One index: its artifact, {measures}",
    )
    yield Command(
        "Results",
        f"aws s3 sync s3://{bucket}/{RESULTS_PREFIX}{run_id}/ results/{run_id} "
        f"--exclude '{VARIANTS}/*'",
        "Report and ledger of all that is complete",
    )
    yield Command(
        "Again",
        f"{_KUBECTL} apply view-last-applied job {selector} --output yaml | {_REPLACE}",
        "Indexes that have failed, once more; complete ones are kept",
    )
