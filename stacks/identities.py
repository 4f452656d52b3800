"""Rights of each kind of pod in AWS: a role of its own, and the association that gives it."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import ArnFormat, FileAssetPackaging, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from charts.benchmark import prompt_assets
from charts.names import (
    COMPILED_PREFIX,
    MODELS_PREFIX,
    Deployed,
    ServiceAccount,
    namespace,
    service_accounts,
    stopper_arn,
)
from experiment.runtimes import Preparation
from experiment.schema import Experiment
from spectap.names import RESULTS_PREFIX
from spectap.names import namespace as metrics_namespace
from stacks.security import allow, pod_identity_principal

_LOAD_GENERATORS: Final = frozenset({ServiceAccount.BENCHMARK, ServiceAccount.SWEEP})
"""Accounts that publish metrics."""
_MEASURE: Final = _LOAD_GENERATORS | {ServiceAccount.OFFLINE}
"""Accounts that read a user's prompts, and end the nodes."""
_HAVE_THE_KEY: Final = _LOAD_GENERATORS | {ServiceAccount.SERVE}
"""Accounts that serve, and those that ask them."""
_BELOW_A_PREFIX: Final = "Objects below a prefix of this consumer."
_STORE: Final = (MODELS_PREFIX, COMPILED_PREFIX)
_RESULTS: Final = (RESULTS_PREFIX,)
_READS_AND_WRITES: Final[Mapping[ServiceAccount, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    ServiceAccount.PREPARE: (_STORE, _STORE),
    ServiceAccount.SERVE: (_STORE, ()),
    ServiceAccount.BENCHMARK: (_RESULTS, _RESULTS),
    ServiceAccount.SWEEP: (_STORE + _RESULTS, _RESULTS),
    ServiceAccount.OFFLINE: (_STORE + _RESULTS, _RESULTS),
}


def pod_identities(
    stack: Stack, experiment: Experiment, deployed: Deployed
) -> list[eks.CfnPodIdentityAssociation]:
    """Adds a role for each service account, and what gives it to the account's pods.

    Which accounts there are depends on the experiment. So the roles live where they are used: as
    exports of another stack, those that go would be in use. What they may touch has names known in
    advance.
    """
    identities = []
    for account in service_accounts(experiment):
        role = iam.Role(
            stack,
            f"{account.capitalize()}Role",
            assumed_by=pod_identity_principal(
                stack, experiment.cluster_name, namespace(experiment), account
            ),
            description=f"Pods of service account {account}",
        )
        _grant(role, account, experiment, deployed)
        # ``cluster.add_service_account`` would also annotate the account for IRSA. Mountpoint tries
        # IRSA first, and would fail.
        identity = eks.CfnPodIdentityAssociation(
            stack,
            f"{account.capitalize()}Identity",
            cluster_name=experiment.cluster_name,
            namespace=namespace(experiment),
            service_account=account,
            role_arn=role.role_arn,
        )
        identity.node.add_dependency(role)  # with its policy, so before any pod
        identities.append(identity)
    return identities


def _grant(
    role: iam.Role, account: ServiceAccount, experiment: Experiment, deployed: Deployed
) -> None:
    stack = Stack.of(role)
    bucket = f"arn:{stack.partition}:s3:::{deployed.bucket}"
    first_start = experiment.serving_runtime.preparation is Preparation.FIRST_START
    reads, writes = _READS_AND_WRITES[account]
    # A service that compiles at its first start fills the cache of the next.
    if account is ServiceAccount.SERVE and first_start:
        writes = (COMPILED_PREFIX,)
    if writes:
        written = [f"{bucket}/{prefix}*" for prefix in writes]
        puts = ["s3:PutObject", "s3:AbortMultipartUpload"]
        allow(role, "Write", puts, written, wild=_BELOW_A_PREFIX)
    if reads:
        read = [f"{bucket}/{prefix}*" for prefix in reads]
        allow(role, "Read", ["s3:GetObject"], read, wild=_BELOW_A_PREFIX)
        below = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in reads]}}
        allow(role, "List", ["s3:ListBucket"], [bucket], below)
    # Jobs have no metric.
    if account in _LOAD_GENERATORS:
        # The action supports no resource-level permissions. A condition confines it.
        target = metrics_namespace(experiment.models.target.id)
        confined = {"StringEquals": {"cloudwatch:namespace": target}}
        reason = "PutMetricData, confined to one namespace."
        allow(role, "PublishMetrics", ["cloudwatch:PutMetricData"], ["*"], confined, wild=reason)
    keys = sorted(prompt_assets(experiment)) if account in _MEASURE else []
    if keys:
        prompts = f"arn:{stack.partition}:s3:::{deployed.prompts_bucket}"
        _allow_prompts(role, prompts, [f"{prompts}/{key}" for key in keys])
    if account in _MEASURE and experiment.capacity.stops_after_run:
        # What measures ends the Trainium nodes.
        stopper = stopper_arn(experiment, stack.account)
        allow(role, "StopNodes", ["states:StartExecution"], [stopper])
    if experiment.api_key_secret and account in _HAVE_THE_KEY:
        secret = stack.format_arn(
            service="secretsmanager",
            resource="secret",
            # Secrets Manager adds a hyphen and six characters.
            resource_name=f"{experiment.api_key_secret}-??????",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        allow(role, "ReadApiKey", ["secretsmanager:GetSecretValue"], [secret])


def _allow_prompts(role: iam.Role, bucket: str, objects: list[str]) -> None:
    """Lets it read ``objects``, and S3 decrypt them, if the bootstrap has a customer's key.

    Synthesis does not know the key: the bootstrap exports it, but without one a word in its place.
    S3 names the object when it asks for the key, or with S3 Bucket Keys the bucket.
    """
    stack = Stack.of(role)
    allow(role, "ReadPrompts", ["s3:GetObject"], objects)
    by_s3 = {
        "kms:EncryptionContext:aws:s3:arn": [bucket, *objects],
        "kms:ViaService": f"s3.{stack.region}.amazonaws.com",
    }
    keys = stack.format_arn(service="kms", resource="key", resource_name="*")
    confined, reason = {"StringEquals": by_s3}, "For these objects alone."
    allow(role, "DecryptPrompts", ["kms:Decrypt"], [keys], confined, wild=reason)


def upload_prompts(stack: Stack, experiment: Experiment) -> None:
    """Has the CLI upload the user's prompts, for what measures and no other pod.

    The templates have no more of them than their digests, under which ``app.py`` writes them into
    the assembly.
    """
    for key in sorted(prompt_assets(experiment)):
        stack.synthesizer.add_file_asset(
            source_hash=key, packaging=FileAssetPackaging.FILE, file_name=key
        )
