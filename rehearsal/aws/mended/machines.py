"""State machines that run: moto's own interpreter, switched on, also for CloudFormation's.

moto calls the services of a machine's tasks with credentials of its own and not with the machine's
role. So what the role allows is not tried here. And a Wait state takes seconds at most.
"""

from __future__ import annotations

import functools
import json
import os
import uuid
from collections.abc import Callable
from typing import Any, Final

from botocore.session import get_session
from moto.core.config import default_user_config
from moto.stepfunctions import models
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_aws_sdk import (  # noqa: E501
    StateTaskServiceAwsSdk,
)
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)
from moto.stepfunctions.parser.models import (
    StepFunctionsParserBackend,
    stepfunctions_parser_backends,
)

PORT: Final = "MOTO_PORT"
"""Environment variable by which moto finds its own server."""
_WAIT_SECONDS: Final = 5
"""At most: longer than programs of this machine take to end, as a minute is in an account."""


def mend() -> None:
    """Puts the substitutes into moto. mypy forbids it, hence the comments."""
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    # Machines of CloudFormation would be where nothing runs them.
    models.stepfunctions_backends = stepfunctions_parser_backends  # type: ignore[assignment]
    StateMachine.get_cfn_attribute = _with_arn(  # type: ignore[method-assign]
        StateMachine.get_cfn_attribute
    )
    service = StateTaskServiceAwsSdk
    service._normalise_parameters = _as_the_api_has_them  # type: ignore[assignment,method-assign]
    service._normalise_response = _as_json  # type: ignore[assignment,method-assign]
    WaitFunction._wait_interval = _shortened(WaitFunction._wait_interval)  # type: ignore[method-assign]
    StepFunctionsParserBackend.start_execution = _named(  # type: ignore[method-assign]
        StepFunctionsParserBackend.start_execution
    )
    StateMachine.has_cfn_attr = classmethod(lambda cls, attr: True)  # type: ignore[assignment,method-assign]


def serve_on(port: int) -> None:
    """Tells moto where its tasks find the services."""
    os.environ[PORT] = str(port)


def _shortened(wait: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(wait)
    def wait_interval(self: WaitFunction, env: Any, wait_seconds: int) -> None:
        wait(self, env=env, wait_seconds=min(wait_seconds, _WAIT_SECONDS))

    return wait_interval


def _named(start: Callable[..., Any]) -> Callable[..., Any]:
    """An execution that nobody names gets a name of its own."""

    @functools.wraps(start)
    def start_execution(
        self: StepFunctionsParserBackend, machine: str, name: str | None = None, *others: Any
    ) -> Any:
        return start(self, machine, name or str(uuid.uuid4()), *others)

    return start_execution


def _as_the_api_has_them(
    self: StateTaskServiceAwsSdk,
    parameters: dict[str, Any],
    boto_service_name: str | None = None,
    service_action_name: str | None = None,
) -> None:
    """A task's parameters begin with a capital (Step Functions Developer Guide, "AWS SDK service
    integrations"). moto hands them on as they are, and boto3 does not take them."""
    service = get_session().get_service_model(self._get_boto_service_name(boto_service_name))
    action = service_action_name or self.resource.api_action
    shape = service.operation_model(action[:1].upper() + action[1:]).input_shape
    self._to_boto_request(parameters, shape)


def _as_json(self: StateTaskServiceAwsSdk, response: dict[str, Any], *_: Any, **__: Any) -> None:
    """An execution's output is JSON, which has no times."""
    found = json.loads(json.dumps(response, default=str))
    response.clear()
    response.update(found)


def _with_arn(get: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(get)
    def get_cfn_attribute(self: StateMachine, attribute_name: str) -> Any:
        return self.arn if attribute_name == "Arn" else get(self, attribute_name)

    return get_cfn_attribute
