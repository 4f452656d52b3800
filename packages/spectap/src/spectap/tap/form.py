"""Finds the form of a request that its server takes, with the tap's own fields where possible.

Refusals seen: Mistral's 422 for an unknown field (openai/openai-agents-python#442), Azure's 400
(openai/openai-python#1469), OpenAI's of ``max_tokens`` (mlcommons/modelbench#1190).
"""

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from spectap.tap.token_meter import Meter

_OPTIONS: Final = ("include_usage", "continuous_usage_stats")


class Form(NamedTuple):
    """The fields that a request has besides those of the client."""

    options: tuple[str, ...] = _OPTIONS
    """The tap's ``stream_options``, where the client did not set them."""
    renamed: bool = False
    """Whether ``max_tokens`` is sent as ``max_completion_tokens``."""


_FULL: Final = Form()


@dataclass
class Server:
    """The form that one server was seen to take."""

    renames: bool
    """Whether the client's ``max_tokens`` may be renamed."""
    form: Form = _FULL
    accepted: bool = False
    """Whether the server has answered a request of that form."""

    @property
    def lost(self) -> str:
        """The option that the server refuses and what is unknown then; empty if it takes all."""
        if len(self.form.options) == len(_OPTIONS):
            return ""
        if self.form.options:
            return "continuous_usage_stats: tokens are counted by the answer, and not by the event"
        return "stream_options: tokens are counted only where it sends usage unasked"

    def after(self, form: Form, refusal: bytes, fields: dict[str, Any]) -> Form | None:
        """The form to try after a refusal; None where the client's own fields are refused."""
        if self.renames and "max_tokens" in fields and b"max_completion_tokens" in refusal:
            return None if form.renamed else form._replace(renamed=True)
        named = b"stream_options" in refusal or b"_usage" in refusal
        if not form.options or (self.accepted and not named):
            return None
        return form._replace(options=form.options[:-1])


def prepare(target: bytes, body: bytes, fields: dict[str, Any], form: Form) -> tuple[bytes, Meter]:
    """The body to send on, and the meter of the answer. ``fields`` are the body's."""
    null_usage = not target.partition(b"?")[0].endswith(b"/chat/completions")
    if form.renamed:
        names = {"max_tokens": "max_completion_tokens"}
        body = json.dumps({names.get(name, name): value for name, value in fields.items()}).encode()
    unchanged = body, Meter(strip=False, usage_only=True, null_usage=null_usage)
    options = fields.get("stream_options")
    if options is None:
        options = {}
    if not fields.get("stream") or not isinstance(options, dict):
        return unchanged
    # What the client sets itself wins.
    wanted = dict.fromkeys(form.options, True) | options
    if wanted == options:
        return unchanged
    try:
        # Either way the client's numbers keep their digits.
        if "stream_options" in fields:
            body = json.dumps(json.loads(body) | {"stream_options": wanted}).encode()
        else:
            body = body.rstrip()[:-1] + b',"stream_options":' + orjson.dumps(wanted) + b"}"
    except RecursionError:  # nested too deeply for Python's own parser
        return unchanged
    usage_only = bool(options.get("include_usage"))
    return body, Meter(strip=True, usage_only=usage_only, null_usage=null_usage)
