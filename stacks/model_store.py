"""The model bucket, and a least-privilege role for each of its consumers."""

from collections.abc import Mapping
from typing import Any, Final, cast

from aws_cdk import CfnElement, Duration, FileAssetPackaging, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from charts.names import (
    COMPILED_PREFIX,
    LOGS_PREFIX,
    MODELS_PREFIX,
    ServiceAccount,
    bucket_name,
    namespace,
    prompts_bucket_name,
    service_accounts,
    stopper_arn,
)
from experiment.runtimes import Preparation
from experiment.schema import Experiment
from spectap.names import RESULTS_PREFIX
from spectap.names import namespace as metrics_namespace
from stacks.acknowledge import acknowledge, skip
from stacks.roles import allow, pod_identity_principal
from stacks.synthesizer import qualifier

_ASK: Final = frozenset({ServiceAccount.BENCHMARK, ServiceAccount.SWEEP})
"""Those that publish metrics, and read a user's prompts."""
_HAVE_THE_KEY: Final = _ASK | {ServiceAccount.SERVE, ServiceAccount.QUALITY}
"""Those that serve, and those that ask them."""
_STORE: Final = (MODELS_PREFIX, COMPILED_PREFIX)
_RESULTS: Final = (RESULTS_PREFIX,)
_READS_AND_WRITES: Final[Mapping[ServiceAccount, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    ServiceAccount.PREPARE: (_STORE, _STORE),
    ServiceAccount.SERVE: (_STORE, ()),
    ServiceAccount.BENCHMARK: (_RESULTS, _RESULTS),
    ServiceAccount.QUALITY: ((), _RESULTS),
    ServiceAccount.SWEEP: (_STORE + _RESULTS, _RESULTS),
    ServiceAccount.OFFLINE: (_STORE + _RESULTS, _RESULTS),
}


class ModelStoreStack(Stack):
    """A bucket with ``models/``, ``compiled/``, ``results/`` and ``logs/``, and roles to use it.

    The bucket outlives the stack, because it holds measurements, checkpoints and hours of
    compiling. Its name is fixed, so that the next deploy can import it (``cdk deploy
    --import-existing-resources``). CloudFormation imports by literal name only, so the stack must
    then know its account.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, experiment: Experiment, **kwargs: Any
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.bucket = self._bucket(experiment)
        self.roles: Mapping[ServiceAccount, iam.Role] = {
            account: iam.Role(
                self,
                f"{account.capitalize()}Role",
                assumed_by=pod_identity_principal(
                    self, experiment.cluster_name, namespace(experiment), account
                ),
                description=f"Pods of service account {account}",
            )
            for account in service_accounts(experiment)
        }
        for account in self.roles:
            self._grant(account, experiment)
        self._prompts(experiment)
        if name := experiment.api_key_secret:
            self._api_key(name)

    def _bucket(self, experiment: Experiment) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Models",
            bucket_name=bucket_name(experiment, self.account),
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            removal_policy=RemovalPolicy.RETAIN,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="incomplete-uploads",
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                ),
                # Replaced shards and graphs are tens of gigabytes each.
                s3.LifecycleRule(
                    id="replaced-objects",
                    noncurrent_version_expiration=Duration.days(7),
                    expired_object_delete_marker=True,
                ),
                s3.LifecycleRule(
                    id="old-results", prefix=RESULTS_PREFIX, expiration=Duration.days(365)
                ),
                # As long as log groups keep the same.
                s3.LifecycleRule(id="old-logs", prefix=LOGS_PREFIX, expiration=Duration.days(30)),
            ],
        )
        reason = (
            "It holds public weights and benchmark results, for few roles. "
            "CloudTrail data events can log access to all buckets of the account at once."
        )
        acknowledge(bucket, {"AwsSolutions-S1": reason})
        skip(bucket, "AWS::S3::Bucket", {"CKV_AWS_18": reason})
        return bucket

    def _api_key(self, name: str) -> None:
        """The services' key, which nobody has seen, for the pods that serve and that ask them.

        CloudFormation deletes a secret at once, so the next deploy can make one of this name.
        """
        secret = secretsmanager.Secret(
            self,
            "ApiKey",
            secret_name=name,
            description="What clients of the services send as their API key",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=48, exclude_punctuation=True
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        rotation = (
            "The services read it when they start, and would refuse a new one. It is a new one "
            "with each deploy after a destroy."
        )
        acknowledge(secret, {"AwsSolutions-SMG4": rotation})
        encryption = (
            "Encrypted by the key of Secrets Manager in this account. Who may read it is said by "
            "the roles that name it."
        )
        skip(secret, "AWS::SecretsManager::Secret", {"CKV_AWS_149": encryption})
        for account in self.roles.keys() & _HAVE_THE_KEY:
            arns = [secret.secret_arn]
            allow(self.roles[account], "ReadApiKey", ["secretsmanager:GetSecretValue"], arns)

    def _grant(self, account: ServiceAccount, experiment: Experiment) -> None:
        first_start = experiment.serving_runtime.preparation is Preparation.FIRST_START
        role, (reads, writes) = self.roles[account], _READS_AND_WRITES[account]
        # A service that compiles at its first start fills the cache of the next.
        if account is ServiceAccount.SERVE and first_start:
            writes = (COMPILED_PREFIX,)
        if writes:
            self._allow(role, "Write", ["s3:PutObject", "s3:AbortMultipartUpload"], writes)
        if reads:
            self._allow(role, "Read", ["s3:GetObject"], reads)
            below = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in reads]}}
            allow(role, "List", ["s3:ListBucket"], [self.bucket.bucket_arn], below)
        # Jobs have no metric.
        if account in _ASK:
            # The action supports no resource-level permissions. A condition confines it.
            target = metrics_namespace(experiment.models.target.id)
            confined = {"StringEquals": {"cloudwatch:namespace": target}}
            allow(role, "PublishMetrics", ["cloudwatch:PutMetricData"], ["*"], confined)
            reason = "PutMetricData, confined to one namespace."
            acknowledge(role, {"AwsSolutions-IAM5[Resource::*]": reason})
        if account in (*_ASK, ServiceAccount.OFFLINE) and experiment.capacity.stops_after_run:
            # What measures ends the Trainium nodes, which are another stack's: so by name.
            arn = stopper_arn(experiment, self.account)
            allow(role, "StopNodes", ["states:StartExecution"], [arn])

    def _prompts(self, experiment: Experiment) -> None:
        """Has the CLI upload the user's files of prompts, for what measures and no other pod.

        The templates have no more of them than their digests, under which ``app.py`` writes them
        into the assembly.
        """
        keys = sorted({file.digest for file in experiment.prompt_files.values()})
        for key in keys:
            self.synthesizer.add_file_asset(
                source_hash=key, packaging=FileAssetPackaging.FILE, file_name=key
            )
        bucket = prompts_bucket_name(experiment, self.account, qualifier(self))
        for account in self.roles.keys() & _ASK if keys else ():
            objects = [f"arn:{self.partition}:s3:::{bucket}/{key}" for key in keys]
            allow(self.roles[account], "ReadPrompts", ["s3:GetObject"], objects)

    def _allow(
        self, role: iam.Role, sid: str, actions: list[str], prefixes: tuple[str, ...]
    ) -> None:
        objects = [self.bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes]
        allow(role, sid, actions, objects)
        bucket_id = self.get_logical_id(cast(CfnElement, self.bucket.node.default_child))
        rules = [f"AwsSolutions-IAM5[Resource::<{bucket_id}.Arn>/{p}*]" for p in prefixes]
        acknowledge(role, dict.fromkeys(rules, "Objects below a prefix of this consumer."))
