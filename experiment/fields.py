"""The types of an experiment file's mappings and texts, and how they refuse values."""

import ipaddress
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from spectap.wording import printable


class Refusal(NamedTuple):
    """A refused field of an experiment file, and what is allowed in it."""

    field: str
    """Dotted path, e.g. ``benchmark.test_cases[0].name``."""
    allowed: str


Refusals = Iterator[Refusal]


class Origin(StrEnum):
    """Whether the experiment makes a thing that an account or a cluster has only once."""

    MAKE = "make"
    EXISTING = "there"


class ExperimentError(Exception):
    """A file was refused. ``str()`` gives the text for the user: one line per error."""


def as_json(value: Any) -> str:
    """``value`` as JSON, which is also YAML, short enough for one line."""
    text = printable(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 80 else text[:77] + "..."


PATTERN_MESSAGES: Final[dict[str, str]] = {r"^https?://\S+$": "must be a URL"}
"""Each pattern in words."""


class Strict(BaseModel):
    """A model that refuses unknown keys and values of other types, and that cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def matching(pattern: str, words: str) -> Any:
    """A regular expression with what it allows in words, for refusals and for editors
    (``patternErrorMessage`` of redhat-developer/yaml-language-server)."""
    PATTERN_MESSAGES[pattern] = f"must be {words}"
    extra: dict[str, JsonValue] = {"patternErrorMessage": PATTERN_MESSAGES[pattern]}
    return Field(pattern=pattern, json_schema_extra=extra)


def of_aws(kind: str, words: str) -> Any:
    """An identifier that AWS has given."""
    return matching(rf"^{kind}-[0-9a-f]{{8,17}}$", f"{words}, such as {kind}-0123456789abcdef0")


def refused(field: str, allowed: str) -> PydanticCustomError:
    """Raised by a validator of a mapping or a list, to name the field that it refuses."""
    return PydanticCustomError("refused", "{allowed}", {"field": field, "allowed": allowed})


def _distinct(listed: tuple[Any, ...]) -> tuple[Any, ...]:
    for index, item in enumerate(listed):
        if item in listed[:index]:
            raise refused(f"[{index}]", "is duplicated; list each once")
    return listed


DISTINCT: Final = AfterValidator(_distinct)
"""A constraint on a list: no item occurs twice."""

WIDEST_API_ACCESS: Final = 8
"""The widest network, a /8: no organisation has more addresses. The whole internet is also two
blocks of /1."""

OTHER_PARTITIONS: Final = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")
"""Prefixes of regions whose domains and registries differ from those in the manifests."""


def _narrow(block: str) -> str:
    if ipaddress.IPv4Network(block).prefixlen < WIDEST_API_ACCESS:
        raise ValueError(f"must be /{WIDEST_API_ACCESS} or narrower; list your own addresses")
    return block


def _in_partition(region: str) -> str:
    if region.startswith(OTHER_PARTITIONS):
        raise ValueError("must be a region of the partition aws")
    return region


Text = Annotated[str, Field(min_length=1, max_length=4000)]
Name = Annotated[
    str,
    matching(
        r"^[a-z][a-z0-9-]{0,18}[a-z0-9]$",
        "2 to 20 of a-z, 0-9 and -, beginning with a letter and not ending with -",
    ),
]
VariantName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9]([A-Za-z0-9-]{0,18}[A-Za-z0-9])?$",
        "1 to 20 of A-Z, a-z, 0-9 and -, with no - at either end",
    ),
]
TestCaseName = Annotated[
    str,
    matching(
        r"^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$",
        "2 to 40 of a-z, 0-9 and -, with no - at either end",
    ),
]
Region = Annotated[
    str,
    matching(r"^[a-z]{2}(-[a-z]+)+-\d$", "a region such as us-east-2"),
    AfterValidator(_in_partition),
]
Zone = Annotated[
    str, matching(r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$", "an availability zone such as us-east-2a")
]
Email = Annotated[
    str, matching(r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "an email address such as you@example.org")
]
Cidr = Annotated[
    str,
    matching(r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}$", "an IPv4 network such as 203.0.113.0/24"),
    AfterValidator(_narrow),
]
ReservationId = Annotated[str, of_aws("cr", "the identifier of a reservation")]
ModelId = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$",
        "organisation/name, as on the Hugging Face Hub",
    ),
]
Commit = Annotated[
    str,
    matching(r"^[0-9a-f]{40}$", "a commit, 40 hexadecimal digits; a branch can change its content"),
]
Image = Annotated[
    str, matching(r"^[^\s@]+(:[\w.-]+|@sha256:[0-9a-f]{64})$", "an image with a tag or a digest")
]
PromptLine = Annotated[Text, matching(r"\S", "more than whitespace")]
PromptFileName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(jsonl|txt)$",
        "the name of a .jsonl or .txt file in the experiment's folder, of A-Z, a-z, 0-9 and . _ -",
    ),
]
Repository = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9-]+(@\d+)?/[A-Za-z0-9._-]+(@\d+)?$",
        "OWNER/NAME of a repository on github.com, or OWNER@ID/NAME@ID",
    ),
]
Ref = Annotated[
    str,
    matching(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "a name of letters, digits and . _ / -"),
]
ToolParser = Annotated[
    str, matching(r"^[a-z0-9_-]{1,40}$", "the name of a parser of vLLM's, such as hermes")
]
