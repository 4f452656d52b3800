"""Puts Medusa heads beside their target, where NxDI reads them: ``medusa_heads.pt``.

usage: prepare_medusa.py SCRATCH HEADS TARGET COUNT
Writes SCRATCH/target, which has links to the files of TARGET; HEADS and TARGET are folders of
checkpoints. The first COUNT heads are taken. Names and shapes are those of NxDI's heads, one layer
and an output matrix each (neuronx-distributed-inference v0.6.10598,
``models/llama/modeling_llama.py``; read in ``models/application_base.py``). Heads are published
with a name that begins with their number (FasterDecoding/Medusa, ``medusa_model.py``).
"""

from __future__ import annotations

import pickle
import re
import struct
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

PUBLISHED = re.compile(r"(?:medusa_heads?\.)?(\d+)\.(.+)")
LAYER, BIAS, OUTPUT = "0.linear.weight", "0.linear.bias", "1.weight"


def main(arguments: list[str]) -> int:
    """Write the target with its heads; returns the exit status."""
    scratch, heads, target = map(Path, arguments[:3])
    if (scratch / "nothing-to-do").exists():
        print("nothing to prepare")
        return 0
    try:
        prepared = renamed(read(heads), int(arguments[3]))
    except (LookupError, OSError, RuntimeError, pickle.UnpicklingError, struct.error) as error:
        said = error.args[0] if isinstance(error, LookupError) else error
        print(f"prepare_medusa: {heads}: {said or 'is no checkpoint'}", file=sys.stderr)
        return 1
    output = scratch / "target"
    output.mkdir(parents=True, exist_ok=True)
    for file in target.iterdir():
        link = output / file.name
        link.unlink(missing_ok=True)
        link.symlink_to(file.resolve())
    torch.save(prepared, output / "medusa_heads.pt")
    print(f"{output}: the target and {arguments[3]} heads")
    return 0


def read(folder: Path) -> dict[str, Any]:
    """All tensors of a checkpoint; the first kind of file that is there counts."""
    if files := sorted(folder.glob("*.safetensors")):
        return {name: tensor for file in files for name, tensor in load_file(file).items()}
    if files := sorted([*folder.glob("*.pt"), *folder.glob("*.bin")]):
        pieces = (torch.load(file, map_location="cpu", weights_only=True) for file in files)
        return {name: tensor for piece in pieces for name, tensor in piece.items()}
    raise FileNotFoundError("has no .safetensors, .bin or .pt file")


def renamed(weights: dict[str, Any], count: int) -> dict[str, Any]:
    """The first ``count`` heads by NxDI's names. Raises LookupError."""
    heads: dict[int, dict[str, Any]] = {}
    for name, tensor in weights.items():
        if found := PUBLISHED.fullmatch(name):
            heads.setdefault(int(found[1]), {})[found[2]] = tensor
    if len(heads) < count:
        raise LookupError(f"has {len(heads)} heads, not {count}: use num_speculative_tokens as few")
    return {
        f"medusa_head_{number}.{part}": tensor
        for number in range(count)
        for part, tensor in _head(number, heads.get(number, {})).items()
    }


def _head(number: int, parts: dict[str, Any]) -> dict[str, Any]:
    if surplus := set(parts) - {LAYER, BIAS, OUTPUT}:
        raise LookupError(f"head {number} has {min(surplus)}; NxDI's heads have one layer")
    for part in (LAYER, OUTPUT):
        if part not in parts:
            raise LookupError(f"head {number} has no {part}, which NxDI's heads have")
    # A head without a bias computes what one with a bias of 0 does.
    bias = parts.get(BIAS, torch.zeros(parts[LAYER].shape[0], dtype=parts[LAYER].dtype))
    whole = {LAYER: parts[LAYER], BIAS: bias, OUTPUT: parts[OUTPUT]}
    # Copies: a tensor that is a part of a larger one would be saved with all of it.
    return {part: tensor.clone().contiguous() for part, tensor in whole.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
