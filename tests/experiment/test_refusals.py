"""Bad experiment files: each is refused in one line, with the field, its line and a key word."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from experiment import ExperimentError, load
from experiment.known_models import KNOWN_MODELS
from experiment.loader import MOST_SHOWN, parse
from experiment.notes import notes
from spectap.wording import printable
from tests.experiment import files
from tests.experiment.files import (
    ABSENT,
    ARTICLE_TEXT,
    EAGLE,
    EAGLE3_HEAD,
    EAGLE_HEAD,
    REGION,
    SMALL_DRAFT,
    edited,
    edited_data,
    lines_of,
    of_file,
    replaced,
    swept,
)
from tests.matrix import IN_A_CLUSTER, MATRIX

TEXTS = [
    ("name: article", "- name", "aws:", "block"),
    ("aws:\n  region:", "aws:\n\tregion:", "\tregion:", "cannot start any token"),
    ("name: article", "name: article\nname: other", "name: other", "duplicate key"),
    ("name: article", "name: {{ name }}", "name: {{", "unhashable key"),
    ("name: article", "name: !!python/name:os.system", "os.system", "constructor"),
    ("minutes: 60", f"minutes: {'9' * 5000}", "minutes: 99", "not a valid int"),
    ('line: "a"', r'line: "a\e[2J"', "[2J", "not a valid str"),
    ("name: article", "name: article # \a", "\a", "special characters"),
    ("api_access: []", f"api_access: {'[' * 500}{']' * 500}", "[[[", "maximum depth"),
    ("name: article", "name: article\n5: x", "5: x", "unknown key"),
    ("35.7608", ".nan", ".nan", "finite"),
    ("2026-05-21", "2026-05-32", "05-32", "capacity.price.as_of"),
    ("headline: true\n    - name: mean", "headline: yes\n    - name: mean", "yes", "boolean"),
    # Aliases and merge keys: the line is where the value is written.
    ("8\n  logical_core_size: 2", "&x 8\n  logical_core_size: *x", "&x", "logical_core_size"),
    ("8\n  logical_core_size: 2", "&x 8\n  logical_core_size: 2\n  c: *x", "c: *x", "serving.c"),
    (
        "idle_minutes: 60",
        "<<: {idle_minutes: 6}\n\n  idle_minutes: -1",
        "minutes: -1",
        "alerts.idle_minutes",
    ),
    ("  mode: fused\n ", "  - mode: eager\n   ", "mode: eager", "speculation[0].mode"),
    # The parser's own words for an indentation name no line that is indented differently.
    ("  mode: fused", "   mode: fused", "num_speculative_tokens", "indented by 2 spaces, and line"),
    ("\n  region:", "\n   region:", "  availability_zones: [", "indented by 2 spaces, and line"),
    (
        f"aws:\n  region: {REGION}\n  ",
        f"aws:\n  region: {REGION}\n    ",
        "    availability",
        "by 4",
    ),
]
"""Words of the article's file, what replaces them, what the refused line holds, and a key word."""

BASES: Final[dict[str, dict[str, Any]]] = {
    "article": {},
    "eagle": EAGLE,
    "plugin": EAGLE | {"runtime": "vllm-0.16-nxdi", "speculation.mode": "eagle3"},
    "eagle3": of_file("eagle3"),
    "dflash": of_file("dflash"),
    "medusa": of_file("medusa"),
    "jobs": files.VANILLA,
    "published": files.PUBLISHED,
    "ladder": {"benchmark.concurrency": ABSENT, "benchmark.requests": ABSENT},
    "sweep": swept(),
    "one-chip": of_file("one-chip"),
    "listed": {"serving.devices": 4, "serving.tensor_parallel": 16},
    "guest": MATRIX[IN_A_CLUSTER],
}

_HEAD: Final[dict[str, Any]] = EAGLE_HEAD["architecture"]
_MEDUSA: Final = KNOWN_MODELS["FasterDecoding/medusa-vicuna-7b-v1.3"].model_dump(mode="json")
_BLOCK: Final = {"kind": "dflash-draft", "family": "qwen3", "hidden": 4096, "max_length": 131072}


def _spec(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "mode": "fused", "num_speculative_tokens": 7} | changes


VALUES: Final[dict[str, Any]] = {
    "ABSENT": ABSENT,
    "LLAMA": files.LLAMA,
    "QWEN3_HEAD": files.QWEN3_HEAD,
    "EAGLE_HEAD": EAGLE_HEAD,
    "SMALL": SMALL_DRAFT,
    "NORM": EAGLE3_HEAD
    | {"architecture": EAGLE3_HEAD["architecture"] | {"norm_before_residual": True}},
    "OTHER_TARGET": EAGLE_HEAD | {"architecture": _HEAD | {"trained_for": "meta-llama/Other"}},
    "NO_BLOCK": {"id": "me/block", "revision": "1" * 40, "architecture": _HEAD | _BLOCK},
    "UNKNOWN": SMALL_DRAFT | {"id": "example/small"},
    "QWEN3_14B": {"id": "Qwen/Qwen3-14B", "revision": "1" * 40},
    "LARGE": {"id": "Qwen/Qwen3-32B", "revision": "1" * 40},
    "THREE_HEADS": _MEDUSA | {"drafts": 3},
    "TWO": [_spec("a"), _spec("b", num_speculative_tokens=6)],
    "SAME": [_spec("a"), _spec("b")],
    "CASES": [_spec("k7"), _spec("K7")],
    "NARROW": [_spec("a"), _spec("b", batch=2)],
    "WIDE": [_spec("a"), _spec("b", batch=256)],
    "FOUR": [_spec(f"k{k}", num_speculative_tokens=k) for k in range(2, 6)],
    "BASELINE": [_spec("BASE-batch-8", batch=8)],
    "PUBLISHED": files.PUBLISHED["published"],
    "WITH_JOB": [_spec("SD"), _spec("vanilla", mode="vanilla")],
}

ROWS: Final = (
    (Path(__file__).parent / "refusals.txt").read_text(encoding="utf-8").replace("REGION", REGION)
)

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
    parsed = YAML(typ="safe", pure=True).load(f"{{{changes}}}")
    dotted = {re.sub(r"\[(\d+)\]", r".\1", _spelt(key)): _resolved(v) for key, v in parsed.items()}
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


@pytest.mark.parametrize("row", ROWS.partition("\n\n")[2].splitlines()[2:])
def test_a_bad_value_is_refused_at_its_line(row: str) -> None:
    changes, field, word = _row(row)
    line = refusals(edited(changes))[0]
    number = files.line_of_error(lines_of(edited_data(changes)), field)
    assert line.startswith((f"mine.yaml:{number}: {field} = ", f"mine.yaml:{number}: {field}: "))
    assert re.search(rf"(?<![\w.]){re.escape(word)}", line.partition(field)[2]), line


@pytest.mark.parametrize("text", ["", "- name", "[a, true]: x"])
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
        ("empty.yaml", "is empty; must be a mapping of keys to values"),
        ("latin.yaml", "is not UTF-8 text; an experiment is YAML"),
        ("missing.yaml", "no such file; available: directory.yaml, empty.yaml, latin.yaml"),
        ("nowhere/mine.yaml", "no such file; available: none"),
    ],
)
def test_files_that_cannot_be_read(
    file: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "directory.yaml").mkdir()
    (tmp_path / "empty.yaml").touch()
    (tmp_path / "latin.yaml").write_bytes("name: café\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {why}"


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*lines: Any, **case: Any) -> Path:
        text = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines)
        (tmp_path / "prompts.jsonl").write_text(text, encoding="utf-8")
        path, own = tmp_path / "mine.yaml", {"name": "own", "file": "prompts.jsonl"}
        path.write_text(edited({"benchmark.test_cases.3": own | case}), encoding="utf-8")
        return path

    return write


def test_a_file_of_which_no_prompt_fits_is_refused(write: Write) -> None:
    long, longer = ({"prompt": "word " * words} for words in (1000, 5000))
    with pytest.raises(ExperimentError, match=r"\.file = \"prompts.jsonl\": must have a prompt"):
        load(write(long, longer))
    # A class that is left out does not count.
    short = {"prompt": "Hello", "class": "short"}
    with pytest.raises(ExperimentError, match="the shortest has 1,600 words and tokens"):
        load(write(long | {"class": "long"}, short, classes=["long"]))
    (note,) = (n for n in notes(load(write(long, short))) if "left out" in n)
    assert "1 of 2 prompts and their answers do not fit" in note


def test_an_experiment_carries_its_file_of_prompts_as_it_is(write: Write, tmp_path: Path) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "function", "function": function}]
    short = {"prompt": "Hello", "class": "short"}
    experiment = load(write(short, {"prompt": "Goodbye", "tools": tools}))
    content = (tmp_path / "prompts.jsonl").read_bytes()
    file = experiment.prompts_of(experiment.benchmark.test_cases[3])
    assert file is experiment.prompt_files["prompts.jsonl"]
    assert (file.content, file.digest) == (content, hashlib.sha256(content).hexdigest())
    assert file.classes == {"short": 1, "": 1}
    assert experiment.calls_tools
    assert not load(write(short)).calls_tools
    with pytest.raises(ExperimentError, match=r"classes\[0\] = .* must be one of short$"):
        load(write(short, classes=["long"]))
    with pytest.raises(ExperimentError) as caught:
        load(write({"prompt": "fine"}, "no JSON", {"prompt": " "}, {"prompt": "x", "tools": [{}]}))
    lines = str(caught.value).split("\n")
    named = {f"{tmp_path / 'prompts.jsonl'}:{number}" for number in (2, 3, 4)}
    assert {line.partition(": ")[0] for line in lines} == named


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{ARTICLE_TEXT}".replace("\n", "\r\n"),
        replaced("2026-05-21", "'2026-05-21'").replace("35.7608", "36"),
        replaced(f"{REGION}c]", f"&z {REGION}c]").replace(f"e: {REGION}c", "e: *z"),
    ],
)
def test_what_is_good_is_let_through(text: str) -> None:
    parse(text, "mine.yaml")


_text = st.text(st.characters(exclude_categories=["Cs"]))
_number = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
odd_values = st.none() | st.booleans() | _number | _text | st.lists(_text | _number, max_size=2)


@settings(max_examples=60, deadline=None)
@given(
    base=st.sampled_from(["article", "sweep", "jobs"]),
    data=st.data(),
    value=odd_values | st.just(ABSENT),
)
def test_no_value_anywhere_gets_more_than_its_lines(
    base: str, data: st.DataObject, value: Any
) -> None:
    fields = sorted(filter(None, lines_of(edited_data(BASES[base]))))
    field = re.sub(r"\[(\d+)\]", r".\1", data.draw(st.sampled_from(fields)))
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
