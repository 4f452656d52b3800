"""A head becomes what NxDI takes: with real PyTorch, on checkpoints of a few numbers.

The checkpoints have the names and the configurations of published ones: EAGLE's own, EAGLE3's own
(``midlayer``, ``d2t``, no embeddings), those of vLLM's speculators, and Medusa's.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from charts import scripts
from tests.synthesis import ROOT

PYTHON: Final = ROOT / ".venv-vllm" / "bin" / "python"
FOLDER: Final = Path(scripts.__file__).parent
DRAFT: Final = FOLDER / "prepare_draft.py"
MEDUSA: Final = FOLDER / "prepare_medusa.py"

HIDDEN, VOCABULARY = 2, 6
LLAMA: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": HIDDEN,
    "vocab_size": VOCABULARY,
}

# One process that has PyTorch, since to import it takes seconds: it makes files, runs the scripts
# and shows files, one line of JSON for each.
WORKER: Final = """
import contextlib, io, json, os, runpy, sys, torch
os.environ["HF_HUB_OFFLINE"] = "1"
from pathlib import Path
from safetensors.torch import load_file, save_file

def make(path, tensors):
    tensors = {n: torch.tensor(v, dtype=getattr(torch, kind)) for n, (kind, v) in tensors.items()}
    (save_file if path.endswith("safetensors") else torch.save)(tensors, path)

def show(path):
    tensors = load_file(path) if path.endswith("safetensors") else torch.load(path)
    return {n: [str(v.dtype).removeprefix("torch."), v.tolist()] for n, v in tensors.items()}

def run(script, *arguments):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = runpy.run_path(script)["main"](list(arguments))
    return [status, printed.getvalue()]

for line in sys.stdin:
    name, *arguments = json.loads(line)
    print(json.dumps(globals()[name](*arguments)), flush=True)
"""

Tensors = Mapping[str, tuple[str, Sequence[Any]]]


@cache
def worker() -> subprocess.Popen[str]:
    """It ends with this process, which holds its input open."""
    return subprocess.Popen(
        [PYTHON, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(*question: Any) -> Any:
    print(json.dumps(question, default=str), file=worker().stdin, flush=True)
    return json.loads(next(iter(worker().stdout or ())))


def run(script: Path, *arguments: str | Path, status: int = 0) -> str:
    ended, output = ask("run", script, *arguments)
    assert ended == status, output
    return str(output)


def filled(rows: int, columns: int, value: float) -> tuple[str, list[list[float]]]:
    return "float32", [[value] * columns for _ in range(rows)]


def checkpoint(folder: Path, config: Mapping[str, Any], **files: Tensors) -> Path:
    """A folder with a configuration and weights; a file's name has __ for its dot."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    for name, tensors in files.items():
        ask("make", folder / name.replace("__", "."), tensors)
    return folder


def refusal(tmp_path: Path, script: Path, head: Path, *arguments: str | Path) -> str:
    """The only line that the script prints about a head; it leaves nothing."""
    (line,) = run(script, *arguments, status=1).splitlines()
    assert line.startswith(f"{script.stem}: {head}: ")
    assert not (tmp_path / "draft").exists()
    assert not (tmp_path / "target").exists()
    return line


EAGLE: Final[dict[str, tuple[str, Any]]] = {
    "embed_tokens.weight": filled(VOCABULARY, HIDDEN, 1),
    "fc.weight": filled(HIDDEN, 2 * HIDDEN, 3),
    "layers.0.self_attn.q_proj.weight": filled(HIDDEN, HIDDEN, 4),
}
EAGLE3: Final[dict[str, tuple[str, Any]]] = {
    "fc.weight": filled(HIDDEN, 3 * HIDDEN, 3),
    "midlayer.hidden_norm.weight": ("float16", [1.0, 1.0]),
    "norm.weight": ("float16", [1.0, 1.0]),
    # Three tokens of six: 0, 2 and 5.
    "lm_head.weight": ("float32", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "d2t": ("int64", [0, 1, 3]),
    "t2d": ("bool", [True, False, True, False, False, True]),
}
SPECULATORS: Final[dict[str, Any]] = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "speculators_config": {"algorithm": "eagle3"},
    "draft_vocab_size": 3,
    "norm_before_residual": False,
    "transformer_layer_config": LLAMA,
}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """One with an output head in its second file, and one that is tied."""
    folder = tmp_path_factory.mktemp("targets")
    embeddings = {"model.embed_tokens.weight": filled(VOCABULARY, HIDDEN, 7)}
    output = {"lm_head.weight": filled(VOCABULARY, HIDDEN, 9)}
    config = LLAMA | {"num_hidden_layers": 8}
    first = {"model-00001-of-00002__safetensors": embeddings}
    second = {"model-00002-of-00002__safetensors": output}
    return {
        "untied": checkpoint(folder / "untied", config, **first, **second),
        "tied": checkpoint(folder / "tied", config, **first),
    }


@pytest.mark.parametrize(
    ("file", "target", "output"),
    [
        ("model.safetensors", "untied", 9.0),
        # A tied target's output head is its embeddings.
        ("eagle_head.pt", "tied", 7.0),
    ],
)
def test_an_eagle_head_gets_its_targets_output_head(
    file: str, target: str, output: float, targets: Mapping[str, Path], tmp_path: Path
) -> None:
    bias = {"fc.bias": ("float16", [0.5, 0.5])}
    weights = {file.replace(".", "__"): EAGLE | bias}
    head = checkpoint(tmp_path / "head", LLAMA | {"bias": False}, **weights)
    assert "lm_head.weight new" in run(DRAFT, tmp_path, "eagle", head, targets[target])
    prepared = ask("show", tmp_path / "draft" / "model.safetensors")
    assert set(prepared) == {*EAGLE, "fc.bias", "lm_head.weight"}
    assert {kind for kind, _ in prepared.values()} == {"bfloat16"}
    assert prepared["lm_head.weight"][1] == [[output] * HIDDEN] * VOCABULARY
    assert prepared["fc.weight"][1] == EAGLE["fc.weight"][1]
    config = json.loads((tmp_path / "draft" / "config.json").read_text())
    assert config["fc_bias"] is True
    assert config["tie_word_embeddings"] is False


@pytest.mark.parametrize("config", [LLAMA | {"draft_vocab_size": 3}, SPECULATORS])
def test_an_eagle3_head_gets_an_output_head_for_the_whole_vocabulary(
    config: dict[str, Any], targets: Mapping[str, Path], tmp_path: Path
) -> None:
    head = checkpoint(tmp_path / "head", config, pytorch_model__bin=EAGLE3)
    run(DRAFT, tmp_path, "eagle3", head, targets["untied"])
    prepared = ask("show", tmp_path / "draft" / "model.safetensors")
    mean = [3.0, 4.0]
    assert prepared["lm_head.weight"][1] == [[1, 2], mean, [3, 4], mean, mean, [5, 6]]
    assert prepared["embed_tokens.weight"][1] == [[7.0] * HIDDEN] * VOCABULARY
    assert set(prepared) == {
        *("fc.weight", "layers.0.hidden_norm.weight", "norm.weight"),
        *("lm_head.weight", "embed_tokens.weight"),
    }
    config = json.loads((tmp_path / "draft" / "config.json").read_text())
    assert config == LLAMA | {
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "fc_bias": False,
        **({"norm_before_residual": False} if "norm_before_residual" in config else {}),
    }


def test_an_eagle3_head_that_has_everything_keeps_it(
    targets: Mapping[str, Path], tmp_path: Path
) -> None:
    weights: dict[str, tuple[str, Any]] = {
        "fc.weight": EAGLE3["fc.weight"],
        "embed_tokens.weight": filled(VOCABULARY, HIDDEN, 1),
        "lm_head.weight": filled(VOCABULARY, HIDDEN, 2),
    }
    # The layers that NxDI hands out, said aloud.
    config = LLAMA | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 5]}}
    head = checkpoint(tmp_path / "head", config, model__safetensors=weights)
    run(DRAFT, tmp_path, "eagle3", head, targets["untied"])
    prepared = ask("show", tmp_path / "draft" / "model.safetensors")
    assert prepared == {name: ["bfloat16", values] for name, (_, values) in weights.items()}


NORMED: Final = {"layers.0.input_layernorm.weight": ("float32", [1.0, 1.0])}
WITHOUT_D2T: Final = {name: value for name, value in EAGLE3.items() if name != "d2t"}


@pytest.mark.parametrize(
    ("kind", "config", "weights", "message"),
    [
        ("eagle", {}, {}, "has no .safetensors, .bin or .pt file"),
        ("eagle", {}, EAGLE | NORMED, "normalises its input"),
        ("eagle", {}, EAGLE3, "is no eagle head: fc joins 3 hidden states, not 2"),
        ("eagle3", {}, NORMED, "has no fc.weight, so is no eagle3 head"),
        ("eagle3", {"norm_before_residual": True}, EAGLE3, "NxDI does not compute"),
        (
            "eagle3",
            {"eagle_aux_hidden_state_layer_ids": [1, 4, 6]},
            EAGLE3,
            "reads layers [1, 4, 6]; NxDI hands out [2, 4, 5]",
        ),
        ("eagle3", {}, WITHOUT_D2T, "has 3 of 6 tokens, and no d2t to say which"),
        ("eagle3", {}, EAGLE3 | {"d2t": ("int64", [0, 1, 4])}, "or beyond the 6 of the target"),
        ("eagle3", {}, EAGLE3 | {"d2t": ("int64", [1, 0, 3])}, "d2t names tokens twice"),
    ],
)
def test_a_head_that_nxdi_would_run_as_another_is_refused(
    kind: str,
    config: dict[str, Any],
    weights: Tensors,
    message: str,
    targets: Mapping[str, Path],
    tmp_path: Path,
) -> None:
    files = {"model__safetensors": weights} if weights else {}
    head = checkpoint(tmp_path / "head", LLAMA | config, **files)
    assert message in refusal(tmp_path, DRAFT, head, tmp_path, kind, head, targets["untied"])


def test_the_command_ends_with_the_status(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("scratch", "head", "target")]
    command = [str(PYTHON), str(DRAFT), folders[0], "eagle", *folders[1:]]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert completed.returncode == 1
    assert completed.stderr.startswith("prepare_draft: ")
    assert completed.stderr.count("\n") == 1


def test_nothing_is_prepared_for_an_artifact_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "nothing-to-do").touch()
    arguments = (tmp_path, "eagle", tmp_path / "head", tmp_path / "target")
    assert run(DRAFT, *arguments) == "nothing to prepare\n"
    assert not (tmp_path / "draft").exists()
    assert run(MEDUSA, tmp_path, tmp_path, tmp_path, "4") == "nothing to prepare\n"
    assert not (tmp_path / "target").exists()


def medusa(count: int, prefix: str = "") -> dict[str, tuple[str, Any]]:
    """Heads as Medusa's authors publish them."""
    heads: dict[str, tuple[str, Any]] = {}
    for number in range(count):
        heads[f"{prefix}{number}.0.linear.weight"] = filled(HIDDEN, HIDDEN, number)
        heads[f"{prefix}{number}.0.linear.bias"] = ("float32", [0.5, 0.5])
        heads[f"{prefix}{number}.1.weight"] = filled(VOCABULARY, HIDDEN, number)
    return heads


@pytest.mark.parametrize("prefix", ["", "medusa_heads."])
def test_medusa_heads_are_put_beside_their_target(
    prefix: str, targets: Mapping[str, Path], tmp_path: Path
) -> None:
    # Five heads, as in the file for Vicuna 7B, of which four are wanted.
    weights = medusa(5, prefix)
    del weights[f"{prefix}0.0.linear.bias"]
    heads = checkpoint(tmp_path / "heads", {}, medusa_lm_head__pt=weights)
    for _ in range(2):  # again, after an interruption
        run(MEDUSA, tmp_path, heads, targets["untied"], "4")
    prepared = tmp_path / "target"
    heads_file = ask("show", prepared / "medusa_heads.pt")
    assert set(heads_file) == {
        f"medusa_head_{number}.{tensor}"
        for number in range(4)
        for tensor in ("0.linear.weight", "0.linear.bias", "1.weight")
    }
    assert heads_file["medusa_head_0.0.linear.bias"] == ["float32", [0.0, 0.0]]
    assert heads_file["medusa_head_3.1.weight"] == [*filled(VOCABULARY, HIDDEN, 3)]
    for file in targets["untied"].iterdir():
        assert (prepared / file.name).read_bytes() == file.read_bytes()


def test_medusa_heads_that_nxdi_has_no_room_for_are_refused(
    targets: Mapping[str, Path], tmp_path: Path
) -> None:
    torn, deep = medusa(4), medusa(4) | {"0.1.linear.weight": filled(2, 2, 1)}
    del torn["0.1.weight"]
    for name, weights, message in (
        ("few", medusa(3), "has 3 heads, not 4: use num_speculative_tokens as few"),
        ("torn", torn, "head 0 has no 1.weight"),
        ("deep", deep, "NxDI's heads have one layer"),
    ):
        heads = checkpoint(tmp_path / name, {}, medusa_lm_head__pt=weights)
        arguments = (tmp_path, heads, targets["tied"], "4")
        assert message in refusal(tmp_path, MEDUSA, heads, *arguments)
