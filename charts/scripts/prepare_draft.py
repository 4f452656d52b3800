"""Makes an EAGLE head the draft that NxDI takes: one safetensors file, with an output head.

usage: prepare_draft.py SCRATCH HEAD [TARGET]
Writes SCRATCH/draft; HEAD and TARGET are folders of checkpoints. With TARGET its ``lm_head.weight``
is copied in, which an EAGLE v1 head is published without (aws-neuron-sdk, NxD Inference feature
guide, "EAGLE Checkpoint Compatibility"). The weights are written anew whatever they came as, since
NxDI finds no ``.pt`` file, and a ``.bin`` under one name only (``modules/checkpoint.py``).
"""

from __future__ import annotations

import pickle
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

OUTPUT_HEAD = "lm_head.weight"
EMBEDDINGS = "model.embed_tokens.weight"


def main(arguments: list[str]) -> int:
    """Write the draft; returns the exit status."""
    scratch, head, *target = map(Path, arguments)
    output = scratch / "draft"
    if (scratch / "nothing-to-do").exists():
        print("nothing to prepare")
        return 0
    try:
        weights = read(head)
        if target:
            weights[OUTPUT_HEAD] = output_head(target[0])
    except (LookupError, OSError, RuntimeError, pickle.UnpicklingError, struct.error) as error:
        print(f"prepare_draft: {head}: {error or 'is no checkpoint'}", file=sys.stderr)
        return 1
    output.mkdir(parents=True, exist_ok=True)
    for file in head.glob("*.json"):
        if not file.name.endswith(".index.json"):
            shutil.copy(file, output)
    # Copies: safetensors refuses tensors that share memory, as tied ones do.
    own = {name: tensor.clone().contiguous() for name, tensor in weights.items()}
    save_file(own, output / "model.safetensors", metadata={"format": "pt"})
    print(f"{output}: {len(own)} tensors" + (f", {OUTPUT_HEAD} of the target" if target else ""))
    return 0


def read(folder: Path) -> dict[str, Any]:
    """All tensors of a checkpoint; the first kind of file that is there counts."""
    if files := sorted(folder.glob("*.safetensors")):
        return {name: tensor for file in files for name, tensor in load_file(file).items()}
    for pattern in ("*.bin", "*.pt"):
        if files := sorted(folder.glob(pattern)):
            pieces = (torch.load(file, map_location="cpu", weights_only=True) for file in files)
            return {name: tensor for piece in pieces for name, tensor in piece.items()}
    raise FileNotFoundError(f"{folder} has no .safetensors, .bin or .pt file")


def output_head(folder: Path) -> Any:
    """The target's output head; its embeddings, where the two are tied."""
    for name in (OUTPUT_HEAD, EMBEDDINGS):
        if file := holding(folder, name):
            with safe_open(file, framework="pt") as tensors:
                return tensors.get_tensor(name)
    raise LookupError(f"{folder} has neither {OUTPUT_HEAD} nor {EMBEDDINGS}")


def holding(folder: Path, name: str) -> Path | None:
    """The file of a checkpoint that holds the tensor ``name``."""
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            if name in tensors.keys():  # noqa: SIM118 (not a mapping: it has no __contains__)
                return file
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
