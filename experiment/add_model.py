"""What an experiment file must say about a model, read from the model's own files.

The formats: config.json of transformers (``LlamaConfig``, ``Qwen3Config``, v4.51.3), of speculators
(``speculators_config``, as vLLM v0.18.1 reads it, ``vllm/transformers_utils/configs/speculators``),
of SafeAILab/EAGLE (``eagle/traineagle3/config.json``), of Z Lab's DFlash drafts, and of
FasterDecoding/Medusa (``medusa/model/medusa_model.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from experiment.errors import ExperimentError, as_json
from experiment.known_models import KNOWN_MODELS, Architecture, Family, ModelKind
from experiment.model_files import ModelFiles, model_files

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
_EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts")
_EAGLE_KINDS: Final = (ModelKind.EAGLE_HEAD, ModelKind.EAGLE3_HEAD)
_HEAD_TENSOR: Final = re.compile(r"(?:medusa_heads?\.)?(\d+)\.\d+\.(?:linear\.)?weight")


def add_model(path: Path, target: Path | None = None) -> str:
    """YAML of the architecture of the model in ``path``, to paste below its revision.

    ``path`` is a folder or its config.json. ``target`` is that of the model that Medusa heads are
    for, where this project does not know it. What no file tells is a comment to fill in. Raises
    ExperimentError, with one line, for a model that no experiment can use.
    """
    files = model_files(path)
    figures = _figures(files, target)
    name = str(files.path) if str(files.path).isprintable() else ascii(str(files.path))
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


def _figures(files: ModelFiles, target: Path | None = None) -> dict[str, Any]:
    """The fields of ``Architecture`` that can be read."""
    config = _Config(files, files.config)
    kind = _kind(config)
    figures: dict[str, Any] = {"kind": kind}
    if kind is ModelKind.MEDUSA_HEADS:
        figures |= _medusa(config, target)
    else:
        figures |= _decoder(config.inner(), kind)
    if kind is ModelKind.DFLASH_DRAFT:
        figures["drafts"] = _block_size(config) - 1
    if files.size:
        # One decimal, or two digits of what is less than one.
        gib = files.size / 2**30
        figures["checkpoint_gib"] = round(gib, 1) if gib >= 1 else float(f"{gib:.2g}")
    if kind is not ModelKind.CAUSAL_LM and (named := _target(config.target)):
        figures["trained_for"] = named
    if kind is ModelKind.EAGLE3_HEAD:
        # Where it says nothing of its residual, it is false, as for vLLM.
        norm = config.data.get("norm_before_residual") or False
        if not isinstance(norm, bool):
            config.refuse(f"norm_before_residual = {as_json(norm)}: must be true or false")
        figures["norm_before_residual"] = norm
    return figures


@dataclass(frozen=True)
class _Config:
    """A mapping of ``config.json``, and where it lies for the line of an error."""

    files: ModelFiles
    data: Mapping[str, Any]

    def refuse(self, why: str) -> NoReturn:
        raise ExperimentError(f"{self.files.path}: {why}")

    def has(self, *keys: str) -> bool:
        return any(self.data.get(key) is not None for key in keys)

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self.data.get(key)
        return value if isinstance(value, dict) else {}

    def inner(self) -> _Config:
        """The configuration of the decoder: of some heads, that of their layers."""
        for key in ("transformer_layer_config", "model"):
            if self.mapping(key):
                return _Config(self.files, self.mapping(key))
        return self

    def count(self, key: str, default: int | None = None) -> int:
        value = self.data.get(key)
        if value is None:
            return default or self.refuse(f"{key} is missing")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.refuse(f"{key} = {as_json(value)}: must be a positive integer")
        return value

    @property
    def architectures(self) -> set[str]:
        named = self.data.get("architectures")
        return {n for n in named if isinstance(n, str)} if isinstance(named, list) else set()

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

    @property
    def target(self) -> str:
        """How it names its target: as the verifier of speculators, or as Medusa's base model."""
        verifier = self.mapping("speculators_config").get("verifier")
        named = verifier.get("name_or_path") if isinstance(verifier, dict) else None
        target = named or self.data.get("base_model_name_or_path")
        return target if isinstance(target, str) else ""


def _kind(config: _Config) -> ModelKind:
    """What the checkpoint is. The order counts: drafts and heads name the class of a model too."""
    one_layer = config.data.get("num_hidden_layers") == 1
    if config.has("speculators_config", "speculators_model_type"):
        return _speculators(config)
    if config.has("dflash_config") or _DFLASH in config.architectures:
        if config.architectures - {_DFLASH}:
            config.refuse(f"architectures must be {_DFLASH}, the one DFlash draft that is served")
        return ModelKind.DFLASH_DRAFT
    if config.has("medusa_num_heads", "medusa_num_layers", "num_heads"):
        if config.has("num_hidden_layers", "num_attention_heads") and not config.has("num_heads"):
            config.refuse("has Medusa heads and a model of its own in one; they must be apart")
        return ModelKind.MEDUSA_HEADS
    if config.architectures & _EAGLE3 or (one_layer and config.has(*_REDUCED_VOCABULARY)):
        return ModelKind.EAGLE3_HEAD
    if config.architectures & _EAGLE or config.data.get("model_type") == "eagle":
        return ModelKind.EAGLE_HEAD
    return _of_one_layer(config) if one_layer else _language_model(config)


def _speculators(config: _Config) -> ModelKind:
    named = config.mapping("speculators_config").get("algorithm")
    algorithm = named or config.data.get("speculators_model_type")
    if algorithm not in [*_ALGORITHMS]:
        config.refuse(
            f"speculators_config.algorithm = {as_json(algorithm)}: must be one of "
            f"{', '.join(_ALGORITHMS)}"
        )
    return _ALGORITHMS[algorithm]


def _of_one_layer(config: _Config) -> ModelKind:
    """A head whose config.json says nothing but the class of a model, unless its weights do.

    ``fc`` joins the token's embedding with one hidden state of the target, or three of them.
    """
    tensors = config.files.tensors
    if not tensors:
        return ModelKind.EAGLE_HEAD
    if "fc.weight" not in tensors:
        return _language_model(config)
    shape = tensors["fc.weight"]
    three = "d2t" in tensors or (shape is not None and shape[-1] == 3 * config.count("hidden_size"))
    return ModelKind.EAGLE3_HEAD if three else ModelKind.EAGLE_HEAD


def _language_model(config: _Config) -> ModelKind:
    _ = config.family
    if not any(name.endswith("ForCausalLM") for name in config.architectures):
        named = ", ".join(sorted(config.architectures)) or "none"
        config.refuse(f"architectures: {named}; a causal language model's ends in ForCausalLM")
    if config.has("quantization_config"):
        config.refuse("is quantized (quantization_config); must be a checkpoint in 16 bits")
    return ModelKind.CAUSAL_LM


def _decoder(config: _Config, kind: ModelKind) -> dict[str, Any]:
    """Figures of a model, or of a head's layers, with the defaults of the family's class."""
    family, heads = config.family, config.count("num_attention_heads")
    hidden = config.count("hidden_size")
    derived = None if family is Family.QWEN3 else hidden // heads or None
    # Some heads keep the number of their target's layers (AvitoTech/avibe-eagle).
    layers = 1 if kind in _EAGLE_KINDS else config.count("num_hidden_layers")
    return {
        "family": family,
        "vocabulary": config.count("vocab_size"),
        "layers": layers,
        "hidden": hidden,
        "kv_heads": config.count("num_key_value_heads", heads if family is Family.LLAMA else None),
        "head_dim": config.count("head_dim", derived),
        "tied_embeddings": config.data.get("tie_word_embeddings") is True,
        "max_length": config.count("max_position_embeddings"),
    }


def _block_size(config: _Config) -> int:
    dflash = _Config(config.files, config.mapping("dflash_config"))
    block = (config if config.has("block_size") else dflash).count("block_size")
    if block < 2:
        config.refuse(f"block_size = {block}: must be at least 2: the last token and its drafts")
    return block


def _medusa(config: _Config, target: Path | None) -> dict[str, Any]:
    """Figures of heads without a decoder. Their number is counted: config.json is often wrong.

    FasterDecoding/Medusa, issue 114.
    """
    known = KNOWN_MODELS.get(_target(config.target) or "")
    figures = known.model_dump() if known else None
    if target:
        figures = _figures(model_files(target))
    if figures is None:
        config.refuse(
            "Medusa heads take their figures from their target; "
            f"{config.target or 'none'} is not known here, so give its folder as --target"
        )
    numbers = {match[1] for name in config.files.tensors if (match := _HEAD_TENSOR.fullmatch(name))}
    heads = len(numbers) or config.count(
        "num_heads" if config.has("num_heads") else "medusa_num_heads"
    )
    shared = ("family", "vocabulary", "hidden", "kv_heads", "head_dim", "max_length")
    return {field: figures[field] for field in shared} | {
        "layers": 1,
        "tied_embeddings": False,
        "drafts": heads,
    }


def _target(named: str) -> str | None:
    """The model that ``named`` means, which may be the path of a known one."""
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", named):
        return named if named != "N/A" else None
    return next((model for model in KNOWN_MODELS if named.endswith(f"/{model}")), None)
