"""The types of text in an experiment file: each pattern with the words for what it allows."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, JsonValue


def matching(pattern: str, words: str) -> Any:
    """A constraint on text: a regular expression, and what it allows in words.

    The words stand in refusals and, by the JSON Schema's ``patternErrorMessage``, in editors
    (redhat-developer/yaml-language-server, ``src/languageservice/jsonSchema.ts``).
    """
    extra: dict[str, JsonValue] = {"patternErrorMessage": f"must be {words}"}
    return Field(pattern=pattern, json_schema_extra=extra)


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
Region = Annotated[str, matching(r"^[a-z]{2}(-[a-z]+)+-\d$", "a region such as us-east-2")]
Zone = Annotated[
    str, matching(r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$", "an availability zone such as us-east-2a")
]
Email = Annotated[
    str, matching(r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "an email address such as you@example.org")
]
Cidr = Annotated[
    str, matching(r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}$", "an IPv4 network such as 203.0.113.0/24")
]
ReservationId = Annotated[
    str,
    matching(
        r"^cr-[0-9a-f]{8,17}$", "the identifier of a reservation, such as cr-0123456789abcdef0"
    ),
]
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
ToolParser = Annotated[
    str, matching(r"^[a-z0-9_-]{1,40}$", "the name of a parser of vLLM's, such as hermes")
]
