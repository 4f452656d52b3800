"""Secrets in CloudFormation, whose text Secrets Manager makes."""

from __future__ import annotations

from moto.cloudformation.parsing import get_model_map
from moto.secretsmanager.models import SecretsManagerBackend, secretsmanager_backends

from rehearsal.aws.mended.base import Resource


def mend() -> None:
    """Adds the type. mypy forbids it, hence the comment."""
    get_model_map()[Secret.type] = Secret  # type: ignore[assignment]


class Secret(Resource):
    """A text by ``GenerateSecretString``."""

    type = "AWS::SecretsManager::Secret"
    replaced_by = frozenset({"Name"})

    @property
    def physical_resource_id(self) -> str:
        """The secret's ARN."""
        return str(self._backend.describe_secret(self._name).arn)

    def make(self) -> None:
        """Makes it, with a text that nobody has seen."""
        asked = self.told["GenerateSecretString"]
        self._backend.create_secret(
            name=self._name,
            secret_string=self._backend.get_random_password(
                password_length=asked["PasswordLength"],
                exclude_characters="",
                exclude_numbers=False,
                exclude_punctuation=asked.get("ExcludePunctuation", False),
                exclude_uppercase=False,
                exclude_lowercase=False,
                include_space=False,
                require_each_included_type=True,
            ),
            description=self.told.get("Description"),
            tags=self.told.get("Tags", []),
            secret_binary=None,
            kms_key_id=None,
            client_request_token=None,
            replica_regions=[],
            force_overwrite=False,
        )

    def remove(self) -> None:
        """Deletes it at once, as CloudFormation does."""
        self._backend.delete_secret(
            self._name, recovery_window_in_days=None, force_delete_without_recovery=True
        )

    @property
    def _name(self) -> str:
        return str(self.told.get("Name", self.name))

    @property
    def _backend(self) -> SecretsManagerBackend:
        return secretsmanager_backends[self.where.account][self.where.region]
