"""What ``add-model`` prints of a checkpoint is what an experiment file must say of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from experiment.add_model import add_model
from experiment.errors import ExperimentError
from experiment.known_models import KNOWN_MODELS, Architecture
from experiment.loader import parse
from tests.experiment import checkpoints
from tests.experiment.checkpoints import checkpoint, index, safetensors, torch_saved
from tests.experiment.files import ARTICLE_TEXT, ROOT

GIB = 2**30


def printed(path: Path, target: Path | None = None) -> Any:
    """What it prints, as YAML reads it."""
    return YAML(typ="safe", pure=True).load(add_model(path, target))["architecture"]


def refused(path: Path, target: Path | None = None) -> str:
    """The one line it is refused with, without the file."""
    with pytest.raises(ExperimentError) as error:
        add_model(path, target)
    file, _, why = str(error.value).partition(": ")
    assert "\n" not in why
    assert Path(file).parent in (path, path.parent)
    return why


@pytest.mark.parametrize(
    ("model", "config", "size"),
    [
        # Bytes of the published files.
        ("Qwen/Qwen3-32B", checkpoints.QWEN3_32B, 65_524_246_528),
        ("meta-llama/Llama-3.1-8B-Instruct", checkpoints.LLAMA_8B, 16_060_522_496),
        ("lmsys/vicuna-7b-v1.3", checkpoints.VICUNA, 13_476_839_424),
        ("yuhuili/EAGLE-LLaMA3-Instruct-70B", checkpoints.EAGLE, 4_081_074_176),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", checkpoints.EAGLE3, 849_765_096),
        ("RedHatAI/Qwen3-32B-speculator.eagle3", checkpoints.SPECULATORS, 3_121_274_856),
        ("z-lab/Qwen3-4B-DFlash-b16", checkpoints.DFLASH, 1_074_790_400),
    ],
)
def test_it_reads_what_is_known_of_published_models(
    tmp_path: Path, model: str, config: dict[str, Any], size: int
) -> None:
    folder = checkpoint(tmp_path, config, model__safetensors__index__json=index(size))
    known = KNOWN_MODELS[model].model_dump(mode="json", exclude={"tool_parser"})
    named = "speculators_config" in config or known["trained_for"] is None
    expected = known if named else known | {"trained_for": None}
    assert Architecture(**_typed(printed(folder))).model_dump(
        mode="json", exclude={"tool_parser"}
    ) == pytest.approx(expected)


def _typed(read: dict[str, Any]) -> dict[str, Any]:
    """As ``Architecture`` has it in Python; a file's text goes through its JSON."""
    model = Architecture.model_validate_json(json.dumps(read))
    return {field: getattr(model, field) for field in Architecture.model_fields}


def test_pasted_below_a_model_it_loads(tmp_path: Path) -> None:
    own = checkpoints.QWEN3_32B | {"hidden_size": 1024, "num_hidden_layers": 28}
    folder = checkpoint(tmp_path, own, model__safetensors=safetensors({"lm_head.weight": [1]}))
    draft = "    id: Qwen/Qwen3-1.7B\n    revision: 70d244cc86ccca08cf5af4e1e306ecf908b1ad5e\n"
    assert draft in ARTICLE_TEXT
    mine = draft.replace("Qwen/Qwen3-1.7B", "example/mine") + add_model(folder) + "\n"
    experiment = parse(ARTICLE_TEXT.replace(draft, mine), "mine.yaml")
    assert experiment.models.draft is not None
    assert experiment.models.draft.known.hidden == 1024
    assert f"# from {folder / 'config.json'}\n" in mine


@pytest.mark.parametrize(
    ("config", "tensors", "kind"),
    [
        (checkpoints.EAGLE, {"fc.weight": [8192, 16384]}, "eagle-head"),
        (checkpoints.EAGLE, {"fc.weight": [8192, 24576]}, "eagle3-head"),
        (checkpoints.EAGLE, {"model.layers.0.mlp.up_proj.weight": [28672, 8192]}, "causal-lm"),
        (checkpoints.EAGLE | {"architectures": ["LlamaForCausalLMEagle"]}, {}, "eagle-head"),
        ({"model_type": "eagle", "model": checkpoints.EAGLE}, {}, "eagle-head"),
        # AvitoTech/avibe-eagle: the target's layers.
        (
            checkpoints.EAGLE3
            | {"architectures": ["LlamaForCausalLMEagle3"]}
            | {"num_hidden_layers": 36},
            {},
            "eagle3-head",
        ),
        (checkpoints.DFLASH | {"dflash_config": {"block_size": 16}}, {}, "dflash-draft"),
    ],
)
def test_heads_that_look_alike_are_told_apart(
    tmp_path: Path, config: dict[str, Any], tensors: dict[str, list[int]], kind: str
) -> None:
    read = printed(checkpoint(tmp_path, config, model__safetensors=safetensors(tensors)))
    assert read["kind"] == kind
    assert read["layers"] == (5 if kind == "dflash-draft" else 1)


def test_a_block_inside_dflash_config_counts(tmp_path: Path) -> None:
    config = {k: v for k, v in checkpoints.DFLASH.items() if k != "block_size"}
    config["dflash_config"] = config["dflash_config"] | {"block_size": 10}
    assert printed(checkpoint(tmp_path, config))["drafts"] == 9


def test_medusa_heads_are_counted_in_their_file_and_nothing_is_unpickled(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, checkpoints.MEDUSA)
    names = ["0.linear.weight", "0.linear.bias", "1.weight"]
    torch_saved(folder / "medusa_lm_head.pt", [f"{i}.{name}" for i in range(5) for name in names])
    read = printed(folder)
    known = KNOWN_MODELS["FasterDecoding/medusa-vicuna-7b-v1.3"].model_dump(mode="json")
    given_up = {"tool_parser", "checkpoint_gib", "norm_before_residual"}
    assert {k: v for k, v in read.items() if k not in given_up} == {
        k: v for k, v in known.items() if k not in given_up
    }


def test_medusa_heads_take_figures_from_the_target_that_is_given(tmp_path: Path) -> None:
    config = {"medusa_num_heads": 4, "medusa_num_layers": 1, "base_model_name_or_path": "N/A"}
    tensors = {f"{i}.0.linear.weight": [4096, 4096] for i in range(4)}
    heads = checkpoint(tmp_path / "h", config, model__safetensors=safetensors(tensors))
    assert "--target" in refused(heads)
    target = checkpoint(tmp_path / "t", checkpoints.LLAMA_8B)
    read = printed(heads, target)
    assert (read["drafts"], read["vocabulary"], read["hidden"]) == (4, 128256, 4096)
    assert "trained_for" not in read
    assert "# trained_for: " in add_model(heads, target)


def test_where_a_head_has_its_norm_is_read(tmp_path: Path) -> None:
    for said in (True, False):
        config = checkpoints.SPECULATORS | {"norm_before_residual": said}
        assert printed(checkpoint(tmp_path, config))["norm_before_residual"] is said
    assert printed(checkpoint(tmp_path, checkpoints.EAGLE3))["norm_before_residual"] is False
    assert "norm_before_residual" not in printed(checkpoint(tmp_path, checkpoints.EAGLE))
    why = refused(checkpoint(tmp_path, checkpoints.SPECULATORS | {"norm_before_residual": "yes"}))
    assert why.startswith("norm_before_residual = ")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/data/hub/meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/model/from_s3", None),
        ("", None),
        (["x"], None),
    ],
)
def test_a_verifier_may_be_a_path(tmp_path: Path, named: Any, expected: str | None) -> None:
    config = checkpoints.SPECULATORS | {
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": named}}
    }
    assert printed(checkpoint(tmp_path, config)).get("trained_for") == expected


@pytest.mark.parametrize(
    ("files", "gib"),
    [({"model__safetensors": b"\0" * GIB_PART}, 0.0098) for GIB_PART in [10 * 2**20]]
    + [
        # A pointer of Git LFS, of a clone without the weights.
        (
            {
                "model__safetensors": b"version https://git-lfs.github.com/spec/v1\n"
                b"oid sha256:0\nsize 3121274856\n"
            },
            2.9,
        ),
        # Both forms of the same weights: one counts.
        ({"model__safetensors": b"0" * 2**20, "pytorch_model__bin": b"0" * 2**21}, 0.00098),
        # An index without the sum.
        (
            {
                "model__safetensors__index__json": index(None, a="1.bin", b="2.bin", c="2.bin"),
                "1__bin": b"0" * 2**20,
                "2__bin": b"0" * 2**20,
            },
            0.002,
        ),
    ],
)
def test_the_size_is_that_of_the_weights(
    tmp_path: Path, files: dict[str, bytes], gib: float
) -> None:
    assert printed(checkpoint(tmp_path, checkpoints.QWEN3_32B, **files))["checkpoint_gib"] == gib


@pytest.mark.parametrize(
    ("change", "field", "word"),
    [
        ({"model_type": "qwen3_moe", "num_experts": 128}, "model_type", "mixture of experts"),
        ({"model_type": ["x"]}, "model_type", "llama, qwen2, qwen3"),
        ({"architectures": ["Qwen3ForSequenceClassification"]}, "architectures", "ForCausalLM"),
        ({"architectures": 7}, "architectures", "ForCausalLM"),
        ({"quantization_config": {"bits": 4}}, "is quantized", "16 bits"),
        ({"head_dim": None}, "head_dim", "missing"),
        ({"num_attention_heads": "64"}, "num_attention_heads", "positive integer"),
        ({"hidden_size": True}, "hidden_size", "positive integer"),
        ({"medusa_num_heads": 5}, "has Medusa heads", "apart"),
        (
            {"architectures": ["DFlash2DraftModel"], "dflash_config": {"block_size": 8}},
            "architectures",
            "DFlashDraftModel",
        ),
        (
            {"speculators_config": {"algorithm": ["eagle3"]}},
            "speculators_config.algorithm",
            "eagle3, eagle, dflash",
        ),
        ({"architectures": ["DFlashDraftModel"], "block_size": 1}, "block_size", "at least 2"),
        ({"architectures": ["DFlashDraftModel"]}, "block_size", "missing"),
    ],
)
def test_a_model_that_no_experiment_can_use_is_refused(
    tmp_path: Path, change: dict[str, Any], field: str, word: str
) -> None:
    why = refused(checkpoint(tmp_path, checkpoints.QWEN3_32B | change))
    assert why.startswith(field)
    assert word in why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "is no JSON"),
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("9" * 10_000, "is no JSON"),
        ("[]", "must be a mapping, as a model's config.json is"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert refused(tmp_path) == why


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 20, b"\x05\0\0\0\0\0\0\0[1,2]", b"\x02\0\0\0\0\0\0\0{}"]
)
def test_weights_that_cannot_be_read_leave_what_config_json_says(
    tmp_path: Path, content: bytes
) -> None:
    folder = checkpoint(tmp_path, checkpoints.EAGLE, model__safetensors=content)
    assert printed(folder)["kind"] == "eagle-head"


def test_the_command_prints_several_and_ends_with_1_if_one_is_refused(tmp_path: Path) -> None:
    good = checkpoint(tmp_path / "good", checkpoints.QWEN3_32B)
    missing = tmp_path / "missing"
    command = [sys.executable, "-m", "experiment", "add-model", str(good), str(missing), str(good)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{missing}: cannot be read: No such file or directory\n"
    assert done.stdout == f"{add_model(good)}\n" * 2
