"""Bad experiment files: each is refused in one line, with the field, its line and a key word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiment import ExperimentError, load
from experiment.known_models import KNOWN_MODELS
from experiment.loader import MOST_SHOWN, parse
from spectap.printing import printable
from tests.experiment.files import (
    ABSENT,
    ARTICLE_TEXT,
    EAGLE,
    EAGLE3_HEAD,
    EAGLE_HEAD,
    LLAMA,
    ON_TRAINIUM,
    QWEN3_HEAD,
    SMALL_DRAFT,
    VANILLA,
    edited,
    edited_data,
    field_of_error,
    line_of_error,
    lines_of,
    of_file,
    replaced,
    swept,
)

Row = tuple[dict[str, Any], str, str]
"""Changes of the article's file, the field that is refused, and a key word of the reason."""

ARCHITECTURE: dict[str, Any] = LLAMA["architecture"]
MEDUSA_HEADS: dict[str, Any] = KNOWN_MODELS["FasterDecoding/medusa-vicuna-7b-v1.3"].model_dump(
    mode="json"
)
KNOWN_HEADS = {"id": "FasterDecoding/medusa-vicuna-7b-v1.3", "revision": "1" * 40}
OWN_BLOCK = {"kind": "dflash-draft", "family": "qwen3", "hidden": 4096, "max_length": 131072}
SMALL: dict[str, Any] = LLAMA | {"id": "example/small"}
SMALL_VICUNA: dict[str, Any] = {
    "id": "example/small-vicuna",
    "revision": "1" * 40,
    "architecture": ARCHITECTURE
    | {"vocabulary": 32000, "max_length": 2048, "tied_embeddings": False},
}
CASE = "benchmark.test_cases.3"
SET: dict[str, Any] = {"name": "code", "set": "humaneval"}
TOOLS: dict[str, Any] = {"name": "tools", "set": "bfcl"}
LADDER: dict[str, Any] = {"benchmark.concurrency": ABSENT, "benchmark.requests": ABSENT}
SWEEP: dict[str, Any] = swept()

TEXTS = [
    ("name: article", "- name", "aws:", "block"),
    ("  limit: 50", "  limit: 50\n   more: 5", "more: 5", "mapping values are not allowed"),
    ("aws:\n  region:", "aws:\n\tregion:", "\tregion:", "cannot start any token"),
    ("name: article", "name: article\nname: other", "name: other", "duplicate key"),
    ("[us-east-2a, us-east-2c]", "[us-east-2a, us-east-2c", "api_access", "flow sequence"),
    ("name: article", "name: {{ name }}", "name: {{", "unhashable key"),
    ("name: article", "name: *article", "name: *article", "undefined alias"),
    ("  limit: 50", "  <<: 50", "<<: 50", "for merging"),
    ("name: article", "name: !!python/name:os.system", "os.system", "constructor"),
    ("limit: 50", "limit: !!int fifty", "fifty", "no valid int"),
    ("limit: 50", f"limit: {'9' * 5000}", "limit: 99", "no valid int"),
    ('line: "a"', r'line: "a\e[2J"', "[2J", "no valid str"),
    ("name: article", "name: article # \a", "\a", "special characters"),
    ("api_access: []", f"api_access: {'[' * 500}{']' * 500}", "[[[", "maximum depth"),
    ("  limit: 50", "  limit 50", "quality:", "quality"),
    ("name: article", "name: article\n5: x", "5: x", "unknown key"),
    ("35.7608", ".nan", ".nan", "finite"),
    ("2026-05-21", "2026-05-32", "05-32", "capacity.price.as_of"),
    ("headline: true\n    - name: mean", "headline: yes\n    - name: mean", "yes", "boolean"),
    ("name: article", 'name: article\n"a\\nb": 1', "nb", "unknown key"),
]
"""Words of the article's file, what replaces them, what the refused line holds, and a key word."""

PLACES = [
    (
        "devices: 8\n  logical_core_size: 2",
        "devices: &eight 8\n  logical_core_size: *eight",
        "&eight",
        "serving.logical_core_size",
    ),
    (
        "devices: 8\n  logical_core_size: 2",
        "devices: &eight 8\n  logical_core_size: 2\n  cores: *eight",
        "cores: *eight",
        "serving.cores",
    ),
    (
        "quality:\n  limit: 50",
        "quality:\n  <<: {limit: 50}\n\n  limit: 5000",
        "limit: 5000",
        "quality.limit",
    ),
    ("quality:\n  limit: 50", "quality:\n  <<:\n    limit: 5000", "limit: 5000", "quality.limit"),
    ("aws:\n  region: us-east-2\n", "aws:\n", "aws:", "aws.region"),
    (
        "num_speculative_tokens: 7",
        "num_speculative_tokens: 1",
        "num_speculative_tokens: 1",
        "speculation.num_speculative_tokens",
    ),
    (
        "  mode: fused\n  num_speculative_tokens: 7",
        "  - mode: fused\n    num_speculative_tokens: 1",
        "num_speculative_tokens: 1",
        "speculation[0].num_speculative_tokens",
    ),
]
"""As above; the key word is the field, as the file spells it."""

TYPES: list[Row] = [
    ({"serving": ABSENT}, "serving", "required"),
    ({f"{CASE}.line": ABSENT}, "benchmark.test_cases[3].line", "must"),
    ({"extra": 1}, "extra", "unknown key"),
    ({"aws.api_acess": []}, "aws.api_acess", "unknown key"),
    ({"serving.length": ABSENT, "serving.lenght": 1024}, "serving.length", "required"),
    ({f"{CASE}.headlines": True}, "benchmark.test_cases[3].headlines", "unknown key"),
    ({"name": 32}, "name", "string"),
    ({f"{CASE}.line": ""}, "benchmark.test_cases[3].line", "character"),
    ({"serving.batch": "4"}, "serving.batch", "integer"),
    ({"serving.batch": 4.0}, "serving.batch", "integer"),
    ({"quality.limit": 0}, "quality.limit", "1"),
    ({"quality.limit": 1320}, "quality.limit", "1319"),
    ({"capacity.price.as_of": "2126-01-01"}, "capacity.price.as_of", "future"),
    ({"aws.availability_zones": "us-east-2c"}, "aws.availability_zones", "valid"),
    ({"capacity.purchase": "rent"}, "capacity.purchase", "capacity-block"),
    ({"name": "My Experiment"}, "name", "2"),
    ({"aws.api_access": ["10.1.0.0/16"]}, "aws.api_access[0]", "private"),
    ({"aws.region": "cn-north-1"}, "aws.region", "partition"),
    ({"serving.batch": 256, "serving.length": 40960}, "serving.batch", "sequences"),
    ({"alerts.emails": ["a@example.org", "a@example.org"]}, "alerts.emails[1]", "duplicated"),
    ({"benchmark.image": "registry.example.com/benchmark"}, "benchmark.image", "digest"),
    ({"alerts.idle_minutes": 17}, "alerts.idle_minutes", "multiple"),
    ({"benchmark.test_cases.0.line": "   "}, "benchmark.test_cases[0].line", "whitespace"),
    ({"models.target.id": "Qwen3-32B"}, "models.target.id", "organisation"),
    ({"models.target.revision": "main"}, "models.target.revision", "hexadecimal"),
]

RULES: list[Row] = [
    ({"aws.region": "us-west-2"}, "aws.availability_zones[0]", "us-west-"),
    (
        {"aws.availability_zones": ["us-east-2c", "us-east-2c"]},
        "aws.availability_zones[1]",
        "duplicated",
    ),
    (
        {"capacity.availability_zone": "us-east-2b"},
        "capacity.availability_zone",
        "aws.availability_zones",
    ),
    ({"aws.api_access": ["203.0.113.7/24"]}, "aws.api_access[0]", "host"),
    ({"aws.api_access": ["203.0.313.0/24"]}, "aws.api_access[0]", "permitted"),
    ({"capacity.purchase": "capacity-block"}, "capacity.reservation_id", "required"),
    ({"runtime": "vllm-0.29"}, "runtime", "vllm-neuron-"),
    ({"runtime": "vllm-0.16-nxdi"}, "speculation.mode", "runtime"),
    ({"models.target.id": "meta-llama/Llama-3.3-70B"}, "models.target.architecture", "required"),
    ({"models.target": EAGLE_HEAD}, "models.target", "eagle-head"),
    (EAGLE | {"models.draft": LLAMA}, "models.draft", "eagle-head"),
    ({"speculation.mode": "eagle", "models.draft": QWEN3_HEAD}, "models.target", "family"),
    (
        of_file("eagle3-nxdi")
        | {
            "models.draft": {
                "id": "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
                "revision": "f4fa34a8f803a0ba75d048d6b3dbc1ad5149e9ac",
            }
        },
        "models.draft",
        "norm_before_residual",
    ),
    (
        EAGLE
        | {
            "runtime": "vllm-0.16-nxdi",
            "speculation.mode": "eagle3",
            "models.draft": EAGLE3_HEAD
            | {"architecture": EAGLE3_HEAD["architecture"] | {"norm_before_residual": True}},
        },
        "models.draft",
        "norm_before_residual",
    ),
    (
        of_file("dflash") | {"speculation.num_speculative_tokens": 8},
        "speculation.num_speculative_tokens",
        "9",
    ),
    (
        of_file("dflash")
        | {
            "models.draft": {"id": "example/block", "revision": "1" * 40}
            | {"architecture": EAGLE3_HEAD["architecture"] | OWN_BLOCK}
        },
        "models.draft.architecture.drafts",
        "required",
    ),
    (
        of_file("medusa")
        | {
            "models.draft.architecture": MEDUSA_HEADS | {"drafts": 3},
            "models.draft.id": "example/heads",
        },
        "speculation.num_speculative_tokens",
        "3",
    ),
    (
        EAGLE
        | {
            "models.draft": EAGLE_HEAD
            | {
                "architecture": EAGLE_HEAD["architecture"]
                | {"trained_for": "meta-llama/Meta-Llama-3-70B-Instruct"}
            }
        },
        "models.draft",
        "Meta-Llama-",
    ),
    ({"models.draft": LLAMA}, "models.draft", "vocabulary"),
    ({"models.draft.id": "Qwen/Qwen3-32B"}, "models.draft", "weights"),
    ({"speculation.num_speculative_tokens": 1}, "speculation.num_speculative_tokens", "2"),
    ({"serving.tensor_parallel": 64}, "serving.tensor_parallel", "32"),
    (
        of_file("eagle3") | {"serving.tensor_parallel": 32},
        "serving.tensor_parallel",
        "logical_core_size",
    ),
    (
        {"serving.devices": 16, "serving.logical_core_size": 1, "serving.tensor_parallel": 64},
        "serving.logical_core_size",
        "logical_core_size",
    ),
    ({"serving.length": 40961}, "serving.length", "40960"),
    (EAGLE | {"models.draft.architecture.max_length": 512}, "serving.length", "512"),
    ({"benchmark.mean_output_tokens": 947}, "benchmark.mean_output_tokens", "deviations"),
    ({"benchmark.mean_input_tokens": 40}, "benchmark.mean_input_tokens", "41"),
    ({"benchmark.concurrency": 5, "benchmark.requests": 8}, "benchmark.concurrency", "4"),
    ({"benchmark.rounds": 0}, "benchmark.rounds", "1"),
    ({"benchmark.rounds": 101}, "benchmark.rounds", "100"),
    (
        {"benchmark.rounds": {"at_least": 2, "at_most": 30, "half_width": 0.05}},
        "benchmark.rounds.at_least",
        "3",
    ),
    (
        {"benchmark.rounds": {"at_least": 9, "at_most": 4, "half_width": 0.05}},
        "benchmark.rounds.at_least",
        "4",
    ),
    (
        {"benchmark.rounds": {"at_least": 4, "at_most": 30}},
        "benchmark.rounds.half_width",
        "required",
    ),
    (
        {"benchmark.rounds": {"at_least": 4, "at_most": 4, "half_width": 0.05}},
        "benchmark.rounds.half_width",
        "absent",
    ),
    ({"benchmark.temperature": 0.7}, "benchmark.temperature", "0"),
    ({f"{CASE}.name": "counting"}, "benchmark.test_cases[3]", "duplicated"),
    ({"benchmark.test_cases.0.headline": False}, "benchmark.test_cases", "structured"),
    ({"benchmark.test_cases.1": ABSENT}, "benchmark.test_cases", "open-ended"),
    ({f"{CASE}.headline": True}, "benchmark.test_cases[3].headline", "meaning-of-life"),
]

LOADS: list[Row] = [
    (LADDER, "benchmark.concurrency", "required"),
    ({"benchmark.requests": ABSENT}, "benchmark.requests", "required"),
    ({"benchmark.load": [{"concurrency": 2}]}, "benchmark.concurrency", "required"),
    (LADDER | {"benchmark.load": [{"requests": 4}]}, "benchmark.load[0]", "concurrency"),
    (
        LADDER
        | {"benchmark.load": [{"concurrency": 4, "rate": 0.5, "seconds": 60, "requests": 8}]},
        "benchmark.load[0]",
        "concurrency",
    ),
    (
        LADDER | {"benchmark.load": [{"concurrency": 4, "requests": 4, "seconds": 60}]},
        "benchmark.load[0].seconds",
        "absent",
    ),
    (LADDER | {"benchmark.load": [{"rate": 1}]}, "benchmark.load[0].seconds", "required"),
    (LADDER | {"benchmark.load": [{"rate": 0.1, "seconds": 5}]}, "benchmark.load[0].seconds", "10"),
    (
        LADDER | {"benchmark.load": [{"rate": 1, "seconds": 700}]},
        "benchmark.load[0].seconds",
        "600",
    ),
    (
        LADDER
        | {
            "benchmark.load": [
                {"concurrency": 2, "requests": 4},
                {"rate": 0.5, "seconds": 60},
                {"concurrency": 2, "requests": 8},
                {"rate": 0.5, "seconds": 30},
            ]
        },
        "benchmark.load[2]",
        "duplicated",
    ),
    (
        LADDER
        | {
            "benchmark.load": [
                {"concurrency": 16, "requests": 16},
                {"concurrency": 8, "requests": 8},
            ]
        },
        "benchmark.load[1].concurrency",
        "4",
    ),
]

PROMPTS: list[Row] = [
    ({CASE: SET | {"set": "gsm8k"}}, "benchmark.test_cases[3].set", "humaneval"),
    ({f"{CASE}.set": "mt-bench"}, "benchmark.test_cases[3].set", "must"),
    (
        {CASE: SET | {"structure": "structured", "headline": True}},
        "benchmark.test_cases[3].structure",
        "absent",
    ),
    ({f"{CASE}.structure": ABSENT}, "benchmark.test_cases[3].structure", "required"),
    ({"benchmark.mean_input_tokens": ABSENT}, "benchmark.mean_input_tokens", "required"),
    (
        {f"{CASE}.classes": ["coding"], f"{CASE}.limit": 3},
        "benchmark.test_cases[3].classes",
        "absent",
    ),
    (
        {CASE: TOOLS | {"classes": ["parallel", "java", "parallel"]}},
        "benchmark.test_cases[3].classes[2]",
        "duplicated",
    ),
    (
        {CASE: {"name": "own", "file": "../prompts.jsonl"}},
        "benchmark.test_cases[3].file",
        "experiment",
    ),
    ({CASE: {"name": "own", "file": "no-such.jsonl"}}, "benchmark.test_cases[3].file", "no-such"),
    (EAGLE | {CASE: TOOLS}, "benchmark.test_cases[3].set", "parser"),
    ({"benchmark.objectives": {}}, "benchmark.objectives", "ttft_p"),
    (
        {"benchmark.objectives": {"ttft_p90_ms": 1000, "e2e_p90_ms": 900}},
        "benchmark.objectives",
        "ttft_p",
    ),
]

SWEEPS: list[Row] = [
    ({"speculation": ABSENT}, "speculation", "required"),
    ({"quality": ABSENT}, "quality", "required"),
    ({"sweep": {"mode": "fused", "windows": [7], "at_most_usd": 9}}, "sweep", "absent"),
    (SWEEP | {"quality": {"limit": 50}}, "quality", "absent"),
    (
        SWEEP | {"benchmark.rounds": {"at_least": 4, "at_most": 30, "half_width": 0.05}},
        "benchmark.rounds",
        "comparison",
    ),
    (SWEEP | {"sweep.mode": "dflash", "sweep.windows": [3, 7]}, "sweep.mode", "vllm-neuron-"),
    (SWEEP | {"sweep.windows": [7, 3, 7]}, "sweep.windows[2]", "duplicated"),
    (SWEEP | {"sweep.batches": [4, 4]}, "sweep.batches[1]", "duplicated"),
    (SWEEP | {"sweep.drafts": [SMALL_DRAFT, SMALL_DRAFT]}, "sweep.drafts[1]", "duplicated"),
    (
        SWEEP | {"sweep.drafts": [SMALL_DRAFT, SMALL_DRAFT | {"id": "example/small"}]},
        "sweep.drafts[1].architecture",
        "required",
    ),
    (SWEEP | {"sweep.drafts": [SMALL_DRAFT, LLAMA]}, "sweep.drafts[1]", "vocabulary"),
    (SWEEP | {"sweep.batches": [4, 256], "serving.length": 16384}, "sweep.batches[1]", "sequences"),
    (SWEEP | {"sweep.batches": [4, 2], "sweep.windows": [3, 7]}, "benchmark.concurrency", "2"),
    (SWEEP | {"sweep.windows": [3, 7], "capacity.nodes": 4}, "capacity.nodes", "3"),
    (
        SWEEP
        | {"sweep.windows": [*range(2, 16)], "sweep.at_most_usd": 9999, "sweep.batches": [4, 8]},
        "benchmark.test_cases",
        "150",
    ),
    (
        SWEEP
        | ON_TRAINIUM
        | {"sweep.at_most_usd": 150, "sweep.windows": [3, 7, 9, 11, 15], "benchmark.rounds": 1},
        "sweep.at_most_usd",
        "203",
    ),
]

JOBS: list[Row] = [
    (VANILLA | {"serving.api_key": True}, "serving.api_key", "vanilla"),
    (
        VANILLA
        | {
            "quality": {"limit": 50},
            "speculation": [
                {"name": "SD", "mode": "fused", "num_speculative_tokens": 7},
                {"name": "vanilla", "mode": "vanilla", "num_speculative_tokens": 7},
            ],
        },
        "speculation[1].mode",
        "experiment",
    ),
    (
        swept(mode="vanilla", windows=[3, 7]) | {"serving.batch": 1, "benchmark.concurrency": 1},
        "sweep.mode",
        "speculation",
    ),
    (VANILLA | {"quality": {"limit": 50}}, "quality", "absent"),
    (VANILLA | {"serving.batch": 4}, "serving.batch", "1"),
    (
        VANILLA
        | {
            "benchmark.concurrency": ABSENT,
            "benchmark.load": [{"concurrency": 1}, {"rate": 0.5, "seconds": 60}],
        },
        "benchmark.load[1].rate",
        "absent",
    ),
    (VANILLA | {"capacity.nodes": 2}, "capacity.nodes", "1"),
    (
        of_file("medusa") | {"benchmark.mean_output_tokens": 961},
        "benchmark.mean_output_tokens",
        "960",
    ),
]

SEVERAL: list[Row] = [
    (
        {
            "runtime": "vllm-9",
            "speculation.num_speculative_tokens": 1,
            "models.draft.id": "example/small",
            "serving.length": 50000,
            "alerts.emails": ["a@example.org", "a@example.org"],
        },
        "alerts.emails[1]",
        "duplicated",
    ),
    ({"aws.availability_zones": ["use2-az3"]}, "aws.availability_zones[0]", "availability"),
]

ROWS = [*TYPES, *RULES, *LOADS, *PROMPTS, *SWEEPS, *JOBS, *SEVERAL]


def refusals(text: str) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        parse(text, "mine.yaml")
    return str(caught.value).split("\n")


@pytest.mark.parametrize(("old", "new", "refused", "word"), [*TEXTS, *PLACES])
def test_a_bad_text_is_refused_at_its_line(old: str, new: str, refused: str, word: str) -> None:
    text = replaced(old, new)
    lines = [number for number, line in enumerate(text.split("\n"), start=1) if refused in line]
    [line] = refusals(text)
    assert line.startswith(f"mine.yaml:{lines[0]}: ")
    assert word in line


@pytest.mark.parametrize(("changes", "field", "word"), ROWS)
def test_a_bad_value_is_refused_at_its_line(changes: Any, field: str, word: str) -> None:
    places = lines_of(edited_data(changes))
    line = refusals(edited(changes))[0]
    assert line.startswith(f"mine.yaml:{line_of_error(places, field)}: {field}")
    allowed = line.partition(field)[2]
    assert re.search(rf"(?<![\w.]){re.escape(word)}", allowed), line


@pytest.mark.parametrize("text", ["", "# mine", "- name", "4", "[a, true]: x"])
def test_what_is_no_mapping_of_text_is_refused(text: str) -> None:
    [line] = refusals(text)
    assert line.startswith("mine.yaml: ")


def test_all_that_is_wrong_is_told_at_once() -> None:
    changes = {"name": "My", "capacity.nodes": "1", "serving.colour": "green", "alerts": ABSENT}
    fields = [field_of_error(line.split(": ", 1)[1]) for line in refusals(edited(changes))]
    assert fields == ["name", "capacity.nodes", "serving.colour", "alerts"]


def test_a_rule_is_left_out_where_one_that_it_relies_on_has_refused() -> None:
    changes = {
        "runtime": "vllm-9",
        "speculation.num_speculative_tokens": 1,
        "models.draft.id": "example/small",
        "serving.length": 50000,
    }
    fields = [field_of_error(line.split(": ", 1)[1]) for line in refusals(edited(changes))]
    assert fields == ["runtime", "models.draft.architecture"]


def test_more_than_can_be_read_at_once_are_counted() -> None:
    lines = refusals(edited({"alerts.emails": ["nobody"] * (MOST_SHOWN + 3)}))
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1] == "mine.yaml: and 3 more"


def _unreadable(directory: Path) -> Iterator[tuple[str, str]]:
    (directory / "directory.yaml").mkdir()
    yield "directory.yaml", "cannot be read: Is a directory"
    (directory / "latin.yaml").write_bytes("name: café\n".encode("latin-1"))
    yield "latin.yaml", "is not UTF-8 text; an experiment is YAML"
    (directory / "utf-16.yaml").write_bytes(ARTICLE_TEXT.encode("utf-16"))
    yield "utf-16.yaml", "is not UTF-8 text; an experiment is YAML"
    (directory / "binary.yaml").write_bytes(bytes(range(256)))
    yield "binary.yaml", "is not UTF-8 text; an experiment is YAML"
    yield "latin.yaml/mine.yaml", "cannot be read: Not a directory"
    yield (
        "missing.yaml",
        "no such file; available: binary.yaml, directory.yaml, latin.yaml, utf-16.yaml",
    )
    yield "nowhere/mine.yaml", "no such file; available: none"


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file, line in _unreadable(tmp_path):
        with pytest.raises(ExperimentError) as caught:
            load(file)
        assert str(caught.value) == f"{file}: {line}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"\ufeff{ARTICLE_TEXT}", id="byte order mark"),
        pytest.param(ARTICLE_TEXT.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(f"---\n{ARTICLE_TEXT}...\n", id="document markers"),
        pytest.param(replaced("2026-05-21", "'2026-05-21'"), id="quoted date"),
        pytest.param(replaced("35.7608", "36"), id="integer for a number"),
        pytest.param(replaced("name: article", "name: 'article'"), id="quoted text"),
        pytest.param(
            replaced("us-east-2c]", "&zone us-east-2c]").replace(
                "availability_zone: us-east-2c", "availability_zone: *zone"
            ),
            id="anchor and alias",
        ),
    ],
)
def test_what_is_good_is_let_through(text: str) -> None:
    parse(text, "mine.yaml")


def _fields(data: Any, path: str = "") -> Iterator[str]:
    if path:
        yield path
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs:
        field = f"{path}.{key}".removeprefix(".")
        yield from _fields(value, field) if isinstance(value, dict | list) else (field,)


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])) | st.just(ABSENT),
    lambda inner: st.lists(inner.filter(lambda v: v is not ABSENT), max_size=2)
    | st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])),
        inner.filter(lambda v: v is not ABSENT),
        max_size=2,
    ),
    max_leaves=4,
)  # fmt: skip


SHAPES: dict[str, dict[str, Any]] = {
    "services": {},
    "sweep": swept(drafts=[SMALL_DRAFT], batches=[4, 8], run=1),
    "jobs": VANILLA,
}


@settings(max_examples=80, deadline=None)
@given(shape=st.sampled_from(sorted(SHAPES)), data=st.data(), value=odd_values)
def test_no_value_anywhere_gets_more_than_its_lines(
    shape: str, data: st.DataObject, value: Any
) -> None:
    changes = SHAPES[shape]
    field = data.draw(st.sampled_from(sorted(_fields(edited_data(changes)))))
    _gets_its_lines({**changes, field: value})


def _gets_its_lines(changes: dict[str, Any]) -> None:
    places = lines_of(edited_data(changes))
    for line, error in _taken_or_refused_in_lines(edited(changes)):
        assert line == places.get(field_of_error(error), line)


@settings(max_examples=50, deadline=None)
@given(
    at=st.integers(0, len(ARTICLE_TEXT)),
    less=st.integers(0, 30),
    more=st.text(st.sampled_from("\t\n\\ :-[]{}&*!|>'\"%@`#,?<=~.0aé\0") | st.characters()),
)
def test_no_slip_of_the_pen_gets_more_than_its_lines(at: int, less: int, more: str) -> None:
    _taken_or_refused_in_lines(ARTICLE_TEXT[:at] + more + ARTICLE_TEXT[at + less :])


def _taken_or_refused_in_lines(text: str) -> list[tuple[int, str]]:
    """The errors of ``text`` that name a line: it, and the words."""
    try:
        parse(text, "mine.yaml")
    except ExperimentError as error:
        lines = str(error).split("\n")
    else:
        return []
    assert len(set(lines)) == len(lines) <= MOST_SHOWN + 1
    found = []
    for line in lines:
        match = re.fullmatch(r"mine\.yaml(?::(\d+))?: (.+)", line)
        assert match
        assert line == printable(line)
        if match[1]:
            assert 1 <= int(match[1]) <= len(text.splitlines()) + 1
            found.append((int(match[1]), match[2]))
    return found
