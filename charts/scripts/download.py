"""Copies checkpoints from the Hugging Face Hub into the bucket, a file at a time.

usage: download.py ORGANISATION/NAME@REVISION=PREFIX...    environment: BUCKET, AWS_REGION
Files that are already there in full are skipped, and a marker ends each checkpoint, so that an
interrupted run goes on and a second run does nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import boto3
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.hf_api import RepoFile

MARKER = "_COMPLETE"
SCRATCH = Path(os.environ.get("SCRATCH", "/scratch"))
WANTED = (".safetensors", ".json", ".txt", ".jinja", ".model")
PICKLED = (".bin", ".pt")
"""Weights as heads are often published; fetched only where there are none in safetensors."""
TRAINING = ("optimizer", "rng_state", "scheduler", "training_args")
"""What a trainer leaves beside the weights, in files of the same kind."""


def main(arguments: list[str]) -> int:
    """Copy each checkpoint named in ``arguments``; returns the exit status."""
    store = boto3.client("s3", region_name=os.environ["AWS_REGION"])
    for argument in arguments:
        source, _, prefix = argument.partition("=")
        repository, _, revision = source.partition("@")
        copy(store, os.environ["BUCKET"], repository, revision, prefix)
    return 0


def copy(store: Any, bucket: str, repository: str, revision: str, prefix: str) -> None:
    """Copy one checkpoint to ``s3://bucket/prefix`` and mark it complete."""
    there = sizes(store, bucket, prefix)
    if prefix + MARKER in there:
        print(f"{repository} is complete: nothing to do", flush=True)
        return
    for file in wanted(repository, revision):
        if there.get(prefix + file.path) == file.size:
            print(f"{file.path} is there", flush=True)
            continue
        print(f"{file.path} ({file.size / 2**30:.2f} GiB)", flush=True)
        local = Path(hf_hub_download(repository, file.path, revision=revision, local_dir=SCRATCH))
        store.upload_file(str(local), bucket, prefix + file.path)
        local.unlink()
    store.put_object(Bucket=bucket, Key=prefix + MARKER, Body=revision.encode())
    print(f"{repository} is complete", flush=True)


def wanted(repository: str, revision: str) -> list[RepoFile]:
    """Weights, configuration and tokenizer; no other framework's copy of the weights."""
    tree = HfApi().list_repo_tree(repository, revision=revision, recursive=True)
    files = [entry for entry in tree if isinstance(entry, RepoFile)]
    safe = any(file.path.endswith(".safetensors") for file in files)
    kinds = WANTED if safe else WANTED + PICKLED
    return [
        file
        for file in files
        if file.path.endswith(kinds) and not Path(file.path).name.startswith(TRAINING)
    ]


def sizes(store: Any, bucket: str, prefix: str) -> dict[str, int]:
    """Key and size in bytes of every object below ``prefix``."""
    pages = store.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", [])}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
