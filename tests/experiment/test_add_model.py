"""What ``add-model`` prints of a checkpoint is what an experiment file must say of it."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML
from syrupy.assertion import SnapshotAssertion

from experiment.__main__ import main
from experiment.add_model import add_model
from experiment.fields import ExperimentError
from experiment.known_models import KNOWN_MODELS, Architecture
from experiment.loader import parse
from tests.experiment.files import ARTICLE_TEXT
from tests.snapshots import TextSnapshot


def decoder(
    kind: str, vocabulary: int, layers: int, hidden: int, length: int, **fields: Any
) -> dict[str, Any]:
    """A config.json as published, of a model with 64 query heads unless it says otherwise."""
    return {
        "architectures": [f"{kind}ForCausalLM"],
        "model_type": kind.lower(),
        "vocab_size": vocabulary,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": 64,
        "max_position_embeddings": length,
    } | fields


KV_HEADS: Final = {"num_key_value_heads": 8, "tie_word_embeddings": False}
QWEN3_32B: Final = decoder("Qwen3", 151936, 64, 5120, 40960, head_dim=128, **KV_HEADS)
# LlamaConfig derives head_dim, and with it the other two that Vicuna's file lacks.
LLAMA_8B: Final = decoder("Llama", 128256, 32, 4096, 131072, num_attention_heads=32, **KV_HEADS)
VICUNA: Final = decoder("Llama", 32000, 32, 4096, 2048, num_attention_heads=32)
# SafeAILab/EAGLE, eagle/train/EAGLE-LLaMA3-Instruct-70B.json, eagle/traineagle3/config.json.
EAGLE: Final = decoder("Llama", 128256, 1, 8192, 2048, **KV_HEADS)
EAGLE3: Final = LLAMA_8B | {
    "num_hidden_layers": 1,
    "max_position_embeddings": 2048,
    "draft_vocab_size": 32000,
}
SPECULATORS: Final = {
    "architectures": ["Eagle3Speculator"],
    "draft_vocab_size": 32000,
    "norm_before_residual": True,
    "speculators_config": {
        "algorithm": "eagle3",
        "verifier": {"architectures": ["Qwen3ForCausalLM"], "name_or_path": "Qwen/Qwen3-32B"},
    },
    "speculators_model_type": "eagle3",
    "transformer_layer_config": QWEN3_32B | {"model_type": "llama", "num_hidden_layers": 1},
}
DFLASH: Final = decoder("Qwen3", 151936, 5, 2560, 40960, **KV_HEADS) | {
    "architectures": ["DFlashDraftModel"],
    "head_dim": 128,
    "tie_word_embeddings": True,
    "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}


def checkpoint(folder: Path, config: Mapping[str, Any], **files: bytes) -> Path:
    """``folder`` with ``config`` as its config.json, and further files: __ stands for a dot."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def printed(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(add_model(path))["architecture"]


def refused(path: Path) -> str:
    """The one line it is refused with, without the file."""
    with pytest.raises(ExperimentError) as error:
        add_model(path)
    file, _, why = str(error.value).partition(": ")
    assert "\n" not in why
    assert Path(file).parent in (path, path.parent)
    return why


@pytest.mark.parametrize(
    ("model", "config", "size"),
    [
        # Bytes of the published files.
        ("Qwen/Qwen3-32B", QWEN3_32B, 65_524_246_528),
        ("lmsys/vicuna-7b-v1.3", VICUNA, 13_476_839_424),
        ("yuhuili/EAGLE-LLaMA3-Instruct-70B", EAGLE, 4_081_074_176),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", EAGLE3, 849_765_096),
        ("RedHatAI/Qwen3-32B-speculator.eagle3", SPECULATORS, 3_121_274_856),
        ("z-lab/Qwen3-4B-DFlash-b16", DFLASH, 1_074_790_400),
    ],
)
def test_it_reads_what_is_known_of_published_models(
    tmp_path: Path, model: str, config: dict[str, Any], size: int
) -> None:
    index = json.dumps({"metadata": {"total_size": size}})
    folder = checkpoint(tmp_path, config, model__safetensors__index__json=index.encode())
    known = KNOWN_MODELS[model].model_copy(update={"tool_parser": None})
    if "speculators_config" not in config:
        known = known.model_copy(update={"trained_for": None})
    read = Architecture.model_validate_json(json.dumps(printed(folder)))
    assert read.model_dump() == pytest.approx(known.model_dump())


def test_pasted_below_a_model_it_loads(tmp_path: Path) -> None:
    config = QWEN3_32B | {"hidden_size": 1024, "num_hidden_layers": 28}
    files = {"model__safetensors": b"0" * 10 * 2**20, "pytorch_model__bin": b"0" * 2**22}
    folder = checkpoint(tmp_path, config, **files)
    draft = "    id: Qwen/Qwen3-1.7B\n    revision: 70d244cc86ccca08cf5af4e1e306ecf908b1ad5e\n"
    assert draft in ARTICLE_TEXT
    mine = draft.replace("Qwen/Qwen3-1.7B", "example/mine") + add_model(folder) + "\n"
    experiment = parse(ARTICLE_TEXT.replace(draft, mine), "mine.yaml")
    assert experiment.models.draft is not None
    assert experiment.models.draft.resolved_architecture.hidden == 1024
    assert (
        experiment.models.draft.resolved_architecture.checkpoint_gib == 0.0098
    )  # of one of both forms
    assert f"# from {folder / 'config.json'}\n" in mine
    # A pointer of Git LFS, of a clone without the weights.
    checkpoint(tmp_path, config, model__safetensors=b"version https://git-lfs.github.com/spec/v1")
    assert "# checkpoint_gib: size" in add_model(folder)


def verified_by(target: Any) -> dict[str, Any]:
    verifier = {"algorithm": "eagle3", "verifier": {"name_or_path": target}}
    return SPECULATORS | {"speculators_config": verifier}


AVIBE: Final = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 36}
"""AvitoTech/avibe-eagle: a head with the target's layers."""


CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "EAGLE within a model": {"model_type": "eagle", "model": EAGLE},
    "a head with the target's layers": EAGLE3 | AVIBE,
    "DFlash of ten": DFLASH | {"block_size": None, "dflash_config": {"block_size": 10}},
    "EAGLE": EAGLE,
    "speculators": verified_by("meta-llama/Llama-3.1-8B"),
    "speculators, verified by a path": verified_by("/model/from_s3"),
}
REFUSED: Final[dict[str, dict[str, Any]]] = {
    "experts": {"model_type": "qwen3_moe", "num_experts": 128},
    "another family": {"model_type": "gpt"},
    "no language model": {"architectures": ["Qwen3ForSequenceClassification"]},
    "quantized": {"quantization_config": {"bits": 4}},
    "no size": {"hidden_size": True},
    "Medusa": {"medusa_num_heads": 5},
    "a newer DFlash": {"architectures": ["DFlash2Model"], "dflash_config": {"a": 1}},
    "another speculator": {"speculators_config": {"algorithm": ["x"]}},
    "a word for a flag": SPECULATORS | {"norm_before_residual": "yes"},
}
"""What makes of a Qwen3 a model that no experiment can use."""


def test_heads_that_look_alike_are_told_apart_and_what_is_of_no_use_is_refused(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    lines = list[str]()
    for name, config in CONFIGS.items():
        lines += [name, add_model(checkpoint(tmp_path, config)).replace(str(tmp_path), "FOLDER")]
    for name, change in REFUSED.items():
        lines += [name, f"    {refused(checkpoint(tmp_path, QWEN3_32B | change))}"]
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)


def test_the_command_prints_several_and_ends_with_1_if_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, missing, bad = checkpoint(tmp_path, QWEN3_32B), tmp_path / "missing", tmp_path / "bad"
    for text, why in (
        ("[" * 100_000, "is not JSON"),
        ("9" * 10_000, "is not JSON"),
        ("[]", "must"),
    ):
        bad.write_text(text)
        assert refused(bad).startswith(why)
    command = ["experiment", "add-model", str(good), str(missing), str(good)]
    monkeypatch.setattr(sys, "argv", command)
    assert main() == 1
    printed = capsys.readouterr()
    assert printed.err == f"{missing}: cannot be read: No such file or directory\n"
    assert printed.out == f"{add_model(good)}\n" * 2
