"""An EAGLE head becomes a draft: with real PyTorch, on checkpoints of a few numbers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from charts import scripts
from tests.synthesis import ROOT

PYTHON: Final = ROOT / ".venv-vllm" / "bin" / "python"
SCRIPT: Final = Path(scripts.__file__).parent / "prepare_draft.py"

# In the other environment, which has PyTorch: writes a head and a target, reads a draft.
MAKE: Final = """
import json, sys, torch
from pathlib import Path
from safetensors.torch import save_file
scratch, name, tied = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "tied"
head, target = scratch / "head", scratch / "target"
head.mkdir(); target.mkdir()
weights = {"fc.weight": torch.full((2, 4), 3.0), "embed_tokens.weight": torch.ones(5, 2)}
save = save_file if name.endswith("safetensors") else torch.save
save(weights, head / name)
(head / "config.json").write_text('{"model_type": "llama"}')
output = {"model.embed_tokens.weight": torch.full((5, 2), 7.0, dtype=torch.bfloat16)}
if not tied:
    output["lm_head.weight"] = torch.full((5, 2), 9.0, dtype=torch.bfloat16)
files = {key: f"model-{i}.safetensors" for i, key in enumerate(output)}
for key, file in files.items():
    save_file({key: output[key]}, target / file)
(target / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
"""
READ: Final = """
import json, sys
from safetensors.torch import load_file
tensors = load_file(sys.argv[1])
print(json.dumps({k: [str(v.dtype), list(v.shape), float(v.max())] for k, v in tensors.items()}))
"""


def run(*arguments: str | Path, status: int = 0) -> str:
    done = subprocess.run(
        [PYTHON, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def draft(scratch: Path) -> dict[str, list[object]]:
    found: dict[str, list[object]] = json.loads(
        run("-c", READ, scratch / "draft" / "model.safetensors")
    )
    return found


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "eagle_head.pt"])
def test_the_targets_output_head_is_copied_in(name: str, tmp_path: Path) -> None:
    run("-c", MAKE, tmp_path, name, "untied")
    run(SCRIPT, tmp_path, tmp_path / "head", tmp_path / "target")
    assert draft(tmp_path) == {
        "embed_tokens.weight": ["torch.float32", [5, 2], 1.0],
        "fc.weight": ["torch.float32", [2, 4], 3.0],
        "lm_head.weight": ["torch.bfloat16", [5, 2], 9.0],
    }
    assert (tmp_path / "draft" / "config.json").read_text() == '{"model_type": "llama"}'


def test_of_a_target_whose_embeddings_are_tied_these_are_it(tmp_path: Path) -> None:
    run("-c", MAKE, tmp_path, "model.safetensors", "tied")
    run(SCRIPT, tmp_path, tmp_path / "head", tmp_path / "target")
    assert draft(tmp_path)["lm_head.weight"] == ["torch.bfloat16", [5, 2], 7.0]


def test_an_eagle3_head_keeps_what_it_has(tmp_path: Path) -> None:
    run("-c", MAKE, tmp_path, "eagle_head.pt", "untied")
    run(SCRIPT, tmp_path, tmp_path / "head")
    assert set(draft(tmp_path)) == {"fc.weight", "embed_tokens.weight"}


def test_a_head_without_weights_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "head").mkdir()
    said = run(SCRIPT, tmp_path, tmp_path / "head", status=1)
    assert said == f"prepare_draft: {tmp_path}/head has no .safetensors, .bin or .pt file\n"


def test_nothing_is_prepared_for_an_artifact_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "nothing-to-do").touch()
    assert run(SCRIPT, tmp_path, tmp_path / "head") == "nothing to prepare\n"
    assert not (tmp_path / "draft").exists()
