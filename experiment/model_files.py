"""What the files of a checkpoint say about it. None is unpickled, and no weight is loaded."""

from __future__ import annotations

import json
import pickletools
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from experiment.errors import ExperimentError

CONFIG: Final = "config.json"

WEIGHTS: Final = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "medusa_lm_head.safetensors",
    "medusa_lm_head.pt",
)
"""The first that is there counts. The order is NxDI's (v0.6.10598, ``modules/checkpoint.py``); the
last two are the names of published Medusa heads."""

_LONGEST_HEADER: Final = 100_000_000
"""Bytes; the safetensors library takes no longer one."""

Shape = tuple[int, ...] | None
"""None where only a tensor's name can be read."""


@dataclass(frozen=True)
class ModelFiles:
    """A checkpoint's ``config.json``, and the weights beside it if there are any."""

    path: Path
    """Of ``config.json``."""
    config: Mapping[str, Any]

    @cached_property
    def weights(self) -> Path | None:
        """The file, or the index of the files, that has the weights."""
        if self.path.name != CONFIG:
            return None
        files = (self.path.parent / name for name in WEIGHTS)
        return next((file for file in files if file.is_file()), None)

    @cached_property
    def size(self) -> int | None:
        """Bytes of the weights; None where no file tells."""
        if self.weights is None:
            return None
        if self.weights.suffix != ".json":
            return _size(self.weights)
        index = _json(self.weights)
        total = _mapping(index, "metadata").get("total_size")
        if isinstance(total, int | float) and total > 0:
            return int(total)
        names = set(map(str, _mapping(index, "weight_map").values()))
        files = [self.weights.parent / name for name in sorted(names)]
        return sum(map(_size, files)) if files and all(f.is_file() for f in files) else None

    @cached_property
    def tensors(self) -> Mapping[str, Shape]:
        """The tensors, by name; empty where no file tells."""
        match self.weights:
            case None:
                return {}
            case Path(suffix=".json"):
                return dict.fromkeys(_mapping(_json(self.weights), "weight_map"))
            case Path(suffix=".safetensors"):
                return _shapes(self.weights)
            case _:
                return dict.fromkeys(_pickled_names(self.weights))


def model_files(path: Path) -> ModelFiles:
    """The files of the checkpoint in the folder ``path``, or of that ``config.json``.

    Raises ExperimentError, with one line, for what is no JSON mapping.
    """
    file = path / CONFIG if path.is_dir() else path
    return ModelFiles(file, _json(file))


def _json(file: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ExperimentError(f"{file}: is no JSON") from None
    if not isinstance(data, dict):
        raise ExperimentError(f"{file}: must be a mapping, as a model's config.json is")
    return data


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _beginning(file: Path, length: int, after: int = 0) -> bytes:
    try:
        with file.open("rb") as opened:
            opened.seek(after)
            return opened.read(length)
    except OSError as error:
        raise ExperimentError(f"{file}: cannot be read: {error.strerror}") from None


def _size(file: Path) -> int:
    """Bytes of ``file``, or of what a pointer of Git LFS stands for."""
    start = _beginning(file, 200)
    pointer = re.match(rb"version https://git-lfs.*\nsize (\d+)\n", start, re.DOTALL)
    return int(pointer[1]) if pointer else file.stat().st_size


def _shapes(file: Path) -> Mapping[str, Shape]:
    """From the header of safetensors: eight bytes with its length, and JSON."""
    start = _beginning(file, 8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    header = _beginning(file, length, after=8) if length <= _LONGEST_HEADER else b""
    try:
        tensors = json.loads(header)
        return {n: tuple(tensor["shape"]) for n, tensor in tensors.items() if n != "__metadata__"}
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return {}


def _pickled_names(file: Path) -> Iterator[str]:
    """The text in a file of ``torch.save``, among it the tensors' names. Runs nothing of it."""
    try:
        with zipfile.ZipFile(file) as archive:
            [pickled] = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            arguments = (argument for _, argument, _ in pickletools.genops(archive.read(pickled)))
            yield from (argument for argument in arguments if isinstance(argument, str))
    except (ValueError, zipfile.BadZipFile, OSError, EOFError):
        return
