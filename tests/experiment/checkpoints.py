"""Configurations as checkpoints are published, and folders that hold them with weights' headers."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

QWEN3_32B: Final[dict[str, Any]] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 151936,
    "num_hidden_layers": 64,
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
    "max_position_embeddings": 40960,
}
# Without head_dim, which LlamaConfig derives.
LLAMA_8B: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "max_position_embeddings": 131072,
}
# Without num_key_value_heads and tie_word_embeddings as well.
VICUNA: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 32000,
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
# SafeAILab/EAGLE, eagle/train/EAGLE-LLaMA3-Instruct-70B.json.
EAGLE: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "num_hidden_layers": 1,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "max_position_embeddings": 2048,
    "bias": False,
}
# SafeAILab/EAGLE, eagle/traineagle3/config.json: as v1, and the vocabulary of its own.
EAGLE3: Final[dict[str, Any]] = {
    **LLAMA_8B,
    "num_hidden_layers": 1,
    "max_position_embeddings": 2048,
    "draft_vocab_size": 32000,
}
SPECULATORS: Final[dict[str, Any]] = {
    "architectures": ["Eagle3Speculator"],
    "draft_vocab_size": 32000,
    "norm_before_residual": True,
    "speculators_config": {
        "algorithm": "eagle3",
        "verifier": {"architectures": ["Qwen3ForCausalLM"], "name_or_path": "Qwen/Qwen3-32B"},
    },
    "speculators_model_type": "eagle3",
    "transformer_layer_config": {
        "head_dim": 128,
        "hidden_size": 5120,
        "max_position_embeddings": 40960,
        "model_type": "llama",
        "num_attention_heads": 64,
        "num_hidden_layers": 1,
        "num_key_value_heads": 8,
        "vocab_size": 151936,
    },
}
DFLASH: Final[dict[str, Any]] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
    "vocab_size": 151936,
    "num_hidden_layers": 5,
    "num_target_layers": 36,
    "hidden_size": 2560,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40960,
}
# The whole file of FasterDecoding/medusa-vicuna-7b-v1.3, whose weights have five heads.
MEDUSA: Final[dict[str, Any]] = {
    "base_model_name_or_path": "lmsys/vicuna-7b-v1.3",
    "medusa_num_heads": 2,
    "medusa_num_layers": 1,
    "transformers_version": "4.31.0",
}


def checkpoint(folder: Path, config: Mapping[str, Any], **files: bytes) -> Path:
    """``folder`` with ``config`` as its config.json, and further files: __ stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def safetensors(tensors: Mapping[str, Sequence[int]]) -> bytes:
    """The header of such a file. The weights themselves are left out."""
    entries = {
        name: {"dtype": "BF16", "shape": [*shape], "data_offsets": [0, 0]}
        for name, shape in tensors.items()
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    return struct.pack("<Q", len(header)) + header


def index(size: int | None, **tensors: str) -> bytes:
    """The index of several files: all weights' bytes, and where each tensor is."""
    metadata = {} if size is None else {"total_size": size}
    return json.dumps({"metadata": metadata, "weight_map": tensors}).encode()


def torch_saved(file: Path, names: Sequence[str]) -> Path:
    """A file as ``torch.save`` lays one out, with what would end the test if it were unpickled."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(dict.fromkeys(names, _Trap())))
        archive.writestr("archive/data/0", b"weights")
    return file


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (SystemExit, ("unpickled",))
