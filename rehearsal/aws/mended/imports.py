"""What an earlier stack left behind, and ``ImportExistingResources`` takes back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from moto.cloudformation import parsing
from moto.cloudformation.responses import CloudFormationResponse
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends
from moto.utilities.utils import get_partition

_importing: Final[set[str]] = set()
"""Names of stacks whose change set asks for ImportExistingResources."""


def mend() -> None:
    """Puts the substitutes into moto. mypy forbids it, hence the comments."""
    CloudFormationResponse.create_change_set = _noting(  # type: ignore[method-assign]
        CloudFormationResponse.create_change_set
    )
    parsing.parse_and_create_resource = _taking_back(parsing.parse_and_create_resource)


def _noting(create: Callable[[CloudFormationResponse], Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def create_change_set(self: CloudFormationResponse) -> Any:
        asked = self._get_bool_param("ImportExistingResources", False)
        (_importing.add if asked else _importing.discard)(self._get_param("StackName"))
        return create(self)

    return create_change_set


def _taking_back(create: Callable[..., Any]) -> Callable[..., Any]:
    """Imports a resource if asked to, if its deletion policy is Retain and its name is literal.

    AWS CloudFormation User Guide, "Import resources automatically".
    """

    @functools.wraps(create)
    def create_or_take_back(
        logical_id: str, resource: dict[str, Any], stack: Any, account_id: str, region_name: str
    ) -> Any:
        found: Any = None
        if (
            stack.stack_id.split("/")[1] in _importing
            and resource.get("DeletionPolicy") == "Retain"
        ):
            found = _left_behind(resource, account_id, region_name)
        if found is None:
            return create(logical_id, resource, stack, account_id, region_name)
        found.cf_resource_type, found.logical_resource_id = resource["Type"], logical_id
        return found

    return create_or_take_back


def _left_behind(resource: dict[str, Any], account: str, region: str) -> Any:
    told, kind = resource.get("Properties", {}), resource["Type"]
    name = told.get(
        {"AWS::S3::Bucket": "BucketName", "AWS::Logs::LogGroup": "LogGroupName"}.get(kind)
    )
    if not isinstance(name, str):
        return None
    if kind == "AWS::S3::Bucket":
        return s3_backends[account][get_partition(region)].buckets.get(name)
    return logs_backends[account][region].groups.get(name)
