"""Opens sessions with endpoints, waits until they serve, and chooses their models."""

import asyncio
import contextlib
import difflib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import aiohttp
import orjson

from spectap import wording
from spectap.errors import EndpointError
from spectap.protocol import access, limits
from spectap.protocol.limits import LimitError
from spectap.wording import printable

POLL_SECONDS: Final = 2.0

# The endpoints may compile for hours.
_SAY_EVERY_SECONDS: Final = 60.0
_ONE_TRY_SECONDS: Final = 10
_LATE: Final = f"no answer within {_ONE_TRY_SECONDS} s"
_NO_HEALTH: Final = (401, 403, 404, 405)
_REFUSED: Final = (401, 403, 404)
"""Statuses of ``/models`` that no waiting changes."""
_LISTED: Final = 8
"""The most models that a refusal names. A hosted service has hundreds."""


def open_session(timeout_seconds: float) -> aiohttp.ClientSession:
    """A session for requests of at most ``timeout_seconds`` each, with OPENAI_API_KEY if set."""
    key = os.environ.get("OPENAI_API_KEY")
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.tls()),
        timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        headers=({"Authorization": f"Bearer {key}"} if key else {}) | access.HEADERS,
    )


async def content(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer. Raises aiohttp.ClientError, also for one that is too long."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limits.ANSWER:
            raise aiohttp.ClientPayloadError(str(LimitError("the answer", limits.ANSWER)))
    return bytes(body)


def root(endpoint: str) -> str:
    """A base URL without ``/v1``, below which vLLM has its other paths.

    The rest of the path is kept: behind a gateway the host's root may be another server's.
    """
    return re.sub(r"/v\d+/?$", "", endpoint).rstrip("/")


async def wait(
    endpoints: Mapping[str, str], *, patience_seconds: float, say: Callable[[str], None]
) -> list[str]:
    """Waits at most ``patience_seconds`` until every endpoint serves or one refuses.

    An endpoint serves when its ``/health``, or without that its ``/models``, answers 200 and any
    list of models has one: a front end starts before the workers behind it. ``endpoints`` maps
    names to base URLs. Returns a line for each endpoint that refuses, or else for each that does
    not serve.
    """
    start, limit = time.monotonic(), wording.duration(patience_seconds)
    printed: dict[str, tuple[str, float]] = {}
    async with open_session(_ONE_TRY_SECONDS) as session:
        while True:
            try:
                states = await asyncio.gather(
                    *(_state(session, *endpoint) for endpoint in endpoints.items())
                )
            except EndpointError as refusal:
                return [str(refusal)]
            waiting = {name: s for name, s in zip(endpoints, states, strict=True) if s}
            elapsed = time.monotonic() - start
            if not waiting or elapsed >= patience_seconds:
                return [
                    f"not serving after {limit}: {name} ({endpoints[name]}), at the last try: "
                    f"{state}"
                    for name, state in waiting.items()
                ]
            for name, state in waiting.items():
                before, at = printed.get(name, ("", 0.0))
                if state != before or elapsed - at >= _SAY_EVERY_SECONDS:
                    printed[name] = state, elapsed
                    say(
                        f"waiting for {name} ({endpoints[name]}): {state}, "
                        f"for {wording.duration(elapsed)} of at most {limit}"
                    )
            await asyncio.sleep(POLL_SECONDS)


async def _state(session: aiohttp.ClientSession, name: str, endpoint: str) -> str:
    """Why an endpoint does not serve; empty when it does. Raises EndpointError if it refuses."""
    url = f"{endpoint}/models"
    healthy = False
    try:
        with contextlib.suppress(TimeoutError):  # SGLang's waits for a token of a busy model
            status, _ = await _get(session, f"{root(endpoint)}/health")
            healthy = status == 200
            if not healthy and status not in _NO_HEALTH:
                return f"HTTP {status}"
        status, answer = await _get(session, url)
        if status == 200:
            return "it lists no model yet" if _names(answer) == [] else ""
        if status in _REFUSED and not healthy:
            key = "is set" if os.environ.get("OPENAI_API_KEY") else "is not set"
            raise EndpointError(
                f"{name}: {url}: HTTP {status}: check the URL and OPENAI_API_KEY, which {key}"
            )
        reason = f"HTTP {status}"
    except TimeoutError:
        reason = _LATE
    except aiohttp.ClientSSLError as error:
        raise EndpointError(f"{name}: {endpoint}: {_reason(error)}") from None
    except aiohttp.ClientError as error:
        reason = _reason(error)
    return "" if healthy else reason


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, bytes]:
    """Status and body. Redirects are not followed: another server must not get key and headers."""
    async with session.get(url, allow_redirects=False) as response:
        if location := response.headers.get("Location"):
            target = printable(location)[:200]
            raise EndpointError(f"{url}: HTTP {response.status} redirects to {target}: name that")
        return response.status, await content(response)


async def models(endpoint: str) -> list[str]:
    """The names of the models that an endpoint serves. Raises EndpointError."""
    url = f"{endpoint}/models"
    try:
        async with open_session(_ONE_TRY_SECONDS) as session:
            status, answer = await _get(session, url)
    except TimeoutError:
        raise EndpointError(f"{url}: {_LATE}") from None
    except aiohttp.ClientError as error:
        raise EndpointError(f"{url}: {_reason(error)}") from None
    if status != 200:
        raise EndpointError(f"{url}: HTTP {status}")
    names = _names(answer)
    if names is None:
        raise EndpointError(f"{url}: the answer is not a list of models")
    return names


def _names(answer: bytes) -> list[str] | None:
    """The names in a list of models; None for anything else."""
    try:
        models = orjson.loads(answer)
        # Together's is the list itself; Ollama's is null where there are none.
        models = models if isinstance(models, list) else models["data"] or ()
        return [printable(str(model["id"])) for model in models]
    except (ValueError, KeyError, TypeError):
        return None


def _reason(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known yet"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return access.distrust(error.certificate_error)
    if isinstance(error, aiohttp.ClientSSLError):
        return f"no TLS: {error.strerror}: is it http://?"
    if isinstance(error, aiohttp.ClientPayloadError):
        return str(error)
    return "not reachable" if isinstance(error, OSError) else type(error).__name__


class Endpoint(NamedTuple):
    """An endpoint of the command line; ``model`` is None where it has the common model."""

    name: str
    url: str
    model: str | None


async def choose_models(endpoints: Sequence[Endpoint], model: str | None) -> dict[str, str]:
    """Chooses the model to ask each endpoint for. ``model`` is for endpoints that name none.

    Raises EndpointError.
    """
    served: dict[str, list[str]] = {}
    for endpoint in endpoints:
        try:
            served[endpoint.name] = await models(endpoint.url)
        except EndpointError:
            if model is None and endpoint.model is None:
                raise
    if unnamed := {e.name: served[e.name] for e in endpoints if not (model or e.model)}:
        common = set.intersection(*({*map(_form, names)} for names in unnamed.values()))
        if len(common) != 1:
            listed = "; ".join(f"{name}: {_listed(names)}" for name, names in unnamed.items())
            raise EndpointError(
                "there is no one model that all endpoints serve: name one by --model, or one each "
                f"by NAME=URL#MODEL: {listed}"
            )
        (model,) = common
    chosen: dict[str, str] = {}
    variants: dict[tuple[str, str], str] = {}
    for variant, url, own in endpoints:
        name = own or model or ""
        if variant in served:
            name = _served(variant, name, served[variant])
        if (other := variants.setdefault((url, name), variant)) != variant:
            raise EndpointError(
                f"{other} and {variant} are the same model of the same server ({name} at {url}): "
                "of a router, name the model of each by NAME=URL#MODEL"
            )
        chosen[variant] = name
    return chosen


def _served(variant: str, asked: str, served: Sequence[str]) -> str:
    """The name that the server lists the model under."""
    same = [name for name in served if _form(name) == _form(asked)]
    if asked in same or len(same) == 1:
        return asked if asked in same else same[0]
    closest = difflib.get_close_matches(asked, served, n=max(1, len(served)), cutoff=0)
    raise EndpointError(f"{variant} has no model {asked!r}; it serves {_listed(closest)}")


def _form(name: str) -> str:
    """A model's name without the parts that some servers add in lists and do not need in requests.

    Those are Ollama's default tag (ollama ``types/model/name.go``) and the path of Google's models.
    """
    return name.removeprefix("models/").removesuffix(":latest")


def _listed(models: Sequence[str]) -> str:
    more = f" and {len(models) - _LISTED} more" if len(models) > _LISTED else ""
    return (", ".join(models[:_LISTED]) or "none") + more
