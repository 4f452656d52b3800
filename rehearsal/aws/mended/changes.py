"""How CloudFormation carries out a change set, and deletes a stack.

In the order of all dependencies, with an event for each resource; a change is what differs once all
references are resolved; a stack that cannot be made is rolled back; outputs are there at the end.
moto has none of these for change sets. What it has is used: the resources, events, outputs.

Not as in AWS: a failed update is not rolled back (UPDATE_FAILED), and a resource that moto cannot
change stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any, Final

from moto.cloudformation import parsing
from moto.cloudformation.models import ChangeSet, Event, Stack
from moto.core.exceptions import AWSError

_SUBSTITUTED: Final = re.compile(r"\$\{([^!.}]+)")
_MADE: Final[dict[str, dict[str, Any]]] = {}
"""By the stack's id: the properties of each of its resources, with all references resolved."""


class Changes:
    """What becomes of one stack's resources."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._map = stack, stack.resource_map
        self._made = _MADE.setdefault(stack.stack_id, {})

    def carry_out(self, change_set: ChangeSet) -> None:
        """Makes the stack what the change set's template says, or says why not in its events."""
        kind = change_set.change_set_type
        earlier = dict(self._map._resource_json_map)
        self._say(f"{kind}_IN_PROGRESS")
        try:
            self._take(change_set)
            for name in in_order(change_set.template_dict["Resources"]):
                self._make_or_change(name)
            gone = [name for name in in_order(earlier) if name not in self._map._resource_json_map]
            self._remove(gone, earlier)
        except Exception as error:
            self._fail(kind, reason(error))
            return
        self._stack.template = change_set.template
        self._stack.template_dict = change_set.template_dict
        self._stack.output_map = self._stack._create_output_map()
        self._say(f"{kind}_COMPLETE")

    def delete(self) -> bool:
        """Whether nothing is left of it but what is to be kept."""
        self._say("DELETE_IN_PROGRESS")
        resources = self._map._resource_json_map
        try:
            self._remove(in_order(resources), resources)
        except Exception as error:
            self._say("DELETE_FAILED", reason(error))
            return False
        self._say("DELETE_COMPLETE")
        return True

    def _take(self, change_set: ChangeSet) -> None:
        """As moto's ResourceMap.update, until it comes to resources."""
        its, template = self._map, change_set.template_dict
        its._template, its._resource_json_map = template, template["Resources"]
        its.input_parameters = change_set.parameters
        its.load_mapping()
        its.load_parameters()
        its.load_conditions()

    def _make_or_change(self, name: str) -> None:
        its = self._map
        body = its._resource_json_map[name]
        condition = body.get("Condition")
        if condition and not its.lazy_condition_map[condition]:
            return
        # A copy, because some of moto's resources change what they are told.
        resolved = parsing.clean_json({"of": body.get("Properties", {})}, its)["of"]
        if name not in self._made:
            self._event(name, body, "CREATE_IN_PROGRESS")
            try:
                made = its[name]
            except Exception as error:
                self._event(name, body, "CREATE_FAILED", reason(error))
                raise
            self._event(name, body, "CREATE_COMPLETE", "" if made else "not in moto: left out")
        elif resolved != self._made[name]:
            self._change(name, body)
        self._made[name] = resolved

    def _change(self, name: str, body: dict[str, Any]) -> None:
        its = self._map
        self._event(name, body, "UPDATE_IN_PROGRESS")
        try:
            changed: Any = parsing.parse_and_update_resource(
                name, body, its, its._account_id, its._region_name
            )
        except Exception as error:
            self._event(name, body, "UPDATE_FAILED", reason(error))
            raise
        if changed is not None:
            its._parsed_resources[name] = changed
        why = "" if changed is not None else "moto cannot change it: left as it was"
        self._event(name, body, "UPDATE_COMPLETE", why)

    def _remove(self, names: Sequence[str], bodies: Mapping[str, Any]) -> None:
        """Removes resources, those first that others do not need. Raises what the last one did.

        More than once, because not all dependencies stand in a template: a security group is in use
        as long as an interface is.
        """
        left = [name for name in reversed(names) if bodies[name].get("DeletionPolicy") != "Retain"]
        while left:
            failed: dict[str, Exception] = {}
            for name in left:
                try:
                    self._remove_one(name, bodies[name])
                except Exception as error:
                    failed[name] = error
            if len(failed) == len(left):
                for name, why in failed.items():
                    self._event(name, bodies[name], "DELETE_FAILED", reason(why))
                raise failed[left[-1]]
            left = [*failed]

    def _remove_one(self, name: str, body: dict[str, Any]) -> None:
        resource = self._map._parsed_resources.get(name)
        if resource is not None:
            self._event(name, body, "DELETE_IN_PROGRESS")
            self._map._delete_resource(resource, body)
            self._event(name, body, "DELETE_COMPLETE")
        self._map._parsed_resources.pop(name, None)
        self._made.pop(name, None)

    def _fail(self, kind: str, why: str) -> None:
        if kind != "CREATE":
            self._say("UPDATE_FAILED", why)
            return
        self._say("ROLLBACK_IN_PROGRESS", why)
        resources = self._map._resource_json_map
        self._remove(in_order(resources), resources)
        self._say("ROLLBACK_COMPLETE")

    def _say(self, status: str, why: str | None = None) -> None:
        self._stack.status = status
        self._stack._add_stack_event(status, resource_status_reason=why)

    def _event(self, name: str, body: Mapping[str, Any], status: str, why: str = "") -> None:
        resource = self._map._parsed_resources.get(name)
        self._stack.events.append(
            Event(
                stack_id=self._stack.stack_id,
                stack_name=self._stack.name,
                logical_resource_id=name,
                physical_resource_id=getattr(resource, "physical_resource_id", ""),
                resource_type=body["Type"],
                resource_status=status,
                resource_status_reason=why,
                resource_properties=None,
            )
        )


def in_order(resources: Mapping[str, Any]) -> list[str]:
    """Names of resources, each after those that it needs."""
    sorter = TopologicalSorter[str]()
    for name, body in resources.items():
        needed = dict.fromkeys(_named(body))
        sorter.add(name, *(other for other in needed if other in resources and other != name))
    return [*sorter.static_order()]


def reason(error: Exception) -> str:
    """An error's own words. EKS's are in a description."""
    found = getattr(error, "description", "") if isinstance(error, AWSError) else ""
    return found or str(error) or type(error).__name__


def _named(part: Any) -> Iterator[str]:
    """Names that a part of a template refers to. Some are of parameters."""
    if isinstance(part, list):
        for each in part:
            yield from _named(each)
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        if key in ("Ref", "DependsOn") and isinstance(value, str):
            yield value
        elif key == "DependsOn":
            yield from value
        elif key == "Fn::GetAtt":
            yield value.partition(".")[0] if isinstance(value, str) else value[0]
        elif key == "Fn::Sub":
            yield from _SUBSTITUTED.findall(value if isinstance(value, str) else value[0])
        yield from _named(value)
