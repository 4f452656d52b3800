"""Who may deploy the experiment from GitHub, without keys."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from experiment.strict import Strict
from experiment.text_types import matching

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


class Provider(StrEnum):
    """Where the account's OIDC provider of GitHub comes from: an account can have one."""

    MAKE = "make"
    THERE = "there"


class Delivery(Strict):
    """Roles that workflows of one repository may assume."""

    repository: Repository = Field(
        description="The repository on github.com as its tokens name it: OWNER/NAME, or "
        "OWNER@ID/NAME@ID if it was made after July 15, 2026 or has opted in.",
    )
    branch: Ref = Field("main", description="The only branch whose workflows may deploy.")
    environment: Ref = Field(
        "aws", description="The GitHub environment that deploys wait for. Protect it."
    )
    provider: Provider = Field(
        Provider.MAKE,
        description="Whether the account's OIDC provider of GitHub is made with the roles, or is "
        "there already.",
    )
