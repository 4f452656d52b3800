"""What is asked of the embedded AWS: every call is noted, and some are denied or answered here.

A process that has the server's URL can read the calls and change what is answered, by HTTP:

- ``GET /rehearsal/calls``: ``["ec2:DescribeVpcs", ...]`` in their order; ``DELETE`` forgets them.
- ``PUT /rehearsal/denied``: a list of such names, which IAM denies from then on.
- ``PATCH /rehearsal/facts``: see ``tests.aws.facts``; ``DELETE`` restores them.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from moto.core.model import OperationModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import get_serializer_class
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from tests.aws.facts import AwsError, Facts

_PATH: Final = "/rehearsal/"
_OWN: Final = {f"{_PATH}{name}" for name in ("calls", "denied", "facts")}
_SIGNED: Final = re.compile(r"Credential=[^/]+/\d{8}/[^/]+/([^/]+)/aws4_request")
_SERVICES: Final = {
    "monitoring": "cloudwatch",
    "servicequotas": "service-quotas",
    "states": "stepfunctions",
}
"""By the name that a request is signed for, what botocore calls the service, if that differs."""
_ACTIONS: Final = {
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListObjectVersions": "ListBucketVersions",
    "ListObjectsV2": "ListBucket",
}
"""Of S3, calls that IAM knows by another name (Service Authorization Reference)."""
_PREFIXES: Final = {"service-quotas": "servicequotas", "stepfunctions": "states"}
"""Services likewise."""
_LARGEST: Final = 1 << 20
"""Bytes. A larger body is an upload, of which only the operation is of interest."""

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def action(call: str) -> str:
    """What IAM calls the right to a call, e.g. ``s3:GetObject`` for ``s3:HeadObject``."""
    service, _, operation = call.partition(":")
    named = _ACTIONS.get(operation, operation) if service == "s3" else operation
    return f"{_PREFIXES.get(service, service)}:{named}"


class Calls:
    """A WSGI application before that of the embedded AWS."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._made: list[str] = []
        self._denied: frozenset[str] = frozenset()
        self._facts = Facts()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Notes the call, and passes it on unless it is answered here."""
        if environ["PATH_INFO"] in _OWN:
            return self._own(Request(environ))(environ, start_response)
        answer = self._answer(environ)
        return (answer or self._application)(environ, start_response)

    def _own(self, request: Request) -> Response:
        match request.method, request.path.removeprefix(_PATH):
            case "GET", "calls":
                return Response(json.dumps(self._made), content_type="application/json")
            case "DELETE", "calls":
                self._made = []
            case "PUT", "denied":
                self._denied = frozenset(json.loads(request.data))
            case "PATCH", "facts":
                self._facts = self._facts.but(json.loads(request.data))
            case "DELETE", "facts":
                self._facts = Facts()
            case _:
                return Response(status=405)
        return Response(status=204)

    def _answer(self, environ: dict[str, Any]) -> Response | None:
        signed = _SIGNED.search(environ.get("HTTP_AUTHORIZATION", ""))
        if not signed:
            return None
        service = _SERVICES.get(signed[1], signed[1])
        request = _readable(environ, service)
        try:
            operation, in_path = get_service_router(service).match(request)
        except (HTTPException, NotImplementedError):
            self._made.append(f"{service}:{request.method} {request.path}")
            return None
        name = f"{service}:{operation.name}"
        self._made.append(name)
        if name in self._denied:
            return _serialised(service, request, operation, _denial(service, name))
        answer = self._facts.answers.get(name)
        if answer is None:
            return None
        try:
            result: object = answer(_parameters(request, operation, in_path))
        except AwsError as error:
            result = error
        return _serialised(service, request, operation, result)


def _readable(environ: dict[str, Any], service: str) -> Request:
    """The request, with a body that the embedded AWS can read once more."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if service == "s3" or length > _LARGEST:
        return Request(environ | {"wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"})
    body = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    return Request(environ | {"wsgi.input": io.BytesIO(body)})


def _parameters(
    request: Request, operation: OperationModel, in_path: dict[str, Any]
) -> dict[str, Any]:
    protocol = determine_request_protocol(operation.service_model, request.content_type)
    asked: dict[str, Any] = PROTOCOL_PARSERS[protocol](operation).parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.data,
            "url_path": request.path,
            "url_params": in_path,
        }
    )
    return asked


def _denial(service: str, name: str) -> AwsError:
    """In the words of IAM."""
    return AwsError(
        "UnauthorizedOperation" if service == "ec2" else "AccessDeniedException",
        f"User: arn:aws:iam::123456789012:user/rehearsal is not authorized to perform: "
        f"{action(name)} because no identity-based policy allows the action",
    )


def _serialised(
    service: str, request: Request, operation: OperationModel, result: object
) -> Response:
    protocol = determine_request_protocol(operation.service_model, request.content_type)
    its = get_serializer_class(service, protocol)(operation).serialize(result)
    # A call by HEAD has no body to say why.
    status = 403 if request.method == "HEAD" else its["status_code"]
    return Response(its["body"], status, its["headers"])
