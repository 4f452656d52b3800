"""Every mode on every runtime for every family: its command lines, or who runs it instead.

Each row has its commands exactly, and beside them where they were read. ``FAMILY`` and ``MODEL``
stand for the target's. A mode, a runtime or a family that no row knows fails here.
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

# Where the commands were read.
NXDI: Final = (
    "https://github.com/aws-neuron/neuronx-distributed-inference/blob/v0.6.10598/"
    "src/neuronx_distributed_inference/inference_demo.py"
)
NXDI_LATER: Final = NXDI.replace("v0.6.10598", "4bcdc54bf3b6ccdad490e5cd0680a3dc95270b8e")
FORK_LOADER: Final = (
    "https://github.com/vllm-project/vllm/blob/v0.9.1/"
    "vllm/model_executor/model_loader/neuronx_distributed.py"
)
PLUGIN_LOADER: Final = (
    "https://github.com/vllm-project/vllm-neuron/blob/0d6b1cb7/"
    "vllm_neuron/worker/neuronx_distributed_model_loader.py"
)
SDK: Final = (
    "https://github.com/aws-neuron/aws-neuron-sdk/blob/81ce03ae261e12925e53437a0f690478e6366155"
)
FORK_TUTORIAL: Final = f"{SDK}/libraries/nxd-inference/tutorials/sd-inference-tutorial.rst"
FEATURE_GUIDE: Final = f"{SDK}/libraries/nxd-inference/developer_guides/feature-guide.rst"
NEURON_DOCS: Final = f"{SDK}/vllm-neuron/docs"
NEURON_EXAMPLES: Final = "https://github.com/vllm-project/vllm-neuron/blob"

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
    sources: tuple[str, ...]
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
        sources=(NXDI, FORK_LOADER, FORK_TUTORIAL) if fork else (NXDI_LATER, PLUGIN_LOADER),
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
        sources=(NXDI, f"{FEATURE_GUIDE}#L504-L592"),
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
        sources=(
            f"{NEURON_DOCS}/tutorials/tutorial-eagle3-speculative-decoding-llama-3-1.md",
            f"{NEURON_DOCS}/design/vllm/additional-config.md",
        ),
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
        sources=(NXDI, f"{FEATURE_GUIDE}#L594-L631"),
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
        sources=(
            f"{NEURON_EXAMPLES}/09006a447c4e8d9dddaca7d1c707f90482859ba1/"
            "examples/vllm_neuron/models/qwen3/dflash/run_tp4.sh",
            f"{NEURON_EXAMPLES}/fa252127dac2235d4f6c578919039eca92a226c6/"
            "examples/vllm_neuron/models/llama3/dflash/run_tp4.sh",
        ),
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

RUNS: Final = {
    FORK: "fused, eagle, vanilla, medusa",
    PLUGIN: "eagle, eagle3",
    NEURON: "eagle3, dflash",
}
WORKS: Final = {
    "vanilla": f"{FORK} (llama, qwen2, qwen3, as a job)",
    "fused": f"{FORK} (llama, qwen2, qwen3)",
    "eagle": f"{FORK} (llama), {PLUGIN} (llama)",
    "eagle3": f"{PLUGIN} (llama), {NEURON} (llama, qwen3)",
    "medusa": f"{FORK} (llama, as a job)",
    "dflash": f"{NEURON} (llama, qwen3)",
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
        assert refusal(mode, runtime, family) in str(refused.value)
        return
    row = TABLE[mode, runtime]
    deciding = [each for each in variants(parse(text, "mine.yaml")) if not each.matched]
    for index, variant in enumerate(deciding):
        prepare, compiled, run = commands(variant)
        assert prepare == (row.prepare if index else "")
        assert compiled == (filled(row.compile[index], family) if row.compile else None)
        assert run == filled(row.run[index], family)


def refusal(mode: Mode, runtime: str, family: Family) -> str:
    if (mode, runtime) in TABLE:
        works = f"mode {mode} is served by {WORKS[mode]}"
        return f'models.target = "example/{family}": is of family {family}; {works}'
    works = f"{mode} is served by {WORKS[mode]}"
    return f'speculation.mode = "{mode}": runtime {runtime} serves {RUNS[runtime]}; {works}'


def filled(command: str, family: Family) -> str:
    return command.replace("FAMILY", family).replace("MODEL", f"example/{family}")


def test_every_row_says_where_it_was_read() -> None:
    for (mode, runtime), row in TABLE.items():
        assert all(source.startswith("https://github.com/") for source in row.sources)
        assert not any("/blob/main" in source for source in row.sources)
        # One of them is what docs/modes.md shows.
        assert RUNTIMES[runtime].modes[Mode(mode)].source in row.sources


@pytest.mark.parametrize("mode", ["vanilla", "medusa"])
def test_a_job_is_run_with_the_flags_it_was_compiled_with(mode: str) -> None:
    """``inference_demo`` asks the command line, not the artifact, what it is about to run."""
    apart = {
        *("--compile-only", "--skip-compile", "--benchmark", "--model-path"),
        # The heads' folder, which only the compile Job has.
        *("/scratch/target", "/target"),
        *("inference_demo", "python3", "/scripts/benchmark_medusa.py"),
    }
    for compiled, run in zip(TABLE[mode, FORK].compile or (), TABLE[mode, FORK].run, strict=True):
        one, other = ([w for w in words.split() if w not in apart] for words in (compiled, run))
        assert one == other
