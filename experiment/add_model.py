"""Reads from a model's own files what an experiment file must say about it.

The formats: config.json of transformers (``LlamaConfig``, ``Qwen3Config``, v4.51.3), of speculators
(``speculators_config``, as vLLM v0.18.1 reads it, ``vllm/transformers_utils/configs/speculators``),
of SafeAILab/EAGLE (``eagle/traineagle3/config.json``), and of Z Lab's DFlash drafts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from experiment.fields import ExperimentError, as_json
from experiment.known_models import Architecture, Family, ModelKind

CONFIG: Final = "config.json"
WEIGHTS: Final = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""The first of these that exists counts. The order is NxDI's (v0.6.10598,
``modules/checkpoint.py``)."""

_EAGLE3: Final = {
    "LlamaForCausalLMEagle3",
    "Eagle3LlamaForCausalLM",
    "Eagle3Speculator",
    "Eagle3DraftModel",
}
_EAGLE: Final = {"LlamaForCausalLMEagle", "EagleLlamaForCausalLM"}
_DFLASH: Final = "DFlashDraftModel"
_ALGORITHMS: Final = {
    "eagle3": ModelKind.EAGLE3_HEAD,
    "eagle": ModelKind.EAGLE_HEAD,
    "dflash": ModelKind.DFLASH_DRAFT,
}
_REDUCED_VOCABULARY: Final = ("draft_vocab_size", "truncated_vocab_size", "eagle_config")
_MEDUSA: Final = ("medusa_num_heads", "medusa_num_layers", "num_heads")
_EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts")


def add_model(path: Path) -> str:
    """The YAML of the architecture of the model in ``path``, to paste below its revision.

    ``path`` is a folder or its config.json. What no file says becomes a comment to fill in. Raises
    ExperimentError, with one line, for a model that no experiment can use.
    """
    file = path / CONFIG if path.is_dir() else path
    figures = _figures(_Config(file, _json(file)))
    name = str(file) if str(file).isprintable() else ascii(str(file))
    lines = [f"# from {name}", "architecture:"]
    for field in Architecture.model_fields:
        if field in figures:
            value = figures[field]
            lines.append(f"  {field}: {str(value).lower() if isinstance(value, bool) else value}")
        elif field == "checkpoint_gib":
            lines.append("  # checkpoint_gib: size of the weights, GiB; none are beside it")
        elif field == "trained_for" and figures["kind"] is not ModelKind.CAUSAL_LM:
            lines.append("  # trained_for: organisation/name of its target; its file has none")
    return "\n".join(f"    {line}" for line in lines)


@dataclass(frozen=True)
class _Config:
    """A mapping of ``config.json``, with its place for the line of an error."""

    file: Path
    data: Mapping[str, Any]

    def refuse(self, why: str) -> NoReturn:
        raise ExperimentError(f"{self.file}: {why}")

    def has(self, *keys: str) -> bool:
        return any(self.data.get(key) is not None for key in keys)

    def mapping(self, key: str) -> _Config:
        value = self.data.get(key)
        return _Config(self.file, value if isinstance(value, dict) else {})

    def count(self, key: str, default: int | None = None) -> int:
        value = self.data.get(key)
        if value is None:
            return default or self.refuse(f"{key} is missing")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.refuse(f"{key} = {as_json(value)}: must be a positive integer")
        return value

    @property
    def architectures(self) -> set[str]:
        names = self.data.get("architectures")
        return {n for n in names if isinstance(n, str)} if isinstance(names, list) else set()

    @property
    def family(self) -> Family:
        model_type = self.data.get("model_type")
        if any(isinstance(n := self.data.get(key), int) and n > 1 for key in _EXPERTS):
            self.refuse(
                f"model_type = {as_json(model_type)}: is a mixture of experts; must be dense"
            )
        if model_type not in list(Family):
            self.refuse(f"model_type = {as_json(model_type)}: must be one of {', '.join(Family)}")
        return Family(model_type)


def _figures(config: _Config) -> dict[str, Any]:
    kind = _kind(config)
    figures = {"kind": kind, **_decoder(config, kind)}
    if kind is ModelKind.DFLASH_DRAFT:
        holder = config if config.has("block_size") else config.mapping("dflash_config")
        if (block := holder.count("block_size")) < 2:
            config.refuse(f"block_size = {block}: must be at least 2: the last token and a draft")
        figures["drafts"] = block - 1
    if gib := _weights_gib(config.file):
        # One decimal, or two digits of what is less than one.
        figures["checkpoint_gib"] = round(gib, 1) if gib >= 1 else float(f"{gib:.2g}")
    target = config.mapping("speculators_config").mapping("verifier").data.get("name_or_path")
    # It may also be a path.
    if isinstance(target, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", target):
        figures["trained_for"] = target
    if kind is ModelKind.EAGLE3_HEAD:
        # Where it says nothing of its residual, it is false, as for vLLM.
        norm = config.data.get("norm_before_residual") or False
        if not isinstance(norm, bool):
            config.refuse(f"norm_before_residual = {as_json(norm)}: must be true or false")
        figures["norm_before_residual"] = norm
    return figures


def _kind(config: _Config) -> ModelKind:
    """The kind of checkpoint. Order matters: drafts and heads name a model's class too."""
    one_layer = config.data.get("num_hidden_layers") == 1
    if config.has("speculators_config", "speculators_model_type"):
        algorithm = config.mapping("speculators_config").data.get("algorithm")
        algorithm = algorithm or config.data.get("speculators_model_type")
        if algorithm not in [*_ALGORITHMS]:
            config.refuse(
                f"speculators_config.algorithm = {as_json(algorithm)}: must be one of "
                f"{', '.join(_ALGORITHMS)}"
            )
        return _ALGORITHMS[algorithm]
    if config.has("dflash_config") or _DFLASH in config.architectures:
        if config.architectures - {_DFLASH}:
            config.refuse(f"architectures must be {_DFLASH}, the one DFlash draft that is served")
        return ModelKind.DFLASH_DRAFT
    if config.has(*_MEDUSA):
        config.refuse(
            "has Medusa heads, whose config.json says little: copy the target's figures, as "
            "experiment/known_models.toml does for medusa-vicuna-7b-v1.3"
        )
    if config.architectures & _EAGLE3 or (one_layer and config.has(*_REDUCED_VOCABULARY)):
        return ModelKind.EAGLE3_HEAD
    # A head's config.json may say nothing but the class of a model; no model has one layer.
    if one_layer or config.architectures & _EAGLE or config.data.get("model_type") == "eagle":
        return ModelKind.EAGLE_HEAD
    _ = config.family  # refuses a mixture of experts before it says what else is wrong
    if not any(name.endswith("ForCausalLM") for name in config.architectures):
        named = ", ".join(sorted(config.architectures)) or "none"
        config.refuse(f"architectures: {named}; a causal language model's ends in ForCausalLM")
    if config.has("quantization_config"):
        config.refuse("is quantized (quantization_config); must be a checkpoint in 16 bits")
    return ModelKind.CAUSAL_LM


def _decoder(config: _Config, kind: ModelKind) -> dict[str, Any]:
    """The figures of a model, or of a head's layers, with the defaults of the family's class."""
    nested = [config.mapping(key) for key in ("transformer_layer_config", "model")]
    layers = next((mapping for mapping in nested if mapping.data), config)
    family, heads = layers.family, layers.count("num_attention_heads")
    hidden = layers.count("hidden_size")
    derived = None if family is Family.QWEN3 else hidden // heads or None
    # Some heads keep the number of their target's layers (AvitoTech/avibe-eagle).
    is_head = kind in (ModelKind.EAGLE_HEAD, ModelKind.EAGLE3_HEAD)
    return {
        "family": family,
        "vocabulary": layers.count("vocab_size"),
        "layers": 1 if is_head else layers.count("num_hidden_layers"),
        "hidden": hidden,
        "kv_heads": layers.count("num_key_value_heads", heads if family is Family.LLAMA else None),
        "head_dim": layers.count("head_dim", derived),
        "tied_embeddings": layers.data.get("tie_word_embeddings") is True,
        "max_length": layers.count("max_position_embeddings"),
    }


def _weights_gib(config_file: Path) -> float | None:
    """The size of the weights beside ``config.json``; None where no file says it."""
    files = (config_file.parent / name for name in WEIGHTS)
    weights = next((file for file in files if file.is_file()), None)
    if weights is None or config_file.name != CONFIG:
        return None
    if weights.suffix == ".json":
        size = _Config(weights, _json(weights)).mapping("metadata").data.get("total_size")
    else:
        size = weights.stat().st_size
    # A smaller file is a pointer of Git LFS, in a clone without the weights.
    return size / 2**30 if isinstance(size, int | float) and size > 2**20 else None


def _json(file: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ExperimentError(f"{file}: is not JSON") from None
    if not isinstance(data, dict):
        raise ExperimentError(f"{file}: must be a mapping, as a model's config.json is")
    return data
