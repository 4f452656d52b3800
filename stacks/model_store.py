"""The model bucket, and the key of the services."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from charts.names import LOGS_PREFIX, bucket_name
from experiment.schema import Experiment
from spectap.names import RESULTS_PREFIX
from stacks.security import acknowledge, skip
from stacks.stack import ExperimentStack


class ModelStoreStack(ExperimentStack):
    """A bucket with ``models/``, ``compiled/``, ``results/`` and ``logs/``.

    The bucket outlives the stack, because it holds measurements, checkpoints and hours of
    compiling. Its name is fixed, so that the next deploy can import it (``cdk deploy
    --import-existing-resources``). CloudFormation imports by literal name only, so the stack must
    then know its account. Its users know it by that name (``stacks.identities``).
    """

    def __init__(self, scope: Construct, experiment: Experiment, account: str | None) -> None:
        super().__init__(scope, f"{experiment.name}-model-store", experiment, account)
        self._bucket(experiment)
        if name := experiment.api_key_secret:
            self._api_key(name)

    def _bucket(self, experiment: Experiment) -> None:
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
