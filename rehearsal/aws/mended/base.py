"""A resource as moto's CloudFormation sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self


@dataclass(frozen=True)
class Where:
    """Account and region of a stack, which moto calls by these names."""

    account: str
    region: str


@dataclass
class Resource:
    """The methods that moto calls, and no others. A type of resource is a subclass.

    ``name`` is the physical name: CloudFormation's own unless the template gives one.
    """

    where: Where
    name: str
    told: Mapping[str, Any]
    """The properties, with every reference resolved."""

    replaced_by: ClassVar[frozenset[str]] = frozenset()
    """Properties that cannot be changed: another value makes another resource."""

    # moto finds out what a resource is by these two.
    cf_resource_type: ClassVar[str]
    logical_resource_id: ClassVar[str]

    @property
    def physical_resource_id(self) -> str:
        """What ``Ref`` gives."""
        return self.name

    @classmethod
    def create_from_cloudformation_json(
        cls, name: str, resource: Mapping[str, Any], account: str, region: str, **kwargs: Any
    ) -> Self:
        """Makes the resource."""
        made = cls(Where(account, region), name, resource["Properties"])
        made.make()
        return made

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Self,
        new_resource_name: str,
        cloudformation_json: Mapping[str, Any],
        account_id: str,
        region_name: str,
    ) -> Self:
        """Changes the resource, or puts another in its place."""
        told = cloudformation_json["Properties"]
        earlier = original_resource.told
        if any(told.get(name) != earlier.get(name) for name in cls.replaced_by):
            other = cls.create_from_cloudformation_json(
                new_resource_name, cloudformation_json, account_id, region_name
            )
            original_resource.remove()
            return other
        original_resource.told = told
        original_resource.change(earlier)
        return original_resource

    def delete(self, account: str, region: str) -> None:
        """moto calls it with what the resource knows."""
        self.remove()

    def make(self) -> None:
        """Acts on moto's own services. A resource that is only written down has nothing to do."""

    def change(self, earlier: Mapping[str, Any]) -> None:
        """The same after an update; ``earlier`` are the properties until now."""

    def remove(self) -> None:
        """The same before the resource goes."""

    def attributes(self) -> Mapping[str, str]:
        """What ``Fn::GetAtt`` gives."""
        return {}

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        """moto asks before anything is made; ``get_cfn_attribute`` says it for certain."""
        return True

    def get_cfn_attribute(self, attribute_name: str) -> str:
        """Raises KeyError if the resource has no such attribute."""
        return self.attributes()[attribute_name]

    def is_created(self) -> bool:
        """Whether the stack may go on."""
        return True


def arn(where: Where, service: str, resource: str) -> str:
    """An ARN in the stack's account and region."""
    return f"arn:aws:{service}:{where.region}:{where.account}:{resource}"


def camel(told: Any) -> Any:
    """CloudFormation's ``SubnetIds`` is the API's ``subnetIds``, at every depth."""
    if isinstance(told, Mapping):
        return {key[:1].lower() + key[1:]: camel(value) for key, value in told.items()}
    if isinstance(told, list):
        return [camel(part) for part in told]
    return told
