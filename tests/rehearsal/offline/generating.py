"""Runs ``charts/scripts/generate.py`` with the golden NxDI, by a rendered variant's command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from charts import scripts
from charts.offline import generate_command, generate_environment
from experiment import Experiment
from experiment.loader import parse
from experiment.variants import Variant, variants
from rehearsal.golden.acceptances import by_text
from rehearsal.offline.nxdi.device import TRUTH
from rehearsal.offline.offline import truths
from rehearsal.offline.pods import STUB
from tests.experiment.files import VANILLA, edited
from tests.synthesis import ROOT

GENERATE: Final = ROOT / "charts" / "scripts" / "generate.py"
TOKENS: Final = 100

MEDUSA: Final[dict[str, Any]] = VANILLA | {
    "models.target": {
        "id": "lmsys/vicuna-7b-v1.3",
        "revision": "236eeeab96f0dc2e463f2bebb7bb49809279c6d6",
    },
    "models.draft": {
        "id": "FasterDecoding/medusa-vicuna-7b-v1.3",
        "revision": "82ac200bf7502419cb49a9e0adcbebe3d1d293f1",
    },
    "speculation.mode": "medusa",
    "speculation.num_speculative_tokens": 4,
}
MODES: Final = {"vanilla": VANILLA, "medusa": MEDUSA}


def prompts(experiment: Experiment) -> list[str]:
    """One that most drafts are accepted for, one that half are, and one whose answer has an end."""
    known = by_text(experiment)
    open_ended, structured = (choose(known, key=lambda text: known[text]) for choose in (min, max))
    return [f"Say it: {structured}", f"Say it: {open_ended}", "Answer in JSON: who are you?"]


def experiment(mode: str) -> Experiment:
    """The article's, with that mode in place of its own."""
    return parse(edited(MODES[mode]), "mine.yaml")


def pair(mode: str) -> tuple[Variant, Variant]:
    """A baseline and what is compared with it."""
    base, speculative = variants(experiment(mode))
    return base, speculative


@dataclass(frozen=True)
class Generated:
    """What was left."""

    status: int
    said: str
    generations: list[dict[str, Any]]
    record: list[list[int]]
    """Tokens of each step, by the golden NxDI's own account."""
    report: dict[str, Any] | None
    """inference_demo's own."""


def generated(
    variant: Variant,
    folder: Path,
    *,
    more: Sequence[str] = (),
    packages: Path | None = STUB,
) -> Generated:
    """Generates an answer to each prompt. ``more`` ends the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = [_asked(number, prompt) for number, prompt in enumerate(prompts(variant.experiment))]
    (folder / "generate.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    for part in variant.runtime.artifact_parts(variant):
        (folder / "artifact" / part).mkdir(parents=True, exist_ok=True)
    for name, text in scripts.read().items():
        (folder / name).write_text(text)
    truth = truths(variant.experiment)[variant.name]
    record = folder / "steps.jsonl"
    replace(truth, speed=1000, record=str(record)).write(folder / "truth.json")
    words = [_here(word, folder) for word in generate_command(variant)]
    done = subprocess.run(
        [sys.executable, str(GENERATE), str(folder), "--", *words, *more],
        env={
            **os.environ,
            **generate_environment(variant),
            "PYTHONPATH": os.pathsep.join(map(str, filter(None, (ROOT, packages)))),
            TRUTH: str(folder / "truth.json"),
        },
        cwd=folder,
        capture_output=True,
        text=True,
    )
    report = folder / "inference_demo.json"
    return Generated(
        done.returncode,
        done.stdout + done.stderr,
        [*map(json.loads, _lines(folder / "generations.jsonl"))],
        [*map(json.loads, _lines(record))],
        json.loads(report.read_bytes()) if report.exists() else None,
    )


def _asked(number: int, prompt: str) -> dict[str, Any]:
    return {
        **{"case": "c", "load": "", "round": 1, "attempt": 1},
        **{"prompt": f"p{number}", "prompt_class": "", "max_tokens": TOKENS},
        "messages": [{"role": "user", "content": prompt}],
        "chat_template_kwargs": {},
    }


def _here(word: str, folder: Path) -> str:
    for path in ("/artifact", "/scripts"):
        if word.startswith(path):
            return str(folder / ("artifact" if path == "/artifact" else "")) + word[len(path) :]
    return word


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
