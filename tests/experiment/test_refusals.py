"""Bad experiment files: each is refused in one line, with the field, its line and a key word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

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
    QWEN3_HEAD,
    SMALL_DRAFT,
    VANILLA,
    edited,
    edited_data,
    line_of_error,
    lines_of,
    of_file,
    replaced,
    swept,
)

TEXTS = [
    ("name: article", "- name", "aws:", "block"),
    ("  limit: 50", "  limit: 50\n   more: 5", "more: 5", "mapping values are not allowed"),
    ("aws:\n  region:", "aws:\n\tregion:", "\tregion:", "cannot start any token"),
    ("name: article", "name: article\nname: other", "name: other", "duplicate key"),
    ("[us-east-2a, us-east-2c]", "[us-east-2a, us-east-2c", "api_access", "flow sequence"),
    ("name: article", "name: {{ name }}", "name: {{", "unhashable key"),
    ("name: article", "name: !!python/name:os.system", "os.system", "constructor"),
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
    # Aliases and merge keys: the line is where the value is written.
    ("8\n  logical_core_size: 2", "&x 8\n  logical_core_size: *x", "&x", "logical_core_size"),
    ("8\n  logical_core_size: 2", "&x 8\n  logical_core_size: 2\n  c: *x", "c: *x", "serving.c"),
    ("\n  limit: 50", "\n  <<: {limit: 50}\n\n  limit: 5000", "limit: 5000", "quality.limit"),
    ("\n  limit: 50", "\n  <<:\n    limit: 5000", "limit: 5000", "quality.limit"),
    ("aws:\n  region: us-east-2\n", "aws:\n", "aws:", "aws.region"),
    ("num_speculative_tokens: 7", "num_speculative_tokens: 1", "tokens: 1", "speculation.num_"),
    ("  mode: fused\n ", "  - mode: eager\n   ", "mode: eager", "speculation[0].mode"),
]
"""Words of the article's file, what replaces them, what the refused line holds, and a key word."""

BASES: Final[dict[str, dict[str, Any]]] = {
    "article": {},
    "eagle": EAGLE,
    "plugin": EAGLE | {"runtime": "vllm-0.16-nxdi", "speculation.mode": "eagle3"},
    "eagle3": of_file("eagle3"),
    "dflash": of_file("dflash"),
    "medusa": of_file("medusa"),
    "jobs": VANILLA,
    "ladder": {"benchmark.concurrency": ABSENT, "benchmark.requests": ABSENT},
    "sweep": swept(),
    "listed": {"serving.devices": 4, "serving.tensor_parallel": 16},
}

_HEAD: Final[dict[str, Any]] = EAGLE_HEAD["architecture"]
_MEDUSA: Final = KNOWN_MODELS["FasterDecoding/medusa-vicuna-7b-v1.3"].model_dump(mode="json")
_BLOCK: Final = {"kind": "dflash-draft", "family": "qwen3", "hidden": 4096, "max_length": 131072}


def _spec(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "mode": "fused", "num_speculative_tokens": 7} | changes


VALUES: Final[dict[str, Any]] = {
    "ABSENT": ABSENT,
    "LLAMA": LLAMA,
    "QWEN3_HEAD": QWEN3_HEAD,
    "EAGLE_HEAD": EAGLE_HEAD,
    "SMALL": SMALL_DRAFT,
    "NORM": EAGLE3_HEAD
    | {"architecture": EAGLE3_HEAD["architecture"] | {"norm_before_residual": True}},
    "OTHER_TARGET": EAGLE_HEAD | {"architecture": _HEAD | {"trained_for": "meta-llama/Other"}},
    "NO_BLOCK": {"id": "me/block", "revision": "1" * 40, "architecture": _HEAD | _BLOCK},
    "LARGE": {"id": "Qwen/Qwen3-32B", "revision": "1" * 40},
    "THREE_HEADS": _MEDUSA | {"drafts": 3},
    "TWO": [_spec("a"), _spec("b", num_speculative_tokens=6)],
    "SAME": [_spec("a"), _spec("b")],
    "CASES": [_spec("k7"), _spec("K7")],
    "NARROW": [_spec("a"), _spec("b", batch=2)],
    "WIDE": [_spec("a"), _spec("b", batch=256)],
    "FOUR": [_spec(f"k{k}", num_speculative_tokens=k) for k in range(2, 6)],
    "BASELINE": [_spec("BASE-batch-8", batch=8)],
    "WITH_JOB": [_spec("SD"), _spec("vanilla", mode="vanilla")],
}

ROWS: Final = """
article | serving: ABSENT | serving | required
article | CASE.line: ABSENT | CASE.line | must
article | aws.api_acess: [] | aws.api_acess | unknown key
article | serving.length: ABSENT, serving.lenght: 1024 | serving.length | required
article | name: 32 | name | string
article | serving.batch: '4' | serving.batch | integer
article | quality.limit: 1320 | quality.limit | 1319
article | capacity.price.as_of: '2126-01-01' | capacity.price.as_of | future
article | aws.availability_zones: us-east-2c | aws.availability_zones | valid
article | capacity.purchase: rent | capacity.purchase | capacity-block
article | name: My Experiment | name | 2
article | aws.api_access: [10.1.0.0/16] | aws.api_access[0] | private
article | aws.api_access: [128.0.0.0/1] | aws.api_access[0] | /8
article | aws.api_access: [203.0.113.7/24] | aws.api_access[0] | host
article | aws.region: cn-north-1 | aws.region | partition
article | alerts.emails: [a@b.org, a@b.org] | alerts.emails[1] | duplicated
article | benchmark.image: registry.example.com/benchmark | benchmark.image | digest
article | CASE.line: '   ' | CASE.line | whitespace
article | models.target.revision: main | models.target.revision | hexadecimal
article | aws.region: us-west-2 | aws.availability_zones[0] | us-west-2
article | capacity.availability_zone: us-east-2b | capacity.availability_zone | aws.availability
article | capacity.purchase: capacity-block | capacity.reservation_id | required
article | capacity.reservation_id: cr-0123456789 | capacity.reservation_id | only with
article | runtime: vllm-0.29 | runtime | vllm-neuron-
article | runtime: vllm-0.29, serving.tensor_parallel: 1 | runtime | vllm-neuron-
article | runtime: vllm-0.16-nxdi | speculation.mode | runtime
article | models.target.id: meta-llama/Llama-3.3-70B | models.target.architecture | Instruct
article | models.target.architecture: THREE_HEADS | models.target.architecture.kind | causal-lm
article | models.target: EAGLE_HEAD | models.target | eagle-head
article | models.draft: LLAMA | models.draft | vocabulary
article | models.draft: ABSENT | models.draft | causal-lm
article | models.draft.id: Qwen/Qwen3-32B | models.draft | weights
article | speculation.draft: LARGE | speculation.draft | smaller
article | speculation.mode: eagle, models.draft: QWEN3_HEAD | models.target | family
article | speculation.num_speculative_tokens: 1 | speculation.num_speculative_tokens | 2
article | serving.tensor_parallel: 64 | serving.tensor_parallel | 32
article | serving.devices: 16, serving.logical_core_size: 1 | serving.logical_core_size | logical
article | serving.length: 40961 | serving.length | 40960
article | serving.batch: 256, serving.length: 40960 | serving.batch | sequences
article | benchmark.mean_output_tokens: 947 | benchmark.mean_output_tokens | deviations
article | benchmark.mean_input_tokens: 40 | benchmark.mean_input_tokens | 41
article | benchmark.mean_input_tokens: ABSENT | benchmark.mean_input_tokens | required
article | benchmark.concurrency: 5 | benchmark.concurrency | 4
article | benchmark.rounds: 101 | benchmark.rounds | 100
article | benchmark.rounds: {at_least: 9, at_most: 4, half_width: 1} | benchmark.rounds.at_least | 4
article | benchmark.rounds: {at_least: 4, at_most: 30} | benchmark.rounds.half_width | required
article | benchmark.temperature: 0.7 | benchmark.temperature | 0
article | CASE.name: counting | CASE | duplicated
article | benchmark.test_cases.0.headline: false | benchmark.test_cases | structured
article | benchmark.test_cases.1: ABSENT | benchmark.test_cases | open-ended
article | CASE.headline: true | CASE.headline | meaning-of-life
article | CASE: {name: code, set: gsm8k} | CASE.set | humaneval
article | CASE.set: mt-bench | CASE.set | must
article | CASE: {name: code, set: humaneval, structure: structured} | CASE.structure | absent
article | CASE.structure: ABSENT | CASE.structure | required
article | CASE: {name: t, set: bfcl} | CASE.name | 2
article | CASE: {name: t2, set: bfcl, classes: [java, x, java]} | CASE.classes[2] | duplicated
article | CASE: {name: t2, set: bfcl, classes: [parallel, smalltalk]} | CASE.classes[1] | no class
article | CASE: {name: own, file: ../prompts.jsonl} | CASE.file | experiment
article | CASE: {name: own, file: no-such.jsonl} | CASE.file | no-such
article | benchmark.objectives: {} | benchmark.objectives | ttft_p90_ms
article | benchmark.objectives: {ttft_p90_ms: 9, e2e_p90_ms: 8} | benchmark.objectives | ttft_p90_ms
article | speculation: ABSENT | speculation | required
article | speculation: 7 | speculation | mapping
article | quality: ABSENT | quality | required
article | sweep: {mode: fused, windows: [7], at_most_usd: 9} | sweep | absent
eagle | models.draft: LLAMA | models.draft | eagle-head
eagle | models.draft: OTHER_TARGET | models.draft | meta-llama/Other
eagle | models.draft.architecture.max_length: 512 | serving.length | 512
eagle | models.draft.architecture.hidden: 4096 | models.draft | hidden
eagle | CASE: {name: tools, set: bfcl} | CASE.set | parser
plugin | models.draft: NORM | models.draft | norm_before_residual
eagle3 | serving.tensor_parallel: 32 | serving.tensor_parallel | logical_core_size
eagle3 | serving.length: 1000 | serving.length | 1024
dflash | serving.tensor_parallel: 2 | serving.tensor_parallel | dflash
dflash | speculation.num_speculative_tokens: 8 | speculation.num_speculative_tokens | 9
dflash | models.draft: NO_BLOCK | models.draft.architecture.drafts | required
medusa | models.draft: {id: me/heads, revision: REVISION, architecture: THREE_HEADS} | WINDOW | 3
medusa | speculation.num_speculative_tokens: 5 | speculation.num_speculative_tokens | depth
medusa | benchmark.mean_output_tokens: 961 | benchmark.mean_output_tokens | 960
ladder | name: article | benchmark.concurrency | required
ladder | benchmark.concurrency: 4 | benchmark.requests | required
ladder | benchmark.load: [{requests: 4}] | benchmark.load[0] | concurrency
ladder | benchmark.load: [{concurrency: 4, seconds: 60}] | benchmark.load[0].seconds | absent
ladder | benchmark.load: [{rate: 1}] | benchmark.load[0].seconds | required
ladder | benchmark.load: [{rate: 0.1, seconds: 5}] | benchmark.load[0].seconds | 10
ladder | benchmark.load: [{rate: 1, seconds: 700}] | benchmark.load[0].seconds | 600
ladder | benchmark.load: [{rate: 1, seconds: 9, requests: 9}] | benchmark.load[0].requests | absent
ladder | benchmark.load: [{rate: 1, seconds: 9}, {rate: 1, seconds: 8}] | LOAD[1] | duplicated
ladder | benchmark.load: [{concurrency: 16, requests: 16}] | benchmark.load[0].concurrency | 4
sweep | quality: {limit: 50} | quality | absent
sweep | benchmark.rounds: {at_least: 4, at_most: 9, half_width: 0.1} | benchmark.rounds | comparison
sweep | sweep.mode: dflash | sweep.mode | vllm-neuron-
sweep | sweep.mode: vanilla | sweep.mode | speculation
sweep | sweep.windows: [7, 3, 7] | sweep.windows[2] | duplicated
sweep | sweep.drafts: [SMALL, LLAMA] | sweep.drafts[1] | vocabulary
sweep | sweep.batches: [4, 256], serving.length: 16384 | sweep.batches[1] | sequences
sweep | sweep.batches: [4, 2] | benchmark.concurrency | 2
sweep | sweep.windows: [3, 7], capacity.nodes: 4 | capacity.nodes | 3
sweep | sweep.windows: [2, 3, 4, 5, 6, 7, 8, 9], sweep.batches: [4, 8] | CASES | 150
sweep | sweep.at_most_usd: 50 | sweep.at_most_usd | 84
jobs | serving.api_key: true | serving.api_key | vanilla
jobs | quality: {limit: 50} | quality | absent
jobs | serving.batch: 4 | serving.batch | 1
jobs | benchmark.concurrency: 2 | benchmark.concurrency | 1
jobs | benchmark.concurrency: ABSENT, LOAD: [{rate: 0.5, seconds: 60}] | LOAD[0].rate | absent
jobs | capacity.nodes: 2 | capacity.nodes | 1
listed | speculation: WITH_JOB | speculation[1].mode | experiment
listed | speculation: CASES | speculation[0].name | duplicated
listed | speculation: BASELINE | speculation[0].name | reserved
listed | speculation: SAME | speculation[1].name | differ
listed | speculation: NARROW | benchmark.concurrency | 2
listed | speculation: WIDE, serving.length: 2048 | speculation[1].batch | KV cache
listed | speculation: TWO, benchmark.mean_output_tokens: 947 | benchmark.mean_output_tokens | 1010
listed | speculation: FOUR | serving.devices | 5 claims
listed | speculation: FOUR, capacity.nodes: 3 | capacity.nodes | must be 2
"""
"""The changed experiment, changes as YAML, the field that is refused, a word of what is allowed."""

SHORT: Final = {
    "CASE": "benchmark.test_cases[3]",
    "CASES": "benchmark.test_cases",
    "LOAD": "benchmark.load",
    "WINDOW": "speculation.num_speculative_tokens",
}


def _resolved(value: Any) -> Any:
    match value:
        case dict():
            return {key: _resolved(item) for key, item in value.items()}
        case list():
            return [_resolved(item) for item in value]
        case "REVISION":
            return "1" * 40
        case str():
            return VALUES.get(value, value)
    return value


def _spelt(field: str) -> str:
    return re.sub(r"^[A-Z]+", lambda word: SHORT[word[0]], field)


def _row(line: str) -> tuple[dict[str, Any], str, str]:
    base, changes, field, word = line.split(" | ")
    given = YAML(typ="safe", pure=True).load(f"{{{changes}}}")
    dotted = {re.sub(r"\[(\d+)\]", r".\1", _spelt(key)): _resolved(v) for key, v in given.items()}
    return BASES[base] | dotted, _spelt(field), word


def refusals(text: str) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        parse(text, "mine.yaml")
    return str(caught.value).split("\n")


def field_of(line: str) -> str:
    return re.split(" = |: ", line.split(": ", 1)[1])[0]


@pytest.mark.parametrize(("old", "new", "refused", "word"), TEXTS)
def test_a_bad_text_is_refused_at_its_line(old: str, new: str, refused: str, word: str) -> None:
    text = replaced(old, new)
    lines = [number for number, line in enumerate(text.split("\n"), start=1) if refused in line]
    [line] = refusals(text)
    assert line.startswith(f"mine.yaml:{lines[0]}: ")
    assert word in line


@pytest.mark.parametrize("row", ROWS.strip().splitlines())
def test_a_bad_value_is_refused_at_its_line(row: str) -> None:
    changes, field, word = _row(row)
    line = refusals(edited(changes))[0]
    number = line_of_error(lines_of(edited_data(changes)), field)
    assert line.startswith((f"mine.yaml:{number}: {field} = ", f"mine.yaml:{number}: {field}: "))
    assert re.search(rf"(?<![\w.]){re.escape(word)}", line.partition(field)[2]), line


@pytest.mark.parametrize("text", ["", "# mine", "- name", "4", "[a, true]: x"])
def test_what_is_no_mapping_of_text_is_refused(text: str) -> None:
    [line] = refusals(text)
    assert line.startswith("mine.yaml: ")


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (
            {"name": "My", "capacity.nodes": "1", "serving.colour": "green", "alerts": ABSENT},
            ["name", "capacity.nodes", "serving.colour", "alerts"],
        ),
        # The window is not refused as well, since what it may be depends on the runtime.
        (
            {"runtime": "vllm-9", "speculation.num_speculative_tokens": 1}
            | {"models.draft.id": "example/small", "serving.length": 50000},
            ["runtime", "models.draft.architecture"],
        ),
    ],
)
def test_all_that_is_wrong_is_refused_at_once(changes: dict[str, Any], fields: list[str]) -> None:
    assert list(map(field_of, refusals(edited(changes)))) == fields


def test_more_than_can_be_read_at_once_are_counted() -> None:
    lines = refusals(edited({"alerts.emails": ["nobody"] * (MOST_SHOWN + 3)}))
    assert lines[MOST_SHOWN:] == ["mine.yaml: and 3 more"]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("directory.yaml", "cannot be read: Is a directory"),
        ("latin.yaml", "is not UTF-8 text; an experiment is YAML"),
        ("latin.yaml/mine.yaml", "cannot be read: Not a directory"),
        ("missing.yaml", "no such file; available: directory.yaml, latin.yaml"),
        ("nowhere/mine.yaml", "no such file; available: none"),
    ],
)
def test_files_that_cannot_be_read(
    file: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "directory.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes("name: café\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {why}"


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{ARTICLE_TEXT}".replace("\n", "\r\n"),
        f"---\n{ARTICLE_TEXT}...\n",
        replaced("2026-05-21", "'2026-05-21'").replace("35.7608", "36"),
        replaced("us-east-2c]", "&z us-east-2c]").replace("e: us-east-2c", "e: *z"),
    ],
    ids=["byte order mark and CRLF", "document markers", "quoted date, integer", "alias"],
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


_text = st.text(st.characters(exclude_categories=["Cs"]))
odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_text, inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    base=st.sampled_from(["article", "sweep", "jobs"]),
    data=st.data(),
    value=odd_values | st.just(ABSENT),
)
def test_no_value_anywhere_gets_more_than_its_lines(
    base: str, data: st.DataObject, value: Any
) -> None:
    field = data.draw(st.sampled_from(sorted(_fields(edited_data(BASES[base])))))
    changes = BASES[base] | {field: value}
    places = lines_of(edited_data(changes))
    for line, error in _taken_or_refused_in_lines(edited(changes)):
        assert line == places.get(error, line)


@settings(max_examples=40, deadline=None)
@given(
    at=st.integers(0, len(ARTICLE_TEXT)),
    less=st.integers(0, 30),
    more=st.text(st.sampled_from("\t\n\\ :-[]{}&*!|>'\"%@`#,?<=~.0aé\0") | st.characters()),
)
def test_no_slip_of_the_pen_gets_more_than_its_lines(at: int, less: int, more: str) -> None:
    _taken_or_refused_in_lines(ARTICLE_TEXT[:at] + more + ARTICLE_TEXT[at + less :])


def _taken_or_refused_in_lines(text: str) -> list[tuple[int, str]]:
    """The lines and the fields of the errors of ``text`` that name a line."""
    try:
        parse(text, "mine.yaml")
        return []
    except ExperimentError as error:
        lines = str(error).split("\n")
    assert len(set(lines)) == len(lines) <= MOST_SHOWN + 1
    places = []
    for line in lines:
        assert line == printable(line)
        match = re.fullmatch(r"mine\.yaml(?::(\d+))?: .+", line)
        assert match
        if match[1]:
            assert 1 <= int(match[1]) <= len(text.splitlines()) + 1
            places.append((int(match[1]), field_of(line)))
    return places
