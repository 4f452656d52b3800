"""The indexes of a sweep, each with an empty disk of its own, as the Job's pods have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3

from rehearsal.golden.server import Golden
from tests.spectap import samples
from tests.spectap.aws.embedded import BUCKET, REGION, Aws

RUN_ID = "sweep-1a2b3c4d"


class Sweep:
    """Its configuration on the disk, and what an index is told."""

    def __init__(self, folder: Path, servers: Mapping[str, Golden], aws: Aws) -> None:
        self.folder, self.servers, self.aws = folder, servers, aws
        self.pods = 0
        self.write()

    def write(self, **changes: Any) -> None:
        """The configuration of all indexes; ``changes`` replace top-level keys."""
        urls = {name: server.url for name, server in self.servers.items()}
        settings = samples.settings(apart=True, variants=samples.variants(**urls)) | changes
        (self.folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")

    def serve(self, variant: str, served: str) -> None:
        """Says how a variant is served from now on."""
        path = self.folder / "config.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        for one in settings["variants"]:
            if one["name"] == variant:
                one["served"] = served
        path.write_text(json.dumps(settings), encoding="utf-8")

    @property
    def names(self) -> list[str]:
        return [*self.servers]

    def environment(self, variant: str, *, start_seconds: int = 20) -> dict[str, str]:
        """What a new pod of this variant's index gets."""
        self.pods += 1
        return {
            "BENCHMARK_CONFIG": str(self.folder / "config.json"),
            "RESULTS_DIR": str(self.results),
            "RUN_ID": RUN_ID,
            "START_SECONDS": str(start_seconds),
            "JOB_COMPLETION_INDEX": str(self.names.index(variant)),
        }

    @property
    def results(self) -> Path:
        """The disk of the pod that was made last."""
        return self.folder / f"pod-{self.pods}"

    @property
    def root(self) -> Path:
        """The whole run's folder in that pod."""
        return self.results / RUN_ID

    def stored(self, prefix: str = "") -> dict[str, bytes]:
        """What the bucket has of the run, by path in the run's folder."""
        return stored(RUN_ID, prefix)

    def download(self, target: Path) -> Path:
        """The run's folder as somebody else brings it from the bucket."""
        for name, content in self.stored().items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(content)
        return target


def stored(run_id: str, prefix: str = "") -> dict[str, bytes]:
    """What the bucket has of a run, by path in the run's folder."""
    client = boto3.client("s3", region_name=REGION)
    root = f"results/{run_id}/"
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix=f"{root}{prefix}"
    )
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    return {
        key.removeprefix(root): client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        for key in keys
    }
