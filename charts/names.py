"""Names that charts, stacks and the pods' scripts share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from experiment.known_models import Model
from experiment.runtimes import Workload
from experiment.schema import Experiment

VLLM_PORT: Final = 8000

NEURON_TAINT: Final = "aws.amazon.com/neuron"
"""Taint key of Trainium nodes; the DRA driver's DaemonSet tolerates it with any value."""
NODE_GROUP_LABEL: Final = "speculative-decoding/node-group"
TRAINIUM_NODES: Final = "trainium"
COMPILE_NODES: Final = "compile"
"""CPU nodes that stand while graphs are compiled. Also the key of their taint."""

PROJECT: Final = "speculative-decoding"
_ARTICLE: Final = "article"
"""The experiment whose names in a cluster are the article's, without its own in them."""

MODELS_PREFIX: Final = "models/"
COMPILED_PREFIX: Final = "compiled/"
LOGS_PREFIX: Final = "logs/"
"""Logs of pods at the time when a stage of ``make experiment`` failed."""

MODELS_CLAIM: Final = "models"
MODEL_STORE_CONFIG: Final = "model-store"
SCRIPTS_CONFIG: Final = "scripts"
DEVICES: Final = "devices"
"""The first container of each pod with a claim. It opens the devices, and ends."""

# Budgets are global, but CloudFormation can create them in these regions only. A test compares the
# list with cfn-lint's copy of the resource registry.
BUDGET_REGIONS: Final = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ca-central-1",
        "eu-central-1",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
        "me-south-1",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
    }
)
FALLBACK_REGION: Final = "us-east-1"


def namespace(experiment: Experiment) -> str:
    """``speculative-decoding`` for the article's experiment, for others followed by ``-NAME``.

    So experiments in one cluster share no objects.
    """
    return PROJECT if experiment.name == _ARTICLE else f"{PROJECT}-{experiment.name}"


def node_label(experiment: Experiment, kind: str) -> str:
    """Value of ``NODE_GROUP_LABEL`` on nodes of ``kind``: ``trainium``, or ``NAME-trainium``."""
    return kind if experiment.name == _ARTICLE else f"{experiment.name}-{kind}"


def taint_value(experiment: Experiment) -> str:
    """The value of both kinds of nodes' taints, which only the experiment's own pods tolerate."""
    return "present" if experiment.name == _ARTICLE else experiment.name


@dataclass(frozen=True)
class Deployed:
    """Names that depend on the account, and are known after a deployment."""

    bucket: str
    benchmark_image: str
    stopper: str | None = None
    """ARN of the state machine that ends the Trainium nodes; None for manifests without one."""
    prompts_bucket: str | None = None
    """Where a deploy puts the user's files of prompts."""


class Component(StrEnum):
    """Value of the label ``component``, which network policies select by."""

    PREPARE = "prepare"
    VLLM = "vllm"
    BENCHMARK = "benchmark"
    SWEEP = "sweep"
    OFFLINE = "offline"


class ServiceAccount(StrEnum):
    """One for each kind of pod that uses AWS. Each has its own role in ``stacks.identities``."""

    PREPARE = "prepare"
    SERVE = "serve"
    BENCHMARK = "benchmark"
    SWEEP = "sweep"
    OFFLINE = "offline"


def service_accounts(experiment: Experiment) -> tuple[ServiceAccount, ...]:
    """The accounts that ``experiment`` has pods of: in a sweep or a job one does all."""
    prepare, serve, benchmark, sweep, offline = ServiceAccount
    if experiment.sweep:
        return prepare, sweep
    if experiment.workload is Workload.JOB:
        return prepare, offline
    return prepare, serve, benchmark


def benchmark_pod(experiment: Experiment) -> str:
    """``qwen-llmperf`` of a Qwen model: the pod's label ``app``, and the beginning of its name."""
    return f"{experiment.name_prefix}-llmperf"


def indexed_job(experiment: Experiment) -> str:
    """Name of the Job of isolated variants: ``qwen-sweep`` or ``qwen-offline``."""
    return f"{experiment.name_prefix}-{'sweep' if experiment.sweep else 'offline'}"


def claim_template(experiment: Experiment) -> str:
    """Name of the device claim template: ``xl-trn2`` for the article's half of a node.

    A claim template cannot be changed, so another shape has a template of another name.
    """
    instance, devices = experiment.capacity.instance, experiment.serving.devices
    core_size = experiment.serving.logical_core_size
    if devices == 1:  # without a group
        return f"{instance.name.replace('.', '-')}-device-lnc-{core_size}"
    usual = f"{instance.platform}-{devices}-devices-lnc-{core_size}"
    return instance.claim_templates.get((devices, core_size), usual)


def bucket_name(experiment: Experiment, account: str) -> str:
    """The model bucket's name. The account and the region make it unique."""
    return f"{experiment.name}-models-{account}-{experiment.aws.region}"


def prompts_bucket_name(experiment: Experiment, account: str, qualifier: str) -> str:
    """The bucket of the CDK's bootstrap. Each file of prompts has its digest for a key."""
    return f"cdk-{qualifier}-assets-{account}-{experiment.aws.region}"


def stopper_name(experiment: Experiment) -> str:
    """The state machine that scales the Trainium nodes to 0."""
    return f"{experiment.name}-stop"


def stopper_arn(experiment: Experiment, account: str) -> str:
    """Its ARN, for the pod that may start it."""
    machine = f"stateMachine:{stopper_name(experiment)}"
    return f"arn:aws:states:{experiment.aws.region}:{account}:{machine}"


def model_prefix(model: Model) -> str:
    """Where a checkpoint lies, e.g. ``models/Qwen/Qwen3-32B/<revision>/``."""
    return f"{MODELS_PREFIX}{model.id}/{model.revision}/"


def artifact_prefix(key: str) -> str:
    """Where a compiled artifact lies, e.g. ``compiled/<key>/``."""
    return f"{COMPILED_PREFIX}{key}/"


def budget_region(region: str) -> str:
    """The region of the budget stack of an experiment in ``region``."""
    return region if region in BUDGET_REGIONS else FALLBACK_REGION


def budget_stack_name(experiment: Experiment) -> str:
    """The stack's name. It contains the region if budgets of several regions share one region."""
    region = experiment.aws.region
    infix = "" if budget_region(region) == region else f"{region}-"
    return f"{experiment.name}-{infix}budget"


def dashboard_name(experiment: Experiment, subject: str) -> str:
    """Name for ``comparison`` or ``nodes``. All regions of an account share names of dashboards."""
    return f"{experiment.name}-{experiment.aws.region}-{subject}"


def zones(experiment: Experiment) -> str:
    """The zone of the Trainium nodes, then all zones.

    A network stays in its zones: CloudFormation makes new subnets before it deletes the old ones,
    which hold the same addresses.
    """
    listed = ", ".join(experiment.aws.availability_zones)
    return f"{experiment.capacity.availability_zone} of {listed}"
