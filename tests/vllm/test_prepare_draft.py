"""An EAGLE head becomes a draft: with real PyTorch, on checkpoints of a few numbers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from charts import scripts
from tests.synthesis import ROOT

PYTHON: Final = ROOT / ".venv-vllm" / "bin" / "python"
SCRIPT: Final = Path(scripts.__file__).parent / "prepare_draft.py"

HEADS: Final = ("model.safetensors", "pytorch_model.bin", "eagle_head.pt")
OF_THE_HEAD: Final = {
    "embed_tokens.weight": ["torch.float32", [5, 2], 1.0],
    "fc.weight": ["torch.float32", [2, 4], 3.0],
}
TIED: Final = {"tied.weight": ["torch.float32", [5, 2], 1.0]}
TARGETS: Final = {"untied": 9.0, "tied": 7.0}
"""What the output head of each target is filled with; of the tied one, its embeddings."""

# In the environment that has PyTorch.
MAKE: Final = """
import sys, torch
from pathlib import Path
from safetensors.torch import save_file
folder = Path(sys.argv[1])
shared = torch.ones(5, 2)
head = {"fc.weight": torch.full((2, 4), 3.0), "embed_tokens.weight": shared}
for name in sys.argv[2:]:
    (folder / name).mkdir()
    (folder / name / "config.json").write_text('{"model_type": "llama"}')
    save = save_file if name.endswith("safetensors") else torch.save
    # safetensors cannot say that two names share their memory; a pickle can.
    tied = {} if name.endswith("safetensors") else {"tied.weight": shared}
    save(head | tied, folder / name / name)
embeddings = {"model.embed_tokens.weight": torch.full((5, 2), 7.0, dtype=torch.bfloat16)}
output = {"lm_head.weight": torch.full((5, 2), 9.0, dtype=torch.bfloat16)}
for name in ("tied", "untied"):
    (folder / name).mkdir()
    save_file(embeddings, folder / name / "model-00001-of-00002.safetensors")
save_file(output, folder / "untied" / "model-00002-of-00002.safetensors")
"""
READ: Final = """
import json, sys
from safetensors.torch import load_file
print(json.dumps({
    path: {k: [str(v.dtype), list(v.shape), float(v.max())] for k, v in load_file(path).items()}
    for path in sys.argv[1:]
}))
"""


def run(*arguments: str | Path, status: int = 0) -> str:
    done = subprocess.run(
        [PYTHON, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heads of each kind, and two targets."""
    folder = tmp_path_factory.mktemp("checkpoints")
    run("-c", MAKE, folder, *HEADS)
    return folder


@pytest.fixture(scope="module")
def drafts(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What became of each head with a target, or with none (EAGLE3)."""
    made = {}
    for head, target in [*((head, "untied") for head in HEADS), (HEADS[0], "tied"), (HEADS[2], "")]:
        scratch = folder / f"scratch-{head}-{target}"
        run(SCRIPT, scratch, folder / head, *([folder / target] if target else []))
        made[head, target] = scratch / "draft" / "model.safetensors"
    tensors = json.loads(run("-c", READ, *made.values()))
    return {key: tensors[str(path)] for key, path in made.items()}


@pytest.mark.parametrize(
    ("head", "target"), [*((head, "untied") for head in HEADS), (HEADS[0], "tied")]
)
def test_the_targets_output_head_is_copied_in(
    head: str, target: str, drafts: dict[tuple[str, str], dict[str, Any]], folder: Path
) -> None:
    output_head = {"lm_head.weight": ["torch.bfloat16", [5, 2], TARGETS[target]]}
    tied = {} if head.endswith("safetensors") else TIED
    assert drafts[head, target] == OF_THE_HEAD | tied | output_head
    config = folder / f"scratch-{head}-{target}" / "draft" / "config.json"
    assert config.read_text() == '{"model_type": "llama"}'


def test_an_eagle3_head_keeps_what_it_has(drafts: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert drafts[HEADS[2], ""] == OF_THE_HEAD | TIED


def test_a_head_without_weights_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "head").mkdir()
    said = run(SCRIPT, tmp_path, tmp_path / "head", status=1)
    head = tmp_path / "head"
    assert said == f"prepare_draft: {head}: {head} has no .safetensors, .bin or .pt file\n"
    (head / "pytorch_model.bin").write_bytes(b"half of it")
    said = run(SCRIPT, tmp_path, head, status=1)
    assert said.startswith(f"prepare_draft: {head}: ")
    assert "Traceback" not in said


def test_nothing_is_prepared_for_an_artifact_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "nothing-to-do").touch()
    assert run(SCRIPT, tmp_path, tmp_path / "head") == "nothing to prepare\n"
    assert not (tmp_path / "draft").exists()
