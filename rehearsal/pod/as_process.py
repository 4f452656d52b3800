"""The benchmark's pod as a process of this machine, and every difference between the two."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from experiment import ACCOUNT_PLACEHOLDER
from rehearsal import RehearsalError
from rehearsal.pod.caps import Caps, differences
from rehearsal.pod.manifest import Pod
from spectap import config
from spectap.config import Config, Variant

# What the image brings along, and the terminal's type.
_FROM_THIS_MACHINE: Final = ("PATH", "LLMPERF_HOME", "LLMPERF_PYTHON", "HF_HOME", "TERM")


@dataclass(frozen=True)
class Sandbox:
    """What this machine has in place of a pod's surroundings."""

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
    """Variables that the container gets in addition, or with another value."""
    added: tuple[Variant, ...] = ()
    """Variants of the rehearsal alone, which the pod does not measure."""


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


def as_process(pod: Pod, entry_point: Sequence[str], sandbox: Sandbox) -> BenchmarkProcess:
    """The process that does in ``sandbox`` what ``pod`` does. Raises RehearsalError."""
    lines: list[str] = []
    command = _command(pod, entry_point, lines)
    environment = _environment(pod, sandbox, lines)
    path = pod.environment.get("BENCHMARK_CONFIG", "")
    if path not in pod.files:
        raise RehearsalError(f"files in the pod: {', '.join(pod.files) or 'none'}")
    of_pod = Config.model_validate_json(pod.files[path])
    if of_pod.bucket is None:
        raise RehearsalError(f"{path}: names no bucket")
    bucket = of_pod.bucket.replace(ACCOUNT_PLACEHOLDER, sandbox.account)
    lines.append(f"bucket: {bucket} in place of {of_pod.bucket}")
    prompts = of_pod.prompts_bucket
    if prompts is not None:
        prompts = prompts.replace(ACCOUNT_PLACEHOLDER, sandbox.account)
        lines.append(f"prompts_bucket: {prompts} in place of {of_pod.prompts_bucket}")
    if of_pod.stopper is not None:
        lines.append(f"stopper: none in place of {of_pod.stopper}")
    changes = {
        "bucket": bucket,
        "prompts_bucket": prompts,
        "stopper": None,
        "variants": tuple(_variants(of_pod.variants, sandbox, lines)),
        "stand_in": sandbox.stand_in,
    }
    capped = sandbox.caps.applied(of_pod)
    lines += differences(of_pod, capped)
    lines.append(f"stand_in: {sandbox.stand_in}")
    adapted = config.dump(Config.model_validate(capped.model_dump() | changes))
    files = {**pod.files, path: adapted.encode()}
    names = {point.name for point in capped.load.points}
    return BenchmarkProcess(
        command,
        environment,
        folders=tuple(sandbox.mounts.values()),
        files={_local_path(path, sandbox.mounts): content for path, content in files.items()},
        bucket=bucket,
        left_out=tuple(point.name for point in of_pod.load.points if point.name not in names),
        differences=tuple(lines),
    )


def _command(pod: Pod, entry_point: Sequence[str], lines: list[str]) -> tuple[str, ...]:
    python, *options = pod.command or entry_point
    if not Path(python).name.startswith("python"):
        raise RehearsalError(f"the pod's command is not Python but {python}")
    lines.append(f"command: {sys.executable} in place of {python}")
    return sys.executable, *options, *pod.arguments


def _environment(pod: Pod, sandbox: Sandbox, lines: list[str]) -> dict[str, str]:
    if not pod.fields.keys() <= {"RUN_ID"}:
        raise RehearsalError(f"variables from the pod's fields: {', '.join(pod.fields)}")
    run_id = {**pod.environment, **pod.fields}.get("RUN_ID")
    if run_id is None:
        raise RehearsalError("the pod has no RUN_ID")
    lines.append(f"RUN_ID: {sandbox.run_id} in place of {run_id}")
    lines += [
        f"{name}: {value} in place of {pod.environment[name]}"
        for name, value in sandbox.variables.items()
        if name in pod.environment
    ]
    lines += [f"folder: {folder} in place of {path}" for path, folder in sandbox.mounts.items()]
    lines.append(f"AWS: {sandbox.environment['AWS_ENDPOINT_URL']} in place of AWS")
    outside = {
        name: value
        for name, value in sandbox.environment.items()
        if name.startswith("AWS_") or name in _FROM_THIS_MACHINE
    }
    of_pod = {
        name: str(_local_path(value, sandbox.mounts)) if value.startswith("/") else value
        for name, value in pod.environment.items()
    }
    return outside | of_pod | dict(sandbox.variables) | {"RUN_ID": sandbox.run_id}


def _variants(variants: Sequence[Variant], sandbox: Sandbox, lines: list[str]) -> Iterator[Variant]:
    for variant in variants:
        if variant.endpoint is None:  # a job's, which nobody asks
            yield variant
            continue
        prefix = f"variants.{variant.name}"
        if variant.name not in sandbox.endpoints:
            raise RehearsalError(f"no endpoint stands in for the variant {variant.name}")
        url = sandbox.endpoints[variant.name]
        lines.append(f"{prefix}.endpoint: {url} in place of {variant.endpoint}")
        drafts = variant.window if sandbox.drafts_whole_window else variant.drafts_per_step
        if drafts != variant.drafts_per_step:
            lines.append(
                f"{prefix}.drafts_per_step: {drafts} in place of {variant.drafts_per_step}, since "
                "upstream drafts the whole window"
            )
        yield variant.model_copy(update={"endpoint": url, "drafts_per_step": drafts})
    for variant in sandbox.added:
        lines.append(
            f"variants.{variant.name}: added, at {variant.endpoint}, mode {variant.mode}, which "
            "the pod does not measure"
        )
        yield variant


def _local_path(path: str, mounts: Mapping[str, Path]) -> Path:
    """Where a path of the pod lies on this machine."""
    for mounted, folder in mounts.items():
        if path == mounted or path.startswith(f"{mounted}/"):
            return folder / path.removeprefix(mounted).lstrip("/")
    return Path(path)
