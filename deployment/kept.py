"""What outlives an experiment's stacks: bucket and logs, their size and what a month costs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.place import Place
from experiment.cost.prices import IMAGES, LOGS, STORAGE, ListPrice

_GIB: Final = 1 << 30
_BATCH: Final = 1000
"""Objects that one call may delete."""
_REPOSITORY: Final = "cdk-hnb659fds-container-assets-{account}-{region}"
"""Of the CDK's bootstrap with the default qualifier, where the benchmark's image goes."""


class _Type(StrEnum):
    BUCKET = "AWS::S3::Bucket"
    LOGS = "AWS::Logs::LogGroup"


_NAMED: Final = {_Type.BUCKET: "BucketName", _Type.LOGS: "LogGroupName"}


@dataclass(frozen=True)
class Kept:
    """Something that stays, and is there."""

    name: str
    bytes: int
    price: ListPrice
    """Of a GiB for a month."""
    type: str = ""

    @property
    def size(self) -> str:
        """For people."""
        return f"{self.bytes / _GIB:.1f} GiB" if self.bytes >= _GIB / 10 else "less than 0.1 GiB"

    @property
    def cost(self) -> str:
        """A month."""
        return f"{self.bytes / _GIB * self.price.usd:.2f} USD a month"


def kept(place: Place, assembly: Path, stacks: Iterable[str]) -> list[Kept]:
    """What these stacks leave behind, as far as it is there. Raises DeploymentError."""
    with in_words():
        return [
            found
            for type_, name in _retained(assembly, stacks)
            if (found := _bucket(place, name) if type_ is _Type.BUCKET else _logs(place, name))
        ]


def images(place: Place) -> Iterator[Kept]:
    """The images in the bootstrap's repository, which other stacks of the account may share.

    Raises DeploymentError.
    """
    name = _REPOSITORY.format(account=place.account, region=place.region)
    with in_words():
        pages = place.client("ecr").get_paginator("describe_images")
        try:
            sizes = [
                each.get("imageSizeInBytes", 0)
                for page in pages.paginate(repositoryName=name)
                for each in page["imageDetails"]
            ]
        except ClientError as error:
            if error.response["Error"]["Code"] == "RepositoryNotFoundException":
                return
            raise
    if sizes:
        yield Kept(name, sum(sizes), IMAGES)


def remove(place: Place, found: Kept) -> None:
    """Deletes it for good: a bucket with all versions of its objects. Raises DeploymentError."""
    with in_words():
        if found.type == _Type.LOGS:
            place.client("logs").delete_log_group(logGroupName=found.name)
            return
        store = place.client("s3")
        for batch in _batches(store, found.name):
            done = store.delete_objects(Bucket=found.name, Delete={"Objects": batch, "Quiet": True})
            for error in done.get("Errors", []):
                raise DeploymentError(
                    f"s3://{found.name}/{error['Key']} was not deleted: {error['Message']}"
                )
        store.delete_bucket(Bucket=found.name)


def _retained(assembly: Path, stacks: Iterable[str]) -> Iterator[tuple[_Type, str]]:
    for stack in stacks:
        template = json.loads((assembly / f"{stack}.template.json").read_text(encoding="utf-8"))
        for resource in template["Resources"].values():
            if resource.get("DeletionPolicy") == "Retain" and resource["Type"] in [*_Type]:
                type_ = _Type(resource["Type"])
                yield type_, resource["Properties"][_NAMED[type_]]


def _bucket(place: Place, name: str) -> Kept | None:
    """With all versions, which are all paid for."""
    pages = place.client("s3").get_paginator("list_object_versions")
    try:
        size = sum(
            version["Size"]
            for page in pages.paginate(Bucket=name)
            for version in page.get("Versions", [])
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            return None
        raise
    return Kept(name, size, STORAGE, _Type.BUCKET)


def _logs(place: Place, name: str) -> Kept | None:
    pages = place.client("logs").get_paginator("describe_log_groups")
    for page in pages.paginate(logGroupNamePrefix=name):
        for group in page["logGroups"]:
            if group["logGroupName"] == name:
                return Kept(name, group.get("storedBytes", 0), LOGS, _Type.LOGS)
    return None


def _batches(store: Any, bucket: str) -> Iterator[Sequence[dict[str, str]]]:
    """Keys and versions of all that is in the bucket, a thousand at a time."""
    pages = store.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": _BATCH}
    )
    for page in pages:
        every = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if every:
            yield [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in every]
