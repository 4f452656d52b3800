"""What all services have in common: errors, and a client that calls them as boto3's do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from botocore import xform_name
from botocore.exceptions import ClientError, ParamValidationError
from botocore.model import ServiceModel
from botocore.session import get_session
from botocore.validate import ParamValidator

Hook = Callable[[str], None]
"""Told ``before`` or ``after`` a call takes effect; raises what is to go wrong."""

_VALIDATOR: Final = ParamValidator()


def refused(code: str, message: str, operation: str = "Operation") -> ClientError:
    """An error of AWS."""
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@dataclass
class Pages:
    """A paginator as boto3's."""

    _call: Callable[..., Any]

    def paginate(self, **given: Any) -> Iterator[Any]:
        """The only page."""
        yield self._call(**given)


class Client:
    """A client of one service, whose operations are the methods of ``service``.

    Input is judged by botocore's own description of the service.
    """

    def __init__(self, name: str, service: object, hook: Hook) -> None:
        self._name, self._service, self._hook = name, service, hook

    def get_paginator(self, operation: str) -> Pages:
        """All on one page."""
        return Pages(getattr(self, operation))

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        method = getattr(self._service, operation)
        shape = _inputs(self._name)[operation]

        def call(**given: Any) -> Any:
            problems = _VALIDATOR.validate(given, shape)
            if problems.has_errors():
                raise ParamValidationError(report=problems.generate_report())
            self._hook("before")
            answer = method(**given)
            self._hook("after")
            return answer

        return call


@functools.cache
def _inputs(service: str) -> dict[str, Any]:
    """The shape of each operation's input."""
    model: ServiceModel = get_session().get_service_model(service)
    return {
        xform_name(name): model.operation_model(name).input_shape for name in model.operation_names
    }
