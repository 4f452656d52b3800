"""``Fn::GetStackOutput``, by which stacks of the CDK refer to each other, and moto lacks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import cloudformation_backends

_REFERENCE: Final = "Fn::GetStackOutput"


def mend() -> None:
    """Puts the substitute into moto, which calls itself by this name, too."""
    parsing.clean_json = _resolving(parsing.clean_json)  # type: ignore[assignment]


def _resolving(clean: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(clean)
    def clean_json(resource_json: Any, resources_map: Any) -> Any:
        if isinstance(resource_json, dict) and _REFERENCE in resource_json:
            return _output(resources_map["AWS::AccountId"], **resource_json[_REFERENCE])
        return clean(resource_json, resources_map)

    return clean_json


def _output(account: str, *, StackName: str, Region: str, OutputName: str) -> Any:  # noqa: N803 as in templates
    """Raises ValidationError."""
    (stack,) = cloudformation_backends[account][Region].describe_stacks(StackName)
    for output in stack.outputs or []:
        if output["OutputKey"] == OutputName:
            return output["OutputValue"]
    raise ValidationError(message=f"Stack {StackName} has no output {OutputName}")
