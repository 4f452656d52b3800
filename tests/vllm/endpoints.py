"""Real vLLM servers on the CPU, started with the charts' own commands, and their model pair.

They compute on one core, since another one may be slower, and so would be what is served on it.
That holds for what answers requests, too. On another core it may have to wait for longer than a
step takes, and vLLM then sends the tokens of two steps at once: seen beside other work, in 2 of 144
steps. Variants are measured in turn, and a server that nobody asks anything takes no time.
"""

import hashlib
import json
import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from experiment import Experiment
from experiment.measurement import TestCase
from experiment.runtimes import Mode
from experiment.variants import variants
from rehearsal import RehearsalError
from rehearsal.endpoints import of_class, prompts_of
from rehearsal.manifest import IndexedJob, read_pod
from rehearsal.processes import START_SECONDS, lasting_port, run
from rehearsal.setting import Caps, Endpoints, Layout, Server, Servers, Setting
from spectap.inputs.config import Structure
from tests.vllm.corpus import Case, Turns
from tests.vllm.server_command import NO_SUCH_DRAFT, Served, server_command

BUILD_SECONDS: Final = 900.0
PYTHON: Final = ".venv-vllm/bin/python"

_PREDICTABLE: Final = 0.7
"""Classes that golden endpoints accept so many drafts of are answered with what is predictable."""

# Everything that determines the result.
_INPUTS: Final = (
    "tests/vllm/build.py",
    "tests/vllm/corpus.py",
    "tests/vllm/parting.py",
    "tests/vllm/requirements.txt",
    "packages/spectap/src/spectap/protocol/text.py",
)


def _servers(setting: Setting, job: IndexedJob | None) -> Servers:
    """By the charts' commands. Makes the model pair, which is a stage.

    Raises RehearsalError or ProcessError.
    """
    experiment, layout = setting.experiment, setting.layout
    for variant in variants(experiment):
        if variant.mode not in (None, Mode.FUSED):
            raise RehearsalError(f"{variant.name}: mode {variant.mode}: {NO_SUCH_DRAFT}")
    home, pair = layout.work / "vllm", folder(experiment, layout)
    home.mkdir(parents=True, exist_ok=True)
    environment, core = setting.serving_environment, max(os.sched_getaffinity(0))
    outside = {name: environment[name] for name in ("PATH", "VLLM_API_KEY") if name in environment}
    servers: dict[str, Server] = {}
    differences: dict[str, list[str]] = {}
    for index, variant in enumerate(variants(experiment)):
        pod = (
            job.server_of(index)
            if job
            else read_pod(layout.manifests, "Deployment", variant.service)
        )
        # vLLM does not report its port if it is told to take any.
        models = (pair / "target", pair / "draft")
        served = Served(layout.root / PYTHON, *models, lasting_port(), core, home)
        server, differences[variant.name] = server_command(pod, served)
        servers[variant.name] = replace(
            server,
            command=("taskset", "--cpu-list", str(core), *server.command),
            environment={**outside, **server.environment},
        )
    if not (layout.root / PYTHON).exists():
        raise RehearsalError(f"{PYTHON}: is missing; make rehearse-vllm sets it up")
    known = pair.is_dir()
    with setting.console.stage("make the model pair", shows_itself=not known) as stage:
        if not known:
            _make(experiment, layout)
        stage.result = os.path.relpath(pair, layout.root)
    return Servers(servers, tuple(_description(differences)))


def _description(of_each: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "vLLM on the CPU, by the charts' commands. Differences from the pods:"
    first, *others = of_each.values()
    common = [line for line in first if all(line in lines for lines in others)]
    yield from common
    for name, lines in of_each.items():
        yield from (f"{name}: {line}" for line in lines if line not in common)


def cases(experiment: Experiment) -> str:
    """The test cases that the pair is trained on, as ``build`` reads them.

    Of a set, each class is a case of its own. Raises RehearsalError.
    """
    tested = experiment.benchmark.test_cases
    return json.dumps([item for case in tested for item in _cases(experiment, case)])


def _cases(experiment: Experiment, case: TestCase) -> Iterator[Case]:
    if case.is_line:
        yield Case(case.line, case.structure is Structure.STRUCTURED)
        return
    by_class: defaultdict[str, list[Turns]] = defaultdict(list)
    for prompt in prompts_of(experiment, case):
        by_class[prompt.prompt_class].append(
            [(str(turn["role"]), str(turn.get("content") or "")) for turn in prompt.messages]
        )
    for name, prompts in by_class.items():
        yield Case(None, of_class(name) >= _PREDICTABLE, prompts)


def folder(experiment: Experiment, layout: Layout) -> Path:
    """Where the model pair is, once it is made. Raises RehearsalError."""
    digest = hashlib.sha256(cases(experiment).encode())
    for name in _INPUTS:
        digest.update(hashlib.sha256((layout.root / name).read_bytes()).digest())
    return layout.root / ".cache" / "pairs" / digest.hexdigest()[:16]


def _make(experiment: Experiment, layout: Layout) -> None:
    pair = folder(experiment, layout)
    unfinished = pair.with_suffix(f".{os.getpid()}")
    trained_on = layout.work / "pair-cases.json"
    trained_on.parent.mkdir(parents=True, exist_ok=True)
    trained_on.write_text(cases(experiment), encoding="utf-8")
    try:
        run(
            [str(layout.root / PYTHON), "-m", "tests.vllm.build", str(unfinished), str(trained_on)],
            {
                **os.environ,
                "PYTHONPATH": f"{layout.root}:{layout.root}/packages/spectap/src",
                "HF_HUB_OFFLINE": "1",
            },
            layout.logs / "build.log",
            BUILD_SECONDS,
            errors_on_terminal=True,
            end_by=signal.SIGTERM,  # on SIGINT it would print a traceback
        )
        unfinished.replace(pair)  # one rename, so that the folder is always complete
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


VLLM: Final = Endpoints(
    name="vLLM on the CPU with a pair of tiny models",
    servers=_servers,
    # The servers have one core: with more sequences at once, a turn takes minutes.
    caps=Caps(concurrency=4, rate_seconds=8, prompts=12, launches=1),
    start_seconds=round(START_SECONDS),
    stages=1,
    drafts_whole_window=True,
    # The load generator wants a core, too.
    at_once=1,
    plays_jobs=False,
)
"""vLLM as PyPI has it, with a model pair made on this machine."""
