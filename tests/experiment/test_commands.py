"""Every mode on every runtime for every family: its command lines, or who runs it instead.

Each row has its commands exactly; where they were read stands beside the mode in ``runtimes``.
``FAMILY`` and ``MODEL`` stand for the target's. A mode, a runtime or a family that no row knows
fails here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import pytest

from experiment import ExperimentError
from experiment.known_models import Family
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Mode, Paths, Preparation, Workload
from experiment.variants import Variant, variants
from tests.experiment.files import ABSENT, edited

FORK, PLUGIN, NEURON = "vllm-0.9.1-nxdi", "vllm-0.16-nxdi", "vllm-neuron-1.x"

# inference_demo of a service: it samples on the device, at the batch of the service.
COMPILED: Final = (
    "--torch-dtype bfloat16 --tp-degree 32 --logical-nc-config 2 --batch-size 4 --ctx-batch-size 1 "
    "--tkg-batch-size 4 --is-continuous-batching --seq-len 1024 --max-context-length 1024 "
    "--padding-side right --enable-bucketing --on-device-sampling --top-k 1 "
    "--save-sharded-checkpoint"
)
# Of a job: batch 1, no buckets.
ALONE: Final = (
    "--torch-dtype bfloat16 --tp-degree 32 --logical-nc-config 2 --batch-size 1 --seq-len 1024 "
    "--max-context-length 1024 --padding-side right --save-sharded-checkpoint"
)
DEMO: Final = "inference_demo --model-type FAMILY --task-type causal-lm run"
MENDED: Final = DEMO.replace("inference_demo", "python3 /scripts/benchmark_medusa.py")
TARGET: Final = "--model-path /target --compiled-model-path /artifact"
COMPILE_ONLY: Final = "--compile-only --prompt x"
SERVE: Final = "vllm serve /target --served-model-name MODEL --port 8000"


@dataclass(frozen=True, kw_only=True)
class Row:
    """The commands of a mode on a runtime, each of the baseline's beside the mode's own."""

    families: str
    changes: Mapping[str, Any]
    """What makes an experiment of it of the article's."""
    prepare: str = ""
    """Of the draft, before it is compiled."""
    compile: tuple[str, str] | None = None
    """None where a first start compiles."""
    run: tuple[str, str]
    """Serves, or generates in a job."""


def nxdi(runtime: str, mode: str, draft: str = "/scratch/draft", **settings: Any) -> Row:
    """A mode of NxDI that vLLM serves: in both generations ``inference_demo`` compiles it."""
    fork = runtime == FORK
    # A prepared draft is served with the configuration that it got.
    served = "/artifact/draft" if "prepare" in settings else draft
    speculative = (
        f'--speculative-config {{{settings["config"]}"model":"{served}",'
        '"num_speculative_tokens":7,"max_model_len":1017}'
    )
    base = (
        f"{SERVE} --tensor-parallel-size 32 --max-num-seqs 4 --max-model-len 1017 "
        f"{'--disable-log-requests' if fork else '--no-enable-prefix-caching'}"
    )
    own = f"--model-path /target --draft-model-path {draft} --compiled-model-path /artifact"
    return Row(
        families=settings["families"],
        changes={"runtime": runtime, "speculation.mode": mode},
        prepare=settings.get("prepare", ""),
        compile=(
            f"{DEMO} {TARGET} {COMPILED} {COMPILE_ONLY}",
            f"{DEMO} {own} {COMPILED} --speculation-length 7 {settings['flags']} {COMPILE_ONLY}",
        ),
        run=(base, f"{base} {settings['override']} {speculative}"),
    )


JOB: Final[dict[str, Any]] = {
    "runtime": FORK,
    "serving.batch": 1,
    "benchmark.concurrency": 1,
    "quality": ABSENT,
}
VANILLA: Final = (
    "--model-path /target --draft-model-path /draft --compiled-model-path /artifact "
    f"--compiled-draft-model-path /artifact/draft {ALONE} --speculation-length 7"
)
ON_DEVICE: Final = f"{ALONE} --on-device-sampling --top-k 1"
TREE: Final = (
    "--is-medusa --medusa-speculation-length 64 --num-medusa-heads 4 --global-topk 16 "
    "--max-new-tokens 400 --medusa-tree-json /scripts/medusa-tree-4.json"
)

GREEDY: Final = '"num_seqs_buckets":[4],"on_device_sampling_config":{"all_greedy":true}'
ONE_PREFILL: Final = (
    "--dtype bfloat16 --max-model-len 1024 --max-num-batched-tokens 1024 --max-num-seqs 4 "
    # 1024 x 4 tokens in blocks of 32, and 176 blocks to spare.
    "--num-gpu-blocks-override 304 --no-enable-prefix-caching"
)
NOT_ASYNC: Final = ("prefix-caching", "prefix-caching --no-async-scheduling")
"""Of a variant that speculates: vLLM turns it off itself."""
EAGLE3_BASE: Final = (
    f"{SERVE} --tensor-parallel-size 32 {ONE_PREFILL} "
    f'--additional-config {{"neuron_config":{{{GREEDY}}}}}'
)
DFLASH_BASE: Final = (
    f"{SERVE} --tensor-parallel-size 4 {ONE_PREFILL} --no-enable-chunked-prefill "
    "--disable-hybrid-kv-cache-manager "
    f'--additional-config {{"neuron_config":{{{GREEDY},"quantization":"bf16"}}}}'
)

TABLE: Final[Mapping[tuple[str, str], Row]] = {
    ("vanilla", FORK): Row(
        families="llama qwen2 qwen3",
        changes=JOB | {"speculation.mode": "vanilla"},
        compile=(
            f"{DEMO} {TARGET} {ALONE} {COMPILE_ONLY}",
            f"{DEMO} {VANILLA} {COMPILE_ONLY}",
        ),
        run=(
            f"{DEMO} {TARGET} {ALONE} --skip-compile --prompt x --benchmark",
            f"{DEMO} {VANILLA} --skip-compile --prompt x --benchmark",
        ),
    ),
    ("fused", FORK): nxdi(
        FORK,
        "fused",
        draft="/draft",
        families="llama qwen2 qwen3",
        flags="--enable-fused-speculation",
        override='--override-neuron-config {"enable_fused_speculation":true}',
        config='"method":"eagle",',
    ),
    ("eagle", FORK): nxdi(
        FORK,
        "eagle",
        families="llama",
        prepare="prepare_draft.py eagle /draft /target",
        flags="--enable-eagle-speculation",
        override='--override-neuron-config {"enable_eagle_speculation":true}',
        config="",
    ),
    ("eagle", PLUGIN): nxdi(
        PLUGIN,
        "eagle",
        families="llama",
        prepare="prepare_draft.py eagle /draft /target",
        flags="--enable-eagle-speculation",
        override='--additional-config {"override_neuron_config":{"enable_eagle_speculation":true}}',
        config='"method":"eagle",',
    ),
    ("eagle3", PLUGIN): nxdi(
        PLUGIN,
        "eagle3",
        families="llama",
        prepare="prepare_draft.py eagle3 /draft /target",
        flags="--enable-eagle-speculation --is-eagle3 --enable-eagle-draft-input-norm",
        override='--additional-config {"override_neuron_config":{"enable_eagle_speculation":true,'
        '"is_eagle3":true,"enable_eagle_draft_input_norm":true}}',
        config='"method":"eagle",',
    ),
    ("eagle3", NEURON): Row(
        families="llama qwen3",
        changes={
            "runtime": NEURON,
            "speculation.mode": "eagle3",
            "speculation.num_speculative_tokens": 3,
        },
        run=(
            EAGLE3_BASE,
            f"{EAGLE3_BASE.replace(*NOT_ASYNC)} --speculative-config "
            '{"method":"eagle3","model":"/draft","num_speculative_tokens":3}',
        ),
    ),
    ("medusa", FORK): Row(
        families="llama",
        changes=JOB
        | {"speculation.mode": "medusa", "speculation.num_speculative_tokens": 4}
        | {"benchmark.mean_output_tokens": 400},
        prepare="prepare_medusa.py /draft /target 4",
        compile=(
            f"{DEMO} {TARGET} {ON_DEVICE} --max-new-tokens 400 {COMPILE_ONLY}",
            f"{DEMO} --model-path /scratch/target --compiled-model-path /artifact {ON_DEVICE} "
            f"{TREE} {COMPILE_ONLY}",
        ),
        run=(
            f"{DEMO} {TARGET} {ON_DEVICE} --max-new-tokens 400 --skip-compile --prompt x "
            "--benchmark",
            f"{MENDED} {TARGET} {ON_DEVICE} {TREE} --skip-compile --prompt x --benchmark",
        ),
    ),
    ("dflash", NEURON): Row(
        families="llama qwen3",
        changes={
            "runtime": NEURON,
            "speculation.mode": "dflash",
            "speculation.num_speculative_tokens": 15,
            "serving.devices": 1,
            "serving.tensor_parallel": 4,
        },
        run=(
            DFLASH_BASE,
            f"{DFLASH_BASE.replace(*NOT_ASYNC)} --speculative-config "
            '{"method":"dflash","model":"/draft","num_speculative_tokens":15}',
        ),
    ),
}

KINDS: Final = {
    "vanilla": "causal-lm",
    "fused": "causal-lm",
    "eagle": "eagle-head",
    "eagle3": "eagle3-head",
    "medusa": "medusa-heads",
    "dflash": "dflash-draft",
}


def model(name: str, family: Family, kind: str, gib: float) -> dict[str, Any]:
    figures = {"vocabulary": 128, "layers": 8, "hidden": 64, "kv_heads": 8, "head_dim": 64}
    rest = {"tied_embeddings": False, "max_length": 4096, "checkpoint_gib": gib}
    fixed = {"drafts": 15} if kind == "dflash-draft" else {}
    architecture = {"kind": kind, "family": family, **figures, **rest, **fixed}
    return {"id": f"example/{name}", "revision": "1" * 40, "architecture": architecture}


def experiment(mode: Mode, runtime: str, family: Family) -> str:
    """The article's experiment with a target of ``family``, in ``mode`` on ``runtime``."""
    row = TABLE.get((mode, runtime))
    changes = row.changes if row else {"runtime": runtime, "speculation.mode": mode}
    target = model(family, family, "causal-lm", 8.0)
    draft = model("draft", family, KINDS[mode], 1.0)
    return edited({"models.target": target, "models.draft": draft, **changes})


def commands(variant: Variant) -> tuple[str, str | None, str]:
    """What prepares the draft, what compiles, and what runs."""
    runtime, draft = variant.runtime, "/draft" if variant.draft else None
    paths = Paths("/target", draft, "/artifact", "/scratch", "/scripts")
    compiles = runtime.preparation is Preparation.COMPILE_JOB
    if variant.experiment.workload is Workload.JOB:
        run = runtime.generate_command(variant, paths)
    else:
        run = runtime.serve_command(variant, paths, 8000)
    return (
        " ".join(runtime.draft_command(variant, paths)),
        " ".join(runtime.compile_command(variant, paths)) if compiles else None,
        " ".join(run),
    )


ALL: Final = [*product(Mode, RUNTIMES, Family)]
WORKING: Final = [
    (mode, runtime, Family(family))
    for (mode, runtime), row in TABLE.items()
    for family in row.families.split()
]


@pytest.mark.parametrize(("mode", "runtime", "family"), ALL)
def test_a_combination_has_its_commands_or_says_what_works(
    mode: Mode, runtime: str, family: Family
) -> None:
    text = experiment(mode, runtime, family)
    if (mode, runtime, family) not in WORKING:
        with pytest.raises(ExperimentError) as refused:
            parse(text, "mine.yaml")
        job = ", as a job" if mode in ("vanilla", "medusa") else ""
        able = {
            r: TABLE[mode, r].families.replace(" ", ", ") for r in RUNTIMES if (mode, r) in TABLE
        }
        works = ", ".join(f"{name} ({families}{job})" for name, families in able.items())
        field = "models.target" if runtime in able else "speculation.mode"
        assert f"{field} = " in str(refused.value)
        assert f"{mode} is served by {works}" in str(refused.value)
        return
    row = TABLE[mode, runtime]
    deciding = [each for each in variants(parse(text, "mine.yaml")) if not each.matched]
    for index, variant in enumerate(deciding):
        prepare, compiled, run = commands(variant)
        assert prepare == (row.prepare if index else "")
        assert compiled == (filled(row.compile[index], family) if row.compile else None)
        assert run == filled(row.run[index], family)


def filled(command: str, family: Family) -> str:
    return command.replace("FAMILY", family).replace("MODEL", f"example/{family}")
