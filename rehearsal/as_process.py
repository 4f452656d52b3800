"""The benchmark's pod as a process of this machine, and every difference between the two."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from experiment import ACCOUNT_PLACEHOLDER
from rehearsal import RehearsalError
from rehearsal.manifest import Pod, entry_point
from rehearsal.setting import RECORDED_OUTPUT, Servers, Setting
from spectap.inputs import config
from spectap.inputs.config import Config, Variant

# What the image brings along, and the terminal's type.
_FROM_THIS_MACHINE: Final = ("PATH", "LLMPERF_HOME", "LLMPERF_PYTHON", "HF_HOME", "TERM")


@dataclass(frozen=True)
class BenchmarkProcess:
    """The process to run."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folders: tuple[Path, ...]
    """In place of those that the pod mounts."""
    files: Mapping[Path, bytes]
    """Each file that a ConfigMap brings."""
    differences: tuple[str, ...]
    """One line for each difference from the pod."""

    def write(self) -> None:
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            path.write_bytes(content)


def as_process(
    pod: Pod,
    setting: Setting,
    servers: Servers | None,
    mounts: Mapping[str, Path] | None = None,
    variables: Mapping[str, str] | None = None,
) -> BenchmarkProcess:
    """The process that does here what ``pod`` does. Raises RehearsalError.

    ``servers`` is None for a job, which asks none. ``mounts`` has the folder here for each path
    that the pod mounts, by default the checkout's; ``variables`` are those that the container gets
    in addition, or with another value.
    """
    mounts = mounts or setting.layout.mounts
    dockerfile = setting.layout.root / "packages" / "spectap" / "Dockerfile"
    python, *options = pod.command or entry_point(dockerfile)
    lines = [f"command: {sys.executable} in place of {python}"]
    if not pod.fields.keys() <= {"RUN_ID"}:
        raise RehearsalError(f"variables from the pod's fields: {', '.join(pod.fields)}")
    variables = {**(variables or {}), "RUN_ID": setting.run_id}
    before = {**pod.environment, **pod.fields}
    lines += differences(before, before | variables)
    lines += [f"folder: {folder} in place of {path}" for path, folder in mounts.items()]
    lines.append(f"AWS: {setting.aws.url} in place of AWS")
    outside = {
        name: value
        for name, value in setting.aws.environment.items()
        if name.startswith("AWS_") or name in _FROM_THIS_MACHINE
    }
    inside = {
        name: str(_local_path(value, mounts)) if value.startswith("/") else value
        for name, value in pod.environment.items()
    }
    path = pod.environment["BENCHMARK_CONFIG"]
    of_pod = Config.model_validate_json(pod.files[path])
    prompts_bucket = (of_pod.prompts_bucket or "").replace(ACCOUNT_PLACEHOLDER, setting.aws.account)
    changes = {
        "bucket": setting.bucket,
        "prompts_bucket": prompts_bucket or None,
        "stopper": None,
        "variants": tuple(_local(variant, setting, servers) for variant in of_pod.variants),
        "stand_in": setting.endpoints.name if servers else RECORDED_OUTPUT,
    }
    adapted = Config.model_validate(setting.endpoints.caps.applied(of_pod).model_dump() | changes)
    files = {**pod.files, path: config.dump(adapted).encode()}
    return BenchmarkProcess(
        (sys.executable, *options, *pod.arguments),
        outside | inside | variables,
        folders=tuple(mounts.values()),
        files={_local_path(path, mounts): content for path, content in files.items()},
        differences=(*lines, *differences(of_pod, adapted)),
    )


def differences(before: object, after: object, path: str = "") -> Iterator[str]:
    """One line for each value in which what runs here differs from what the pod has."""
    if before == after:
        return
    if isinstance(before, BaseModel) and isinstance(after, BaseModel):
        before, after = dict(before), dict(after)
    elif isinstance(before, tuple) and isinstance(after, tuple):  # of models with names
        before, after = ({item.name: item for item in items} for items in (before, after))
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield f"{path}: {after} in place of {before}"
        return
    for name in {**before, **after}:
        item = f"{path}.{name}".lstrip(".")
        if name not in after:
            yield f"{item}: left out"
        elif name not in before:
            yield f"{item}: added{'' if after[name] is None else f', {after[name]}'}"
        else:
            yield from differences(before[name], after[name], item)


def _local(variant: Variant, setting: Setting, servers: Servers | None) -> Variant:
    if servers is None or variant.endpoint is None:
        return variant
    upstream = setting.endpoints.drafts_whole_window
    drafts = variant.window if upstream else variant.drafts_per_step
    changes = {"endpoint": servers.urls[variant.name], "drafts_per_step": drafts}
    return variant.model_copy(update=changes)


def _local_path(path: str, mounts: Mapping[str, Path]) -> Path:
    for mounted, folder in mounts.items():
        if path == mounted or path.startswith(f"{mounted}/"):
            return folder / path.removeprefix(mounted).lstrip("/")
    return Path(path)
