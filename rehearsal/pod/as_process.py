"""All in which the rehearsal's benchmark differs from the pod's, in one place."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal.errors import RehearsalError
from rehearsal.pod.manifest import Pod

ACCOUNT_PLACEHOLDER: Final = "${AWS_ACCOUNT_ID}"
"""What stands in the manifests where the account is not known yet."""

# What the image has of its own, and the terminal.
_FROM_THIS_MACHINE: Final = ("PATH", "LLMPERF_HOME", "LLMPERF_PYTHON", "HF_HOME", "TERM")


@dataclass(frozen=True)
class Place:
    """Where the rehearsal has what the pod has elsewhere.

    ``mounts``: a path in the pod -> the folder for it here. ``environment`` leads to the AWS.
    ``load``: at most so much of it. ``stand_in``: what serves in place of the services.
    """

    run_id: str
    account: str
    endpoints: Mapping[str, str]
    mounts: Mapping[str, Path]
    environment: Mapping[str, str]
    load: Mapping[str, int]
    stand_in: str


@dataclass(frozen=True)
class Benchmark:
    """What is run: the pod's command, environment and files, adapted."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[Path, str]
    bucket: str
    differences: tuple[str, ...]


def adapt(pod: Pod, entry_point: Sequence[str], place: Place) -> Benchmark:
    """The pod's benchmark, to be run in ``place``. Raises RehearsalError."""
    said: list[str] = []
    command = _command(pod, entry_point, said)
    environment = _environment(pod, place, said)
    if set(pod.files) != {pod.environment.get("BENCHMARK_CONFIG")}:
        raise RehearsalError(f"files in the pod: {', '.join(pod.files) or 'none'}")
    ((path, text),) = pod.files.items()
    config = _configuration(json.loads(text), place, said)
    files = {_here(path, place.mounts): json.dumps(config, indent=2)}
    return Benchmark(command, environment, files, config["bucket"], tuple(said))


def _command(pod: Pod, entry_point: Sequence[str], said: list[str]) -> tuple[str, ...]:
    python, *rest = pod.command or entry_point
    if not Path(python).name.startswith("python"):
        raise RehearsalError(f"the pod's command is not Python but {python}")
    said.append(f"command: {python} is {sys.executable}")
    return sys.executable, *rest, *pod.arguments


def _environment(pod: Pod, place: Place, said: list[str]) -> dict[str, str]:
    if set(pod.fields) != {"RUN_ID"}:
        raise RehearsalError(f"variables from the pod's fields: {', '.join(pod.fields)}")
    said.append(f"RUN_ID: {place.run_id} in place of {pod.fields['RUN_ID']}")
    said += [f"folder: {path} is {here}" for path, here in place.mounts.items()]
    said.append(f"AWS: {place.environment['AWS_ENDPOINT_URL']} in place of AWS")
    outside = {
        name: value
        for name, value in place.environment.items()
        if name.startswith("AWS_") or name in _FROM_THIS_MACHINE
    }
    own = {
        name: str(_here(value, place.mounts)) if value.startswith("/") else value
        for name, value in pod.environment.items()
    }
    return outside | own | {"RUN_ID": place.run_id}


def _configuration(config: dict[str, Any], place: Place, said: list[str]) -> dict[str, Any]:
    bucket = config["bucket"].replace(ACCOUNT_PLACEHOLDER, place.account)
    said.append(f"bucket: {bucket} in place of {config['bucket']}")
    for variant, url in place.endpoints.items():
        said.append(f"endpoints.{variant}: {url} in place of {config['endpoints'][variant]}")
    reduced = {name: value for name, value in place.load.items() if value < config["load"][name]}
    for name, value in reduced.items():
        said.append(f"load.{name}: {value} in place of {config['load'][name]}")
    said.append(f"stand_in: {place.stand_in}")
    return config | {
        "bucket": bucket,
        "endpoints": dict(place.endpoints),
        "load": config["load"] | reduced,
        "stand_in": place.stand_in,
    }


def _here(path: str, mounts: Mapping[str, Path]) -> Path:
    for mounted, folder in mounts.items():
        if path == mounted or path.startswith(f"{mounted}/"):
            return folder / path.removeprefix(mounted).lstrip("/")
    return Path(path)
