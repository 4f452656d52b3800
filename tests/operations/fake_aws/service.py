"""What all services have in common: time, errors, and a client that calls them as boto3's do."""

import datetime
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from botocore import xform_name
from botocore.exceptions import ClientError, ParamValidationError
from botocore.model import OperationModel, ServiceModel
from botocore.session import get_session
from botocore.validate import ParamValidator

MINUTE: Final = 60.0
HOUR: Final = 3600.0
_EPOCH: Final = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)

Answer = dict[str, Any]
"""Of an operation."""

Caller = Callable[[str, Answer, Callable[[], Any]], Any]
"""Makes a call, such as ``ec2:DescribeVpcs``, with its request; raises what is to go wrong."""

_VALIDATOR: Final = ParamValidator()
_GOOD: Final[set[tuple[int, bool, str]]] = set()


def refused(code: str, message: str, operation: str = "Operation") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@dataclass
class Pages:
    _call: Callable[..., Any]

    def paginate(self, PaginationConfig: object = None, **arguments: Any) -> Iterator[Any]:
        yield self._call(**arguments)


class Client:
    """A client of one service in one region: an operation is a method of the first of ``parts``
    that has it. One that takes ``region`` is given it.

    Input and answers are judged by botocore's own description of the service; an answer may lack
    what nobody reads.
    """

    def __init__(self, name: str, region: str, parts: tuple[object, ...], caller: Caller) -> None:
        self._name, self._region, self._parts, self._caller = name, region, parts, caller

    def get_paginator(self, operation: str) -> Pages:
        return Pages(getattr(self, operation))

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        method = next(getattr(fake, operation) for fake in self._parts if hasattr(fake, operation))
        model = _operations(self._name)[operation]
        extra = {"region": self._region} if "region" in method.__code__.co_varnames else {}

        def call(**request: Any) -> Any:
            _judge(request, model.input_shape, is_complete=True)
            effect = functools.partial(method, **request, **extra)
            answer = self._caller(f"{self._name}:{model.name}", request, effect)
            if isinstance(answer, dict):
                _judge(answer, model.output_shape, is_complete=False)
            return answer

        return call


def _judge(value: object, shape: Any, *, is_complete: bool) -> None:
    # Most is asked and answered again and again, and to judge it takes longer than to write it.
    judged = id(shape), is_complete, repr(value)
    if shape is None or judged in _GOOD:
        return
    report = _VALIDATOR.validate(value, shape).generate_report().splitlines()
    problems = [line for line in report if is_complete or not line.startswith("Missing required")]
    if problems:
        raise ParamValidationError(report="\n".join(problems))
    _GOOD.add(judged)


@functools.cache
def _operations(service: str) -> dict[str, OperationModel]:
    model: ServiceModel = get_session().get_service_model(service)
    return {xform_name(name): model.operation_model(name) for name in model.operation_names}


class Clock:
    """Seconds since a moment that means nothing; events happen when the time comes to them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.watch: Callable[[], None] = lambda: None
        """Called after each event."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def now(self) -> datetime.datetime:
        return self.moment(self.seconds)

    def moment(self, seconds: float) -> datetime.datetime:
        """A number of this clock in UTC, in whole seconds."""
        return _EPOCH + datetime.timedelta(seconds=int(seconds))

    def seconds_of(self, moment: datetime.datetime) -> float:
        return (moment - _EPOCH).total_seconds()

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.seconds + seconds, next(self._count), event))

    def advance(self, seconds: float) -> None:
        """Lets time pass, with all that happens meanwhile. An event may let time pass, too."""
        end = self.seconds + seconds
        while self._events and self._events[0][0] <= end:
            when, _, event = heapq.heappop(self._events)
            self.seconds = max(self.seconds, when)
            event()
            self.watch()
        self.seconds = max(self.seconds, end)
