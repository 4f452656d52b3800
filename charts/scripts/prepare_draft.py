"""Makes an EAGLE head, as it was published, the draft that NxDI takes.

usage: prepare_draft.py SCRATCH KIND HEAD TARGET
KIND is eagle or eagle3; HEAD and TARGET are folders of checkpoints. Writes SCRATCH/draft: one
safetensors file with NxDI's names, and a flat ``config.json``. NxDI finds no ``.pt`` file, and a
``.bin`` under one name only (``modules/checkpoint.py``), and it drops what it has no name for.

An EAGLE head is published without the output head, and shares its target's (aws-neuron-sdk, NxD
Inference feature guide, "EAGLE Checkpoint Compatibility"). An EAGLE3 head has one for a part of the
vocabulary, ``d2t`` says which, and NxDI wants all of it (aws-neuron-sdk,
``trn3-gpt-oss-120b-tutorial.rst``). Read in neuronx-distributed-inference @4bcdc54b,
``models/llama/modeling_llama.py``.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

Weights = dict[str, Any]
OUTPUT_HEAD = "lm_head.weight"
EMBEDDINGS = "embed_tokens.weight"
JOINED = {"eagle": 2, "eagle3": 3}
"""Hidden sizes that ``fc`` joins, by kind."""
ELSEWHERE = "runtime vllm-neuron takes such heads as they are"
LAYER = "transformer_layer_config"
LAYERS = "eagle_aux_hidden_state_layer_ids"


class UnfitHeadError(Exception):
    """A head that NxDI would run as another one."""


def main(arguments: list[str]) -> int:
    """Write the draft; returns the exit status."""
    (scratch, kind), (head, target) = (Path(arguments[0]), arguments[1]), map(Path, arguments[2:])
    output = scratch / "draft"
    if (scratch / "nothing-to-do").exists():
        print("nothing to prepare")
        return 0
    try:
        config = configuration(head)
        weights = {nxdis_name(name): tensor for name, tensor in read(head).items()}
        prepared = PREPARE[kind](weights, config, target)
    except (
        *(LookupError, OSError, RuntimeError, ValueError, UnfitHeadError),
        *(pickle.UnpicklingError, struct.error),
    ) as error:
        print(f"prepare_draft: {head}: {said(error)}", file=sys.stderr)
        return 1
    output.mkdir(parents=True, exist_ok=True)
    for file in head.glob("*.json"):
        if not file.name.endswith(".index.json"):
            (output / file.name).write_bytes(file.read_bytes())
    flat = flattened(config, prepared)
    (output / "config.json").write_text(json.dumps(flat, indent=2) + "\n", encoding="utf-8")
    # Copies of one type: safetensors refuses tensors that share memory, as tied ones do.
    own = {
        name: tensor.to(torch.bfloat16).clone().contiguous() for name, tensor in prepared.items()
    }
    save_file(own, output / "model.safetensors", metadata={"format": "pt"})
    print(
        f"{output}: {len(own)} tensors, {', '.join(sorted(set(own) - set(weights))) or 'none'} new"
    )
    return 0


def said(error: BaseException) -> str:
    """What went wrong, on one line."""
    text = error.args[0] if isinstance(error, LookupError) and error.args else error
    return " ".join(str(text).split()) or "is no checkpoint"


def configuration(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a checkpoint."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise UnfitHeadError(f"{folder}/config.json is no mapping")
    return config


def nxdis_name(name: str) -> str:
    """Heads name their one layer in several ways."""
    name = name.removeprefix("model.")
    return f"layers.0.{name.removeprefix('midlayer.')}" if name.startswith("midlayer.") else name


def eagle(weights: Weights, config: dict[str, Any], target: Path) -> Weights:
    """An EAGLE head with its target's output head. Raises UnfitHeadError."""
    _joins("eagle", weights)
    if "layers.0.input_layernorm.weight" in weights:
        raise UnfitHeadError("normalises its input, which mode eagle is not compiled for here")
    return {**_embedded(weights, target), OUTPUT_HEAD: of_target(target, OUTPUT_HEAD, EMBEDDINGS)}


def eagle3(weights: Weights, config: dict[str, Any], target: Path) -> Weights:
    """An EAGLE3 head with an output head for all of the vocabulary. Raises UnfitHeadError."""
    _joins("eagle3", weights)
    for flag in ("norm_before_residual", "norm_before_fc"):
        if config.get(flag):
            raise UnfitHeadError(f"{flag} is true, which NxDI does not compute; {ELSEWHERE}")
    usual = _usual_layers(target)
    read_from = {**config, **config.get("eagle_config", {})}.get(LAYERS) or usual
    if read_from != usual:
        raise UnfitHeadError(f"reads layers {read_from}; NxDI hands out {usual}; {ELSEWHERE}")
    whole = _embedded(weights, target)
    whole[OUTPUT_HEAD] = whole_output_head(weights, len(whole[EMBEDDINGS]), target)
    return {name: tensor for name, tensor in whole.items() if name not in ("d2t", "t2d")}


def whole_output_head(weights: Weights, vocabulary: int, target: Path) -> Any:
    """Expands the draft's output head to ``vocabulary`` rows.

    Row ``i`` of the draft's head becomes row ``i + d2t[i]``. Every other row is the mean of the
    head's rows, so its logit never exceeds the largest of theirs. A row of zeros would: its logit
    is 0, and all others may be negative.
    """
    own = weights.get(OUTPUT_HEAD)
    if own is None:
        return of_target(target, OUTPUT_HEAD, EMBEDDINGS)
    if "d2t" not in weights:
        if len(own) != vocabulary:
            raise UnfitHeadError(f"has {len(own)} of {vocabulary} tokens, and no d2t to say which")
        return own
    tokens = torch.arange(len(own)) + weights["d2t"].to(torch.int64)
    if len(tokens.unique()) != len(own) or not 0 <= tokens.min() <= tokens.max() < vocabulary:
        raise UnfitHeadError(f"d2t names tokens twice, or beyond the {vocabulary} of the target")
    whole = own.float().mean(dim=0).to(own.dtype).repeat(vocabulary, 1)
    whole[tokens] = own
    return whole


def _usual_layers(target: Path) -> list[int]:
    """The layers whose inputs an EAGLE3 head reads unless it says otherwise, as NxDI has them."""
    layers = configuration(target)["num_hidden_layers"]
    return [2, layers // 2, layers - 3]


def _joins(kind: str, weights: Weights) -> None:
    if "fc.weight" not in weights:
        raise UnfitHeadError(f"has no fc.weight, so is no {kind} head")
    rows, columns = weights["fc.weight"].shape
    if columns != JOINED[kind] * rows:
        raise UnfitHeadError(
            f"is no {kind} head: fc joins {columns / rows:g} hidden states, not {JOINED[kind]}"
        )


def _embedded(weights: Weights, target: Path) -> Weights:
    """With the target's embeddings, which most EAGLE3 heads are published without."""
    if EMBEDDINGS in weights:
        return dict(weights)
    return {**weights, EMBEDDINGS: of_target(target, EMBEDDINGS)}


def flattened(config: dict[str, Any], weights: Weights) -> dict[str, Any]:
    """What NxDI reads: a Llama of one layer, with the whole vocabulary and its own output head."""
    flat = {**config, **config.get(LAYER, {})}
    gone = {LAYER, "speculators_config", "speculators_model_type", "draft_vocab_size", "auto_map"}
    return {
        **{key: value for key, value in flat.items() if key not in gone},
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "vocab_size": len(weights[OUTPUT_HEAD]),
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "fc_bias": "fc.bias" in weights,
    }


def read(folder: Path) -> Weights:
    """All tensors of a checkpoint; the first kind of file that is there counts."""
    if files := sorted(folder.glob("*.safetensors")):
        return {name: tensor for file in files for name, tensor in load_file(file).items()}
    for pattern in ("*.bin", "*.pt"):
        if files := sorted(folder.glob(pattern)):
            pieces = (torch.load(file, map_location="cpu", weights_only=True) for file in files)
            return {name: tensor for piece in pieces for name, tensor in piece.items()}
    raise FileNotFoundError(f"{folder} has no .safetensors, .bin or .pt file")


def of_target(folder: Path, *names: str) -> Any:
    """The first tensor that the target has; of tied ones only the embeddings are there."""
    for name in names:
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as tensors:
                for stored in tensors.keys():  # noqa: SIM118 (not a mapping: no __iter__)
                    if stored.removeprefix("model.") == name:
                        return tensors.get_tensor(stored)
    raise LookupError(f"its target {folder} has no {' and no '.join(names)}")


PREPARE = {"eagle": eagle, "eagle3": eagle3}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
