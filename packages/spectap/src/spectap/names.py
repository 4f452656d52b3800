"""Names that the benchmark writes, and that dashboards, alarms and policies read.

The namespace and the dimensions Variant and TestCase are the published sample's
(aws-neuron-eks-samples, ``speculative_decoding_trn2_vllm/qwen-llmperf-pod.yaml``).
"""

import re
from enum import StrEnum
from typing import Final

NAMESPACE_SUFFIX: Final = "/LLMPerf"


class Engine(StrEnum):
    """vLLM's two engines, which count differently: see ``spectap.endpoint.counters``."""

    V0 = "v0"
    V1 = "v1"


def name_prefix(model: str) -> str:
    """The prefix of the names of a model's services: ``qwen`` for ``Qwen/Qwen3-32B``.

    The leading letters of its name in lower case, 16 at most; ``model`` where there are none.
    """
    name = model.rpartition("/")[2]
    letters = re.match("[A-Za-z]{0,16}", name)
    return (letters[0].lower() if letters else "") or "model"


def namespace(model: str) -> str:
    """The CloudWatch namespace of a model's metrics: ``Qwen/LLMPerf`` for ``Qwen/Qwen3-32B``."""
    return name_prefix(model).capitalize() + NAMESPACE_SUFFIX


EXPERIMENT_DIMENSION: Final = "Experiment"
VARIANT_DIMENSION: Final = "Variant"
TEST_CASE_DIMENSION: Final = "TestCase"
LOAD_DIMENSION: Final = "Load"
"""Its value is a load point's name. Experiments with several load points have it."""

# A client tells the tap by these headers what the ledger should know. The tap does not pass them.
PROMPT_HEADER: Final = "X-Benchmark-Prompt"
"""The name of the prompt, percent-encoded."""
CLASS_HEADER: Final = "X-Benchmark-Class"
"""The prompt's class, percent-encoded."""
DUE_HEADER: Final = "X-Benchmark-Due"
"""When the request was to be sent, in Unix seconds."""
BEYOND_HEADER: Final = "X-Benchmark-Beyond"
"""Filler request, which keeps the load up; excluded from figures as the warm-up is."""
LAG_HEADER: Final = "X-Benchmark-Lag"
"""The mean wait of an event for the client's own loop so far, in seconds."""
TAP_HEADERS: Final = (PROMPT_HEADER, CLASS_HEADER, DUE_HEADER, BEYOND_HEADER, LAG_HEADER)
"""The headers that the tap reads and does not send on."""

WARM_UP: Final = 0
"""The round of the warm-up. No figure uses it, or any lower round."""
CONTROL: Final = -1
"""The round of control loads, which a variant that is measured alone sends first and last."""
LAUNCH: Final = -2
"""The round that marks a launch's line in ``progress.jsonl``, whose ``attempt`` is the launch."""
MEASURE: Final = "measure"
"""The experiment's name in runs of ``spectap measure``."""

# A run's folder.
CONFIG: Final = "config.json"
LEDGER: Final = "ledger.jsonl"
PROGRESS: Final = "progress.jsonl"
LLMPERF: Final = "llmperf"
PROMPTS: Final = "prompts.json"
ANSWERS: Final = "answers.jsonl"
SUMMARY: Final = "summary.json"
REPORT: Final = "report.html"

COMPLETE: Final = "_COMPLETE"
"""The mark of a complete folder; it is written last."""
VARIANTS: Final = "variants"
"""The folder, in a run of isolated variants, that has a run's folder for each variant."""
SWEEP: Final = "sweep.json"
"""The configuration with all variants, beside VARIANTS. Each variant's folder has its own."""
MERGED: Final = "merged.json"
"""The variants that are in the run and those that are missing, beside VARIANTS."""

# Of a variant that runs as a job, in its folder.
INFERENCE_DEMO: Final = "inference_demo.json"
"""The report that inference_demo's own ``--benchmark`` writes, as it writes it."""
INFERENCE_DEMO_LOG: Final = "inference_demo.log"
"""The output of inference_demo."""
INFERENCE_DEMOS: Final = "inference_demo"
"""The folder, in a run, with report and log of each variant, named after it."""

RESULTS_PREFIX: Final = "results/"

RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""The names that a run may have. Names of people, folders and buckets are checked alike, because
whoever may write to a bucket names its keys."""


def load_results(case: str, variant: str, round: int, attempt: int = 1, load: str = "") -> str:
    """The folder, in a run's folder, for the load generator's own files of one attempt.

    ``load`` is the name of the load point, empty as it is in the ledger.
    """
    repeated = "" if attempt == 1 else f"-attempt-{attempt}"
    at = f"{load}/" if load else ""
    turn = "control" if round == CONTROL else f"round-{round}"
    return f"{LLMPERF}/{case}/{at}{variant}/{turn}{repeated}"


def variant_run(run_id: str, folder: str) -> str:
    """The run id of one isolated variant: the path of its folder."""
    return f"{run_id}/{VARIANTS}/{folder}"


def is_path(name: str) -> bool:
    """Whether a relative path stays below its folder: no part is empty, ``.`` or ``..``."""
    return not {*name.split("/")} & {"", ".", ".."}


def results_key(run_id: str, name: str) -> str:
    """The object key of the file ``name`` of one run: ``results/<run id>/<name>``."""
    return f"{RESULTS_PREFIX}{run_id}/{name}"
