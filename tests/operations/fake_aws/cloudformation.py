"""CloudFormation: stacks are made, changed and deleted, among them the one with the node groups.

What it began goes on without whoever asked.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.experiment.files import REGION
from tests.operations.fake_aws.eks import Eks
from tests.operations.fake_aws.service import MINUTE, Answer, Clock, refused

_OUTPUTS: Final = {"trainium": "NodeGroup", "compile": "CompileNodeGroup"}


Template = Mapping[str, int]
"""What a deploy wants of the node groups, whose sizes are the same in every template: by their kind
(``trainium``, ``compile``) the generation. Another replaces the group."""


@dataclass
class Stack:
    name: str
    status: str
    region: str = REGION
    owner: str = ""
    body: Any = None
    outputs: dict[str, str] = field(default_factory=dict)
    template: Template = field(default_factory=dict)
    node_groups: dict[str, str] = field(default_factory=dict)
    """Their names by their kind."""


class CloudFormation:
    """Its operations, as boto3 spells them, and what the CDK CLI has it do."""

    def __init__(self, clock: Clock, eks: Eks, experiment: str) -> None:
        self.stacks: dict[str, Stack] = {}
        self.fails = False
        """Whether what goes on now fails half-way."""
        self._clock, self._eks = clock, eks
        self._experiment = experiment
        self._name = f"{experiment}-trainium"

    def describe_stacks(self, *, region: str, StackName: str | None = None) -> Answer:
        """One, or all of a region, with the outputs of the last complete deploy."""
        stacks = [
            stack
            for stack in self.stacks.values()
            if stack.region == region and StackName in (None, stack.name)
        ]
        if StackName and not stacks:
            raise refused("ValidationError", f"Stack with id {StackName} does not exist")
        return {"Stacks": [self._described(stack) for stack in stacks]}

    def get_template(self, *, StackName: str, TemplateStage: str) -> Answer:
        return {"TemplateBody": json.dumps(self.stacks[StackName].body)}

    def _described(self, stack: Stack) -> Answer:
        outputs = dict(stack.outputs)
        if stack.name == self._name:
            outputs["Stopper"] = "stopper"
        for kind, name in stack.node_groups.items():
            outputs[_OUTPUTS[kind]] = name
        return {
            "StackName": stack.name,
            "StackStatus": stack.status,
            "Tags": [{"Key": "Experiment", "Value": stack.owner or self._experiment}],
            "Outputs": [{"OutputKey": key, "OutputValue": v} for key, v in outputs.items()],
        }

    def add(self, label: str, status: str = "CREATE_COMPLETE", **fields: Any) -> Stack:
        """A stack of the experiment, there at once."""
        name = f"{self._experiment}-{label}"
        stack = Stack(name, status, **fields)
        self.stacks[name] = stack
        return stack

    @property
    def stack(self) -> Stack | None:
        return self.stacks.get(self._name)

    def deploy(self, template: Template) -> None:
        """Begins to make or change the stack; the caller sees by its status how that ends."""
        stack = self.stack or self.add("trainium")
        stack.status = "UPDATE_IN_PROGRESS"
        before = stack.template
        self._clock.after(MINUTE, lambda: self._change(stack, before, template))

    def destroy(self) -> None:
        assert self.stack
        self.stack.status = "DELETE_IN_PROGRESS"
        self._clock.after(2 * MINUTE, functools.partial(self._delete, self.stack))

    def _change(self, stack: Stack, before: Template, template: Template) -> None:
        changed = {k: n for k, n in template.items() if before.get(k) != n}
        if changed and self.fails:
            stack.status = "UPDATE_ROLLBACK_COMPLETE"
            return
        for kind, generation in changed.items():
            self._eks.create(f"{kind}-{generation}")
            self._remove(stack.node_groups.get(kind))
            stack.node_groups[kind] = f"{kind}-{generation}"
        for kind in before.keys() - template.keys():
            self._remove(stack.node_groups.pop(kind))
        stack.template = template
        # Once EKS has made them.
        self._clock.after(MINUTE, lambda: setattr(stack, "status", "UPDATE_COMPLETE"))

    def _remove(self, name: str | None) -> None:
        if name in self._eks.groups:
            self._eks.delete(name)

    def _delete(self, stack: Stack) -> None:
        if self.fails:
            stack.status = "DELETE_FAILED"
            return
        for name in stack.node_groups.values():
            if name in self._eks.groups and self._eks.groups[name].status != "DELETING":
                self._eks.delete(name)
        if self._eks.groups:
            self._clock.after(MINUTE, lambda: self._delete(stack))
            return
        del self.stacks[stack.name]
