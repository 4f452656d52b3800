"""``generate.sh`` and ``benchmark_medusa.py``, run for real around a program that is no NxDI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from charts.indexes import NEVER
from tests.synthesis import ROOT

SCRIPTS: Final = ROOT / "charts" / "scripts"
DEMO: Final = """\
#!/bin/bash
echo "$@"
echo trouble >&2
[[ ${STATUS:-0} == 0 ]] || exit "$STATUS"
while [[ $1 != --benchmark-report-path ]]; do shift; done
echo '{}' >"$2"
"""
PACKAGES: Final = {
    "neuronx_distributed_inference/__init__.py": "",
    "neuronx_distributed_inference/utils/__init__.py": "",
    "neuronx_distributed_inference/utils/hf_adapter.py": """\
class HuggingFaceGenerationAdapter:
    def _medusa_assisted_decoding(self, input_ids, assistant, criteria, pad, eos, **others):
        print(input_ids, assistant, criteria, pad, eos, others)
""",
    "neuronx_distributed_inference/inference_demo.py": """\
import sys
from neuronx_distributed.utils import medusa_utils
from neuronx_distributed_inference.utils.hf_adapter import HuggingFaceGenerationAdapter

class Tokens(list):
    def clamp(self, min):
        return [max(min, token) for token in self]

def main():
    print(sys.argv, medusa_utils.TOPK)
    adapter = HuggingFaceGenerationAdapter()
    adapter._medusa_assisted_decoding(Tokens([0, 7]), "model", "ends", 5, [], seed=1)
""",
    "neuronx_distributed/__init__.py": "",
    "neuronx_distributed/utils/__init__.py": "",
    "neuronx_distributed/utils/medusa_utils.py": "TOPK = 10\n",
}


class Pod:
    """The container ``generate`` of index 1, on this machine."""

    def __init__(self, root: Path) -> None:
        self.root, self.artifact = root, root / "artifact"
        self.results = root / "results" / "mine-0123abcd" / "variants" / "SD-0a1b2c3d"
        for folder in (root / "config", root / "bin", self.artifact):
            folder.mkdir()
        (root / "config" / "1.folder").write_text("SD-0a1b2c3d\n")
        (root / "config" / "1.generate").write_text("inference_demo\n--prompt\ntwo words\n")
        self.demo = root / "bin" / "inference_demo"
        self.demo.write_text(DEMO)
        self.demo.chmod(0o755)

    def run(self, status: int = 0, expected: int = 0) -> str:
        folders = [str(self.root / name) for name in ("config", "artifact", "results")]
        completed = subprocess.run(
            ["bash", str(SCRIPTS / "generate.sh"), *folders],
            env={
                "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "JOB_COMPLETION_INDEX": "1",
                "RUN_ID": "mine-0123abcd",
                "STATUS": str(status),
            },
            capture_output=True,
            text=True,
        )
        assert completed.returncode == expected, completed.stderr
        return completed.stdout


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def test_report_and_log_are_in_the_variant_s_folder(pod: Pod) -> None:
    printed = pod.run()
    assert (pod.results / "inference_demo.json").read_text() == "{}\n"
    log = (pod.results / "inference_demo.log").read_text()
    assert log.splitlines()[0].startswith("--prompt two words --benchmark-report-path ")
    assert "trouble" in log
    assert log in printed


def test_a_command_line_that_is_refused_is_not_tried_again(pod: Pod) -> None:
    for status, expected in ((2, NEVER), (1, 1), (137, 137)):
        pod.run(status, expected)
    assert (pod.results / "inference_demo.log").exists()
    pod.demo.unlink()
    pod.run(expected=NEVER)


def test_what_is_complete_is_not_run_again(pod: Pod) -> None:
    (pod.artifact / "nothing-to-do").touch()
    assert pod.run() == "nothing to generate\n"
    assert not pod.results.exists()


def _medusa(image: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "benchmark_medusa.py"), *arguments],
        env={"PYTHONPATH": str(image)},
        capture_output=True,
        text=True,
    )


def test_medusa_gets_an_end_token_that_never_comes_and_the_compiled_candidates(
    tmp_path: Path,
) -> None:
    for name, text in PACKAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    completed = _medusa(tmp_path, "run", "--global-topk", "16", "--benchmark")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines() == [
        "['inference_demo', 'run', '--global-topk', '16', '--benchmark'] 16",
        "[1, 7] model ends 5 -1 {'seed': 1}",
    ]


def test_another_nxdi_than_the_one_we_know_is_not_tried_again(tmp_path: Path) -> None:
    completed = _medusa(tmp_path, "run", "--global-topk", "16")
    assert completed.returncode == NEVER
    assert completed.stderr.startswith("benchmark_medusa: this is not the inference_demo we know")
