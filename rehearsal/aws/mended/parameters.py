"""Parameters of SSM in CloudFormation: a name if the template gives none, and tags as they stand
there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.ssm.models import Parameter


def mend() -> None:
    """Puts the substitute into moto. mypy forbids it, hence the comment."""
    Parameter.create_from_cloudformation_json = _named(  # type: ignore[method-assign]
        Parameter.create_from_cloudformation_json
    )


def _named(create: Callable[..., Parameter]) -> Callable[..., Parameter]:
    @functools.wraps(create)
    def create_parameter(
        name: str, resource: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Parameter:
        told = {"Name": name} | resource["Properties"]
        if isinstance(tags := told.get("Tags"), dict):
            told["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
        return create(name, resource | {"Properties": told}, *args, **kwargs)

    return create_parameter
