"""The calls of CloudFormation behind which ``changes`` works, and what they refuse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

from moto.cloudformation.exceptions import CloudFormationError, ValidationError
from moto.cloudformation.models import Change, ChangeSet, CloudFormationBackend, Stack
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import EmptyResult

from rehearsal.aws.mended.changes import Changes

_EMPTY: Final = "REVIEW_IN_PROGRESS"
"""Status of a stack that has a change set and nothing else."""


class ChangeSetNotFound(CloudFormationError):
    """As AWS calls it."""

    code = "ChangeSetNotFound"


def mend() -> None:
    """Puts the substitutes into moto. mypy forbids it, hence the comments."""
    backend = CloudFormationBackend
    backend.execute_change_set = _execute  # type: ignore[method-assign]
    backend.delete_stack = _delete  # type: ignore[method-assign]
    backend.create_change_set = _refusing(backend.create_change_set)  # type: ignore[method-assign]
    ChangeSet.diff = _detailed(ChangeSet.diff)  # type: ignore[assignment,method-assign]
    Stack.stack_resources = property(_made)  # type: ignore[assignment]
    Stack.stack_parameters = property(_given)  # type: ignore[assignment]
    responses = CloudFormationResponse
    for call in ("describe_change_set", "delete_change_set", "execute_change_set"):
        setattr(responses, call, _of_its_stack(getattr(responses, call)))


def _of_its_stack(
    call: Callable[[CloudFormationResponse], Any],
) -> Callable[[CloudFormationResponse], Any]:
    """A change set's name says which it is only within its stack; moto takes any of that name."""

    @functools.wraps(call)
    def of_its_stack(self: CloudFormationResponse) -> Any:
        name, stack = self._get_param("ChangeSetName"), self._get_param("StackName")
        for identity, found in reversed(self.cloudformation_backend.change_sets.items()):
            if name in (identity, found.change_set_name) and stack in (
                *(None, found.stack_name),
                found.stack_id,
            ):
                self.params["ChangeSetName"] = identity
                return call(self)
        if call.__name__ == "delete_change_set":
            return EmptyResult()
        raise ChangeSetNotFound(f"ChangeSet [{name}] does not exist")

    return of_its_stack


def _execute(
    self: CloudFormationBackend, change_set_name: str, stack_name: str | None = None
) -> None:
    """The caller waits for the end, which in AWS it does not. Whoever else asks sees it happen."""
    change_set = self.describe_change_set(change_set_name)
    if change_set is None:
        raise ValidationError(change_set_name)
    change_set.execution_status = "EXECUTE_IN_PROGRESS"
    Changes(change_set.stack).carry_out(change_set)
    change_set.execution_status = "EXECUTE_COMPLETE"


def _delete(self: CloudFormationBackend, name_or_stack_id: str) -> None:
    """A stack that does not exist is deleted already."""
    for stack in [*self.stacks.values()]:
        if name_or_stack_id not in (stack.name, stack.stack_id):
            continue
        if stack.status == _EMPTY or Changes(stack).delete():
            self.stacks.pop(stack.stack_id, None)
            stack.status = "DELETE_COMPLETE"
            self.deleted_stacks[stack.stack_id] = stack


def _refusing(create: Callable[..., tuple[str, str]]) -> Callable[..., tuple[str, str]]:
    """Of a stack that changes there is no change set, and never two stacks of one name."""

    @functools.wraps(create)
    def create_change_set(
        self: CloudFormationBackend, stack_name: str, *args: Any, **kwargs: Any
    ) -> tuple[str, str]:
        for stack in [*self.stacks.values()]:
            if stack.name != stack_name:
                continue
            if stack.status == _EMPTY:
                if kwargs.get("change_set_type") == "CREATE":
                    self.stacks.pop(stack.stack_id)
            elif stack.status.endswith("_IN_PROGRESS"):
                raise ValidationError(
                    message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be "
                    "updated."
                )
        return create(self, stack_name, *args, **kwargs)

    return create_change_set


def _detailed(diff: Callable[[ChangeSet], list[Change]]) -> Callable[[ChangeSet], list[Change]]:
    """moto names the resources that change, and none of their properties. The CLI leaves out what a
    change set does not name."""

    @functools.wraps(diff)
    def detailed(self: ChangeSet) -> list[Change]:
        changes = diff(self)
        for change in changes:
            if change.action == "Modify":
                change.details = [*_details(self, change.logical_resource_id)]  # type: ignore[attr-defined]
        return changes

    return detailed


def _details(change_set: ChangeSet, name: str) -> Iterator[dict[str, Any]]:
    """Of each property that changes. Whether a change replaces the resource is not known here."""
    there, wanted = change_set.stack.resource_map, change_set.template_dict
    before = there._resource_json_map[name].get("Properties", {})
    after = wanted["Resources"][name].get("Properties", {})
    for each in dict.fromkeys([*before, *after]):
        if before.get(each) != after.get(each):
            target = {"Attribute": "Properties", "Name": each, "RequiresRecreation": "Never"}
            yield {"Target": target, "Evaluation": "Static", "ChangeSource": "DirectModification"}


def _made(self: Stack) -> list[Any]:
    """moto would make those that are not there yet, whoever asks for them."""
    there = self.resource_map._parsed_resources
    return [there[name] for name in self.resource_map.resources if there.get(name) is not None]


def _given(self: Stack) -> dict[str, Any]:
    """Parameters for an update with UsePreviousValue. Of a parameter of SSM moto would take its
    value for its name."""
    declared = self.resource_map._template.get("Parameters", {})
    defaults = {name: its["Default"] for name, its in declared.items() if "Default" in its}
    return defaults | dict(self.resource_map.input_parameters)
