"""The benchmark's pod as a process of this machine, and every difference between the two."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from experiment import ACCOUNT_PLACEHOLDER
from rehearsal.errors import RehearsalError
from rehearsal.pod.caps import Caps, differences
from rehearsal.pod.manifest import Pod
from spectap import config
from spectap.config import Config, Variant

# What the image brings along, and the terminal's type.
_FROM_THIS_MACHINE: Final = ("PATH", "LLMPERF_HOME", "LLMPERF_PYTHON", "HF_HOME", "TERM")


@dataclass(frozen=True)
class Place:
    """What the rehearsal has in place of the pod's surroundings."""

    run_id: str
    account: str
    endpoints: Mapping[str, str]
    """Base URL by the name of the variant."""
    mounts: Mapping[str, Path]
    """The folder here for each path that the pod mounts."""
    environment: Mapping[str, str]
    """Variables, among them those that lead to the embedded AWS."""
    caps: Caps
    stand_in: str
    """What serves in place of the services, for the table and the report."""
    drafts_whole_window: bool = False
    """Whether a step drafts as many tokens as its window has, as upstream vLLM does."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the pod's container has besides, or with another value."""
    beside: tuple[Variant, ...] = ()
    """Variants of the rehearsal's own, which the pod does not measure."""
    stops_nodes: bool = False
    """Whether there are nodes, which the end of a run scales to 0."""


@dataclass(frozen=True)
class BenchmarkProcess:
    """The process to run."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folders: tuple[Path, ...]
    """In place of those that the pod mounts."""
    files: Mapping[Path, bytes]
    """Each file that a ConfigMap brings."""
    bucket: str
    left_out: tuple[str, ...]
    """Names of the pod's load points that it does not have."""
    differences: tuple[str, ...]
    """One line for each difference from the pod."""

    def write(self) -> None:
        """Makes the folders, and writes the files into them. Raises OSError."""
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            path.write_bytes(content)


def as_process(pod: Pod, entry_point: Sequence[str], place: Place) -> BenchmarkProcess:
    """The process that does in ``place`` what ``pod`` does. Raises RehearsalError."""
    said: list[str] = []
    command = _command(pod, entry_point, said)
    environment = _environment(pod, place, said)
    path = pod.environment.get("BENCHMARK_CONFIG", "")
    if path not in pod.files:
        raise RehearsalError(f"files in the pod: {', '.join(pod.files) or 'none'}")
    told = Config.model_validate_json(pod.files[path])
    if told.bucket is None:
        raise RehearsalError(f"{path}: names no bucket")
    bucket = told.bucket.replace(ACCOUNT_PLACEHOLDER, place.account)
    said.append(f"bucket: {bucket} in place of {told.bucket}")
    prompts = told.prompts_bucket
    if prompts is not None:
        prompts = prompts.replace(ACCOUNT_PLACEHOLDER, place.account)
        said.append(f"prompts_bucket: {prompts} in place of {told.prompts_bucket}")
    stopper = told.stopper if place.stops_nodes else None
    if told.stopper != stopper:
        said.append(f"stopper: none in place of {told.stopper}")
    changes = {
        "bucket": bucket,
        "prompts_bucket": prompts,
        "stopper": stopper,
        "variants": tuple(_variants(told.variants, place, said)),
        "stand_in": place.stand_in,
    }
    capped = place.caps.applied(told)
    said += differences(told, capped)
    said.append(f"stand_in: {place.stand_in}")
    adapted = config.dump(Config.model_validate(capped.model_dump() | changes))
    files = {**pod.files, path: adapted.encode()}
    written = {here(path, place.mounts): content for path, content in files.items()}
    names = {point.name for point in capped.load.points}
    left_out = tuple(point.name for point in told.load.points if point.name not in names)
    folders = tuple(place.mounts.values())
    return BenchmarkProcess(command, environment, folders, written, bucket, left_out, tuple(said))


def _command(pod: Pod, entry_point: Sequence[str], said: list[str]) -> tuple[str, ...]:
    python, *rest = pod.command or entry_point
    if not Path(python).name.startswith("python"):
        raise RehearsalError(f"the pod's command is not Python but {python}")
    said.append(f"command: {sys.executable} in place of {python}")
    return sys.executable, *rest, *pod.arguments


def _environment(pod: Pod, place: Place, said: list[str]) -> dict[str, str]:
    if not pod.fields.keys() <= {"RUN_ID"}:
        raise RehearsalError(f"variables from the pod's fields: {', '.join(pod.fields)}")
    named = {**pod.environment, **pod.fields}.get("RUN_ID")
    if named is None:
        raise RehearsalError("the pod has no RUN_ID")
    said.append(f"RUN_ID: {place.run_id} in place of {named}")
    said += [
        f"{name}: {value} in place of {pod.environment[name]}"
        for name, value in place.variables.items()
        if name in pod.environment
    ]
    said += [f"folder: {folder} in place of {path}" for path, folder in place.mounts.items()]
    said.append(f"AWS: {place.environment['AWS_ENDPOINT_URL']} in place of AWS")
    outside = {
        name: value
        for name, value in place.environment.items()
        if name.startswith("AWS_") or name in _FROM_THIS_MACHINE
    }
    own = {
        name: str(here(value, place.mounts)) if value.startswith("/") else value
        for name, value in pod.environment.items()
    }
    return outside | own | dict(place.variables) | {"RUN_ID": place.run_id}


def _variants(told: Sequence[Variant], place: Place, said: list[str]) -> Iterator[Variant]:
    for variant in told:
        yield _variant(variant, place, said)
    for variant in place.beside:
        said.append(
            f"variants.{variant.name}: added, at {variant.endpoint}, mode {variant.mode}, which "
            "the pod does not measure"
        )
        yield variant


def _variant(variant: Variant, place: Place, said: list[str]) -> Variant:
    if variant.endpoint is None:  # a job's, which nobody asks
        return variant
    if variant.name not in place.endpoints:
        raise RehearsalError(f"no endpoint stands in for the variant {variant.name}")
    url = place.endpoints[variant.name]
    said.append(f"variants.{variant.name}.endpoint: {url} in place of {variant.endpoint}")
    drafts = variant.window if place.drafts_whole_window else variant.drafts_per_step
    if drafts != variant.drafts_per_step:
        said.append(
            f"variants.{variant.name}.drafts_per_step: {drafts} in place of "
            f"{variant.drafts_per_step}, since upstream drafts the whole window"
        )
    return variant.model_copy(update={"endpoint": url, "drafts_per_step": drafts})


def here(path: str, mounts: Mapping[str, Path]) -> Path:
    """Where a path of the pod lies on this machine."""
    for mounted, folder in mounts.items():
        if path == mounted or path.startswith(f"{mounted}/"):
            return folder / path.removeprefix(mounted).lstrip("/")
    return Path(path)
