"""Applies the charts to the cluster, and gives their pods identities."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from aws_cdk import CfnOutput
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_eks_v2 as eks
from cdk8s import App as Cdk8sApp
from cdk8s import Chart
from constructs import Construct, IDependable

from charts.manifests import charts
from charts.names import (
    Deployed,
    benchmark_pod,
    bucket_name,
    indexed_job,
    namespace,
    prompts_bucket_name,
    stopper_arn,
)
from charts.sweep_job import run_id
from experiment.schema import Experiment
from experiment.variants import variants
from spectap.names import RESULTS_PREFIX, VARIANTS
from stacks.identities import pod_identities, upload_prompts
from stacks.stack import ExperimentStack

PRUNED: Final = frozenset(
    (
        *("ConfigMap", "CronJob", "DaemonSet", "Deployment", "Endpoints", "Ingress", "Job"),
        *("Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod", "ReplicaSet"),
        *("ReplicationController", "Secret", "Service", "StatefulSet"),
    )
)
"""Kinds that ``kubectl apply --prune`` removes by default, as the CDK's handler runs it
(kubernetes/kubectl v0.35.0, ``pkg/util/prune/prune.go``)."""


class ServingStack(ExperimentStack):
    """Everything in Kubernetes, applied and then left alone.

    Nothing here waits for a download, a compile or vLLM: CloudFormation would give up long before.
    """

    def __init__(
        self,
        scope: Construct,
        experiment: Experiment,
        account: str | None,
        cluster: eks.ICluster,
        benchmark_directory: str,
    ) -> None:
        super().__init__(scope, f"{experiment.name}-serving", experiment, account)
        self._qualifier = str(self.synthesizer.bootstrap_qualifier)
        self._image = experiment.benchmark.image or self._build(benchmark_directory)
        upload_prompts(self, experiment)
        self._apply(cluster, pod_identities(self, experiment, self.deployed(self.account)))
        self._outputs()

    def deployed(self, account: str) -> Deployed:
        """Names of a deployment in ``account``, a token or digits, for the manifests."""
        return Deployed(
            bucket=bucket_name(self.experiment, account),
            benchmark_image=self._image.replace(self.account, account),
            stopper=stopper_arn(self.experiment, account),
            prompts_bucket=prompts_bucket_name(self.experiment, account, self._qualifier),
        )

    def _build(self, directory: str) -> str:
        asset = ecr_assets.DockerImageAsset(
            self,
            "BenchmarkImage",
            directory=directory,
            platform=ecr_assets.Platform.LINUX_AMD64,
            exclude=["**/__pycache__"],
        )
        # The registry's host in plain text, with the account as the only token: dist/ needs it too.
        repository = f"cdk-{self._qualifier}-container-assets-{self.account}-{self.region}"
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com/{repository}:{asset.image_tag}"

    def _apply(self, cluster: eks.ICluster, identities: Sequence[IDependable]) -> None:
        """One manifest resource for everything the handler prunes, and one for each other object.

        An object that is taken out of a chart must also be removed from the cluster. ``kubectl
        apply --prune`` removes its own kinds. For any other kind CloudFormation deletes the
        resource (docs/decisions/0015). Its id contains the object's name: under another name it is
        another resource, and not an update that would leave the old object behind.
        """
        ordered = charts(Cdk8sApp(), self.experiment, self.deployed(self.account))
        # One after the other: each runs two functions, and an account may be limited to ten.
        earlier = identities
        for name, objects in chain.from_iterable(map(_manifests, ordered)):
            # Applied instead of created, so that an existing object is not an error.
            manifest = eks.KubernetesManifest(
                self, name, cluster=cluster, manifest=objects, overwrite=True
            )
            manifest.node.add_dependency(*earlier)
            earlier = [manifest]

    def _outputs(self) -> None:
        """Lines for the shell, in the order of their use. The first is an output of the cluster."""
        experiment = self.experiment
        kubectl = _kubectl(experiment)
        commands = [
            ("Watch", f"{kubectl} get pods --watch", "Watch the pods"),
            (
                "Preparation",
                f"{kubectl} logs --selector component=prepare --all-containers --prefix "
                # A download, and a compile Job a variant, which has four containers at most.
                f"--follow --max-log-requests {max(10, 1 + 4 * len(variants(experiment)))} "
                "--ignore-errors",
                "Downloads and compiles",
            ),
            *(
                _for_indexes(experiment, self.deployed(self.account).bucket)
                if experiment.isolated
                else _for_services(experiment)
            ),
        ]
        for number, (name, line, description) in enumerate(commands, start=2):
            CfnOutput(self, f"Command{number}{name}", value=line, description=description)


def _manifests(chart: Chart) -> Iterator[tuple[str, list[Any]]]:
    objects: list[dict[str, Any]] = chart.to_json()
    if pruned := [manifest for manifest in objects if manifest["kind"] in PRUNED]:
        yield chart.node.id, pruned
    for manifest in objects:
        if manifest["kind"] not in PRUNED:
            yield f"{chart.node.id}-{manifest['kind']}-{manifest['metadata']['name']}", [manifest]


def _kubectl(experiment: Experiment) -> str:
    return f"kubectl --namespace {namespace(experiment)}"


# Made again as it was applied: what controllers have added to an object is not part of a new one. A
# Job goes after its pods: one that goes first can leave its successor without pods for minutes
# (kubernetes v1.35.4, job_controller.go, addPod).
_REPLACE: Final = "kubectl replace --force --cascade=foreground --save-config -f -"


def _for_services(experiment: Experiment) -> list[tuple[str, str, str]]:
    pod = f"--selector app={benchmark_pod(experiment)}"
    kubectl = _kubectl(experiment)
    return [
        # With a selector, kubectl shows ten lines by default.
        ("Results", f"{kubectl} logs {pod} --follow --tail=-1", "The benchmark and its table"),
        (
            "Again",
            f"{kubectl} apply view-last-applied pod {pod} --output yaml | {_REPLACE}",
            "Another run",
        ),
    ]


def _for_indexes(experiment: Experiment, bucket: str) -> list[tuple[str, str, str]]:
    """Outputs for variants that are measured one by one, in a sweep or as jobs."""
    selector, run = f"--selector app={indexed_job(experiment)}", run_id(experiment)
    kubectl = _kubectl(experiment)
    serves, collects = "its vLLM and its benchmark", "its inference_demo and what is collected"
    columns = "COMPLETE:.status.completedIndexes,FAILED:.status.failedIndexes"
    return [
        (
            "Indexes",
            f"{kubectl} get job {selector} "
            f"--output custom-columns=NAME:.metadata.name,ALL:.spec.completions,{columns}",
            "Which indexes are complete, and which have failed",
        ),
        (
            "Index",
            f"{kubectl} logs {selector},batch.kubernetes.io/job-completion-index=0 "
            "--all-containers --prefix --tail 50 --follow --max-log-requests 1000 --ignore-errors",
            f"One index: its artifact, {serves if experiment.sweep else collects}",
        ),
        (
            "Results",
            f"aws s3 sync s3://{bucket}/{RESULTS_PREFIX}{run}/ results/{run} "
            f"--exclude '{VARIANTS}/*'",
            "Report and ledger of all that is complete",
        ),
        (
            "Again",
            f"{kubectl} apply view-last-applied job {selector} --output yaml | {_REPLACE}",
            "Indexes that have failed, once more; complete ones are kept",
        ),
    ]
