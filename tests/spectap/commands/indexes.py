"""The indexes of a sweep, each with an empty disk, as the Job's pods have."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
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
        variants, load = samples.variants(**urls), samples.load(rounds=1)
        settings = samples.settings(apart=True, variants=variants, load=load) | changes
        (self.folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")

    def environment(self, variant: str, *, start_seconds: int = 20) -> dict[str, str]:
        """What a new pod of this variant's index gets."""
        self.pods += 1
        return {
            "BENCHMARK_CONFIG": str(self.folder / "config.json"),
            "RESULTS_DIR": str(self.folder / f"pod-{self.pods}"),
            "RUN_ID": RUN_ID,
            "START_SECONDS": str(start_seconds),
            "JOB_COMPLETION_INDEX": str([*self.servers].index(variant)),
        }

    @property
    def root(self) -> Path:
        """The run's folder in the pod that was made last."""
        return self.folder / f"pod-{self.pods}" / RUN_ID

    def download(self, target: Path) -> Path:
        """The run's folder as somebody else brings it from the bucket."""
        for name, content in stored(RUN_ID).items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(content)
        return target


def stored(run_id: str = RUN_ID, prefix: str = "") -> dict[str, bytes]:
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


def restore(files: Mapping[str, bytes], variants: Collection[str], *left_out: str) -> None:
    """Puts what was measured of these variants into the bucket, but for some files."""
    client = boto3.client("s3", region_name=REGION)
    for name, content in files.items():
        if name.startswith(tuple(f"variants/{v}/" for v in variants)) and name not in left_out:
            client.put_object(Bucket=BUCKET, Key=f"results/{RUN_ID}/{name}", Body=content)
