"""State machines that run: moto's own interpreter, switched on, also for CloudFormation's.

moto calls the services of a machine's tasks with credentials of its own and not with the machine's
role. So what the role allows is not tried here.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, Final

from moto.core.config import default_user_config
from moto.stepfunctions import models
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

PORT: Final = "MOTO_PORT"
"""Environment variable by which moto finds its own server."""


def mend() -> None:
    """Puts the substitutes into moto. mypy forbids it, hence the comments."""
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    # Machines of CloudFormation would be where nothing runs them.
    models.stepfunctions_backends = stepfunctions_parser_backends  # type: ignore[assignment]
    StateMachine.get_cfn_attribute = _with_arn(  # type: ignore[method-assign]
        StateMachine.get_cfn_attribute
    )
    StateMachine.has_cfn_attr = classmethod(lambda cls, attr: True)  # type: ignore[assignment,method-assign]


def serve_on(port: int) -> None:
    """Tells moto where its tasks find the services."""
    os.environ[PORT] = str(port)


def _with_arn(get: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(get)
    def get_cfn_attribute(self: StateMachine, attribute_name: str) -> Any:
        return self.arn if attribute_name == "Arn" else get(self, attribute_name)

    return get_cfn_attribute
