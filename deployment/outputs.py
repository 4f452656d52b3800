"""What the experiment's stacks tell: their outputs."""

from __future__ import annotations

from botocore.exceptions import ClientError

from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.place import Place


class NoStack(DeploymentError):
    """The account has no such stack, or not yet."""


def outputs(place: Place, stack: str) -> dict[str, str]:
    """Those of the experiment's stack, such as ``trainium``. Raises NoStack or DeploymentError."""
    name = f"{place.name}-{stack}"
    with in_words():
        try:
            (found,) = place.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                raise NoStack(f"there is no stack {name} in {place.region}") from None
            raise
    return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}
