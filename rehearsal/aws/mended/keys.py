"""Keys of KMS in CloudFormation: with their tags."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.kms.models import Key


def mend() -> None:
    """Puts the substitute into moto. mypy forbids it, hence the comment."""
    Key.create_from_cloudformation_json = _with_names_of_kms(  # type: ignore[method-assign]
        Key.create_from_cloudformation_json
    )


def _with_names_of_kms(create: Callable[..., Key]) -> Callable[..., Key]:
    @functools.wraps(create)
    def create_key(name: str, resource: dict[str, Any], *args: Any, **kwargs: Any) -> Key:
        tags = resource["Properties"].get("Tags", [])
        renamed = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tags]
        properties = resource["Properties"] | {"Tags": renamed}
        return create(name, resource | {"Properties": properties}, *args, **kwargs)

    return create_key
