"""Which model each endpoint is asked for: names as users give them and as servers list them."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from spectap.endpoint import health
from spectap.errors import EndpointError

_LISTED: Final = 8
"""Models that a refusal names. A hosted service has hundreds."""


class Endpoint(NamedTuple):
    """An endpoint as it is given; ``model`` is None where it is served under the common name."""

    name: str
    url: str
    model: str | None


async def choose(endpoints: Sequence[Endpoint], model: str | None) -> dict[str, str]:
    """The model to ask each endpoint for. ``model`` is that of the endpoints that name none.

    Raises EndpointError.
    """
    served: dict[str, list[str]] = {}
    for endpoint in endpoints:
        try:
            served[endpoint.name] = await health.models(endpoint.url)
        except EndpointError:
            if model is None and endpoint.model is None:
                raise
    unnamed = {e.name: served[e.name] for e in endpoints if not (model or e.model)}
    if unnamed:
        model = _common(unnamed)
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


def _common(served: Mapping[str, Sequence[str]]) -> str:
    """The one model that all these endpoints serve."""
    common = set.intersection(*({*map(_form, models)} for models in served.values()))
    if len(common) != 1:
        listed = "; ".join(f"{name}: {_listed(models)}" for name, models in served.items())
        raise EndpointError(
            "there is no one model that all endpoints serve: name one by --model, or one each "
            f"by NAME=URL#MODEL: {listed}"
        )
    return common.pop()


def _served(variant: str, asked: str, served: Sequence[str]) -> str:
    """The name that the server lists the model under."""
    same = [name for name in served if _form(name) == _form(asked)]
    if asked in same or len(same) == 1:
        return asked if asked in same else same[0]
    closest = difflib.get_close_matches(asked, served, n=max(1, len(served)), cutoff=0)
    raise EndpointError(f"{variant} has no model {asked!r}; it serves {_listed(closest)}")


def _form(name: str) -> str:
    """A name without what some servers list it with and need not be asked with.

    Ollama's default tag (ollama ``types/model/name.go``), and the path of Google's models.
    """
    return name.removeprefix("models/").removesuffix(":latest")


def _listed(models: Sequence[str]) -> str:
    more = f" and {len(models) - _LISTED} more" if len(models) > _LISTED else ""
    return (", ".join(models[:_LISTED]) or "none") + more
