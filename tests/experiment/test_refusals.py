"""Bad experiment files, each with the lines that it gets: one for each error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiment import ExperimentError, load
from experiment.errors import MOST_SHOWN
from experiment.known_models import KNOWN_MODELS
from experiment.loader import parse
from tests.experiment.files import (
    ABSENT,
    ARTICLE,
    ARTICLE_TEXT,
    EAGLE,
    EAGLE3_HEAD,
    EAGLE_HEAD,
    LLAMA,
    LLAMA_70B,
    ON_TRAINIUM,
    QWEN3_HEAD,
    ROOT,
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

ARCHITECTURE: dict[str, Any] = LLAMA["architecture"]

KEYS = (
    "name, aws, capacity, compiling, runtime, models, speculation, sweep, serving, benchmark, "
    "quality, alerts, delivery"
)
MEDUSA_HEADS: dict[str, Any] = KNOWN_MODELS["FasterDecoding/medusa-vicuna-7b-v1.3"].model_dump(
    mode="json"
)
OWN_BLOCK = {"kind": "dflash-draft", "family": "qwen3", "hidden": 4096, "max_length": 131072}
SMALL: dict[str, Any] = LLAMA | {"id": "example/small"}
ADD = "python -m experiment add-model FOLDER prints it"
CASE = "benchmark.test_cases.3"


@dataclass(frozen=True)
class Bad:
    """A bad file and its errors: the line, if one is named, and the words."""

    name: str
    text: str
    errors: tuple[tuple[int | None, str], ...]

    def lines(self, file: str) -> list[str]:
        """What is shown when the text is that of ``file``."""
        return [
            f"{file}: {words}" if line is None else f"{file}:{line}: {words}"
            for line, words in self.errors
        ]


def _text(name: str, text: str, line: int | None, words: str) -> Bad:
    return Bad(name, text, ((line, words),))


def _syntax(name: str, old: str, new: str, line: int, words: str) -> Bad:
    return _text(name, replaced(old, new), line, words)


def _edit(name: str, changes: dict[str, Any], *errors: str) -> Bad:
    places = lines_of(edited_data(changes))
    return Bad(
        name, edited(changes), tuple((line_of_error(places, error), error) for error in errors)
    )


SYNTAX = [
    _text("empty", "", None, f"is empty; an experiment is a mapping with the keys {KEYS}"),
    _text(
        "comment", "# mine\n", None, f"is empty; an experiment is a mapping with the keys {KEYS}"
    ),
    _text("list", "- name\n", None, f"is a list; an experiment is a mapping with the keys {KEYS}"),
    _text(
        "text", "mine", None, f"is a single value; an experiment is a mapping with the keys {KEYS}"
    ),
    _text(
        "number", "4", None, f"is a single value; an experiment is a mapping with the keys {KEYS}"
    ),
    _text(
        "two-documents",
        f"{ARTICLE_TEXT}---\n{ARTICLE_TEXT}",
        116,
        "not valid YAML: a second document begins; a file holds one experiment",
    ),
    _text(
        "duplicate-key",
        f"{ARTICLE_TEXT}name: other\n",
        116,
        "not valid YAML: key 'name' is duplicated; it is already in line 6",
    ),
    _syntax(
        "duplicate-nested-key",
        "aws:\n  region: us-east-2\n",
        "aws:\n  region: us-east-2\n  region: us-west-2\n",
        10,
        "not valid YAML: key 'region' is duplicated; it is already in line 9",
    ),
    _syntax(
        "tab",
        "aws:\n  region:",
        "aws:\n\tregion:",
        9,
        "not valid YAML: there is a tab; indent with spaces",
    ),
    _syntax(
        "indentation",
        "  limit: 50",
        "  limit: 50\n   more: 5",
        110,
        "not valid YAML: a colon cannot stand here; put text with a colon in quotes, "
        "or check the indentation",
    ),
    _syntax(
        "dedentation",
        "  api_access: []",
        " api_access: []",
        13,
        "not valid YAML: this does not belong here; check indentation and quotes, here "
        "and in the lines above",
    ),
    _syntax(
        "colon-in-text",
        'line: "Output valid JSON with fixed keys"',
        "line: Output: valid JSON",
        99,
        "not valid YAML: a colon cannot stand here; put text with a colon in quotes, "
        "or check the indentation",
    ),
    _syntax(
        "no-colon",
        "  limit: 50",
        "  limit 50",
        108,
        "quality = 'limit 50': must be a mapping with the keys limit",
    ),
    _syntax(
        "no-colon-among-keys",
        "name: article\n",
        "name: article\nowner me\n",
        9,
        "not valid YAML: there is no colon after the key of line 7",
    ),
    _syntax(
        "open-bracket",
        "[us-east-2a, us-east-2c]",
        "[us-east-2a, us-east-2c",
        13,
        "not valid YAML: the [ of line 10 is not closed",
    ),
    _syntax(
        "open-brace",
        "quality:\n  limit: 50",
        "quality: {limit: 50",
        110,
        "not valid YAML: the { of line 108 is not closed",
    ),
    _syntax(
        "open-quote",
        "budget_usd_per_month: 3000",
        "budget_usd_per_month: '3000",
        116,
        "not valid YAML: the quote opened in line 115 is never closed",
    ),
    _syntax(
        "quote-closed-by-the-next",
        'line: "a"',
        'line: "a',
        93,
        "not valid YAML: this does not belong here; check indentation and quotes, here "
        "and in the lines above",
    ),
    _syntax(
        "escape",
        'line: "a"',
        r'line: "\d"',
        90,
        r"not valid YAML: there is no escape \d; use single quotes",
    ),
    _syntax(
        "template",
        "name: article",
        "name: {{ name }}",
        6,
        "not valid YAML: a key must be text; a value that begins with { needs quotes",
    ),
    _syntax(
        "at-sign",
        "name: article",
        "name: @article",
        6,
        "not valid YAML: text that begins with '@' needs quotes",
    ),
    _syntax(
        "percent-sign",
        "# yaml-language-server: $schema=experiment.schema.json",
        "%EXPERIMENT",
        6,
        "not valid YAML: this does not belong here; check indentation and quotes, here "
        "and in the lines above",
    ),
    _syntax(
        "alias-of-nothing",
        "name: article",
        "name: *article",
        6,
        "not valid YAML: there is no anchor &article; text that begins with * needs quotes",
    ),
    _syntax(
        "anchor-of-itself",
        "api_access: []",
        "api_access: &mine [*mine]",
        13,
        "not valid YAML: anchor &mine contains itself",
    ),
    _syntax(
        "anchor-twice",
        "devices: 8\n  logical_core_size: 2",
        "devices: &n 8 # anchor 'm' in line 1, column 1\n  logical_core_size: &n 2",
        59,
        "not valid YAML: anchor &n is duplicated; it is already in line 58",
    ),
    _syntax(
        "merge-of-a-number",
        "  limit: 50",
        "  <<: 50",
        109,
        "not valid YAML: << takes the alias of a mapping",
    ),
    _syntax(
        "tag",
        "name: article",
        "name: !mine article",
        6,
        "not valid YAML: tag !mine is unknown; write plain values, and text that begins "
        "with ! in quotes",
    ),
    _syntax(
        "python-object",
        "name: article",
        "name: !!python/name:os.system",
        6,
        "not valid YAML: tag !!python/name:os.system is unknown; write plain values, and "
        "text that begins with ! in quotes",
    ),
    _syntax(
        "binary",
        "name: article",
        "name: !!binary aGVsbG8=",
        6,
        "not valid YAML: tag !!binary is unknown; write plain values, and text that "
        "begins with ! in quotes",
    ),
    _syntax(
        "not-what-its-tag-says",
        "limit: 50",
        "limit: !!int fifty",
        109,
        "not valid YAML: 'fifty' is not an integer",
    ),
    _syntax(
        "more-digits-than-python-takes",
        "limit: 50",
        f"limit: {'9' * 5000}",
        109,
        f"not valid YAML: '{'9' * 76}... is not an integer",
    ),
    _syntax(
        "half-a-character",
        'line: "a"',
        r'line: "\ud800"',
        90,
        r"not valid YAML: '\ud800' is not text",
    ),
    _syntax(
        "written-control-character",
        'line: "a"',
        r'line: "a\e[2J"',
        90,
        r"not valid YAML: 'a\x1b[2J' is not text",
    ),
    _text(
        "control-character",
        f"{ARTICLE_TEXT}# \a\n",
        116,
        "not valid YAML: character U+0007 is not allowed in a text file",
    ),
    _text(
        "number-as-key",
        f"{ARTICLE_TEXT}5: x\n",
        116,
        "not valid YAML: a key must be text; put 5 in quotes",
    ),
    _text(
        "null-as-key",
        f"{ARTICLE_TEXT}~: x\n",
        116,
        "not valid YAML: a key must be text; put null in quotes",
    ),
    _text(
        "list-as-key",
        f"{ARTICLE_TEXT}[a, true]: x\n",
        116,
        "not valid YAML: a key must be text; put ['a', true] in quotes",
    ),
    _text(
        "nested-deeper-than-the-parser-goes",
        f"name: {'[' * 500}{']' * 500}",
        1,
        "not valid YAML: lists and mappings are nested too deeply",
    ),
    _syntax(
        "nested-deeper-than-json-goes",
        "api_access: []",
        f"api_access: {'[' * 210}{']' * 210}",
        13,
        "not valid YAML: lists and mappings are nested too deeply",
    ),
    _syntax(
        "YAML-1.1-yes",
        "headline: true\n    - name: meaning-of-life",
        "headline: yes\n    - name: meaning-of-life",
        77,
        "benchmark.test_cases[0].headline = 'yes': must be true or false",
    ),
    _syntax(
        "NaN",
        "35.7608",
        ".nan",
        25,
        "capacity.price.usd_per_hour = .nan: must be a finite number",
    ),
    _syntax(
        "infinity",
        "budget_usd_per_month: 3000",
        "budget_usd_per_month: .inf",
        115,
        "alerts.budget_usd_per_month = .inf: must be a finite number",
    ),
    _syntax(
        "infinite-checkpoint",
        "    id: Qwen/Qwen3-1.7B",
        "    architecture: {family: llama, vocabulary: 1, layers: 1, hidden: 1, kv_heads: 1,"
        " head_dim: 1, tied_embeddings: true,"
        " max_length: 1, checkpoint_gib: .inf}\n    id: example/infinite",
        49,
        "models.draft.architecture.checkpoint_gib = .inf: must be a finite number",
    ),
    _syntax(
        "minus-infinity",
        "temperature: 0.0",
        "temperature: -.inf",
        71,
        "benchmark.temperature = -.inf: must be a finite number",
    ),
    _syntax(
        "no-such-date",
        "2026-05-21",
        "2026-05-32",
        28,
        "capacity.price.as_of = '2026-05-32': must be a date such as 2026-05-21",
    ),
    _syntax(
        "key-with-a-line-break",
        "name: article",
        'name: article\n"a\\nb": 1',
        7,
        rf"'a\nb' = 1: unknown key; allowed: {KEYS}",
    ),
]

# The article's file has ``aws:`` in line 8, ``devices: 8`` in line 58, its first test
# case in line 74 and ``quality:`` in line 108.
PLACES = [
    _syntax(
        "value-of-an-alias",
        "devices: 8\n  logical_core_size: 2",
        "devices: &eight 8\n  logical_core_size: *eight",
        58,
        "serving.logical_core_size = 8: must be 1 or 2",
    ),
    _syntax(
        "unknown-key-with-an-alias",
        "devices: 8\n  logical_core_size: 2",
        "devices: &eight 8\n  logical_core_size: 2\n  cores: *eight",
        60,
        "serving.cores = 8: unknown key; allowed: devices, logical_core_size, tensor_parallel, "
        "batch, length, api_key",
    ),
    _syntax(
        "merged-value",
        "quality:\n  limit: 50",
        "quality:\n  <<:\n    limit: 5000",
        110,
        "quality.limit = 5000: must be at most 1319",
    ),
    _syntax(
        "merged-value-overridden",
        "quality:\n  limit: 50",
        "quality:\n  <<: {limit: 50}\n\n  limit: 5000",
        111,
        "quality.limit = 5000: must be at most 1319",
    ),
    _syntax(
        "duplicate-key-beside-a-merge",
        "quality:\n  limit: 50",
        "quality:\n  <<: {limit: 50}\n  limit: 10\n  limit: 20",
        111,
        "not valid YAML: key 'limit' is duplicated; it is already in line 110",
    ),
    _syntax(
        "two-merges",
        "quality:\n  limit: 50",
        "quality:\n  <<: {limit: 50}\n  <<: {limit: 20}",
        110,
        "not valid YAML: << is duplicated; give it one list of aliases",
    ),
    _syntax(
        "missing-from-a-mapping",
        "  region: us-east-2\n  availability_zones",
        "  # region: us-east-2\n  availability_zones",
        8,
        "aws.region: is required",
    ),
    _syntax(
        "missing-from-the-file",
        "runtime: vllm-0.9.1-nxdi",
        "",
        6,
        "runtime: is required",
    ),
    Bad(
        "missing-from-an-alias",
        replaced(
            "- name: repeat-line",
            "- &case {name: broken, structure: structured}\n    - *case\n    - name: repeat-line",
        ),
        (
            (74, "benchmark.test_cases[0].line: is required, or set or file in its place"),
            (74, "benchmark.test_cases[1].line: is required, or set or file in its place"),
            (74, "benchmark.test_cases[0].name = 'broken': is duplicated; must be unique"),
            (74, "benchmark.test_cases[1].name = 'broken': is duplicated; must be unique"),
        ),
    ),
    _syntax(
        "nothing-after-the-key",
        "limit: 50",
        "limit:",
        109,
        "quality.limit = null: must be an integer",
    ),
    _syntax(
        "value-below-its-key",
        "limit: 50",
        "limit:\n    5000",
        109,
        "quality.limit = 5000: must be at most 1319",
    ),
    _syntax(
        "one-speculation",
        "num_speculative_tokens: 7",
        "num_speculative_tokens: 1",
        54,
        "speculation.num_speculative_tokens = 1: must be at least 2: NxDI verifies a window of k "
        "positions with k - 1 draft tokens",
    ),
    _syntax(
        "a-list-of-one-speculation",
        "  mode: fused\n  num_speculative_tokens: 7",
        "  - mode: fused\n    num_speculative_tokens: 1",
        54,
        "speculation[0].num_speculative_tokens = 1: must be at least 2: NxDI verifies a window of "
        "k positions with k - 1 draft tokens",
    ),
    _syntax(
        "missing-from-one-speculation",
        "  mode: fused\n  num_speculative_tokens: 7",
        "  num_speculative_tokens: 7",
        52,
        "speculation.mode: is required",
    ),
    _syntax(
        "missing-from-a-list-of-one-speculation",
        "  mode: fused\n  num_speculative_tokens: 7",
        "  - num_speculative_tokens: 7",
        53,
        "speculation[0].mode: is required",
    ),
    # Nobody wrote the default, null.
    _syntax(
        "default",
        "  purchase: on-demand",
        "  purchase: reservation",
        15,
        "capacity.reservation_id = null: is required with purchase reservation",
    ),
]

TYPES = [
    _edit(
        "missing",
        {"serving": ABSENT},
        "serving: is required, with devices, logical_core_size, tensor_parallel, batch, length",
    ),
    _edit(
        "missing-with-sections",
        {"capacity": ABSENT},
        "capacity: is required, with instance_type, nodes, availability_zone, purchase, "
        "price.usd_per_hour, price.purchase, price.region, price.as_of, price.source",
    ),
    _edit(
        "missing-with-a-list",
        {"benchmark": ABSENT},
        "spectap: is required, with rounds, mean_output_tokens, timeout_seconds, test_cases",
    ),
    _edit("missing-nested", {"capacity.price.as_of": ABSENT}, "capacity.price.as_of: is required"),
    _edit(
        "missing-in-list",
        {f"{CASE}.line": ABSENT},
        "benchmark.test_cases[3].line: is required, or set or file in its place",
    ),
    _edit("unknown", {"extra": 1}, f"extra = 1: unknown key; allowed: {KEYS}"),
    _edit(
        "unknown-with-hint",
        {"aws.api_acess": []},
        "aws.api_acess = []: unknown key; did you mean api_access? allowed: region, "
        "availability_zones, api_access",
    ),
    _edit(
        "misspelt",
        {"serving.length": ABSENT, "serving.lenght": 1024},
        "serving.lenght = 1024: unknown key; did you mean length? allowed: devices, "
        "logical_core_size, tensor_parallel, batch, length, api_key",
    ),
    _edit(
        "unknown-in-list",
        {f"{CASE}.headlines": True},
        "benchmark.test_cases[3].headlines = true: unknown key; did you mean headline? allowed: "
        "name, line, set, file, classes, limit, structure, headline",
    ),
    _edit(
        "unknown-in-optional",
        {"models.draft": LLAMA | {"architecture": ARCHITECTURE | {"vocab": 32}}},
        "models.draft.architecture.vocab = 32: unknown key; did you mean vocabulary? allowed: "
        "kind, family, vocabulary, layers, hidden, kv_heads, head_dim, tied_embeddings, "
        "max_length, checkpoint_gib, trained_for, drafts, norm_before_residual, tool_parser",
    ),
    _edit(
        "unknown-mapping",
        {"tags": {"team": "ml", "paid": True, "note": None}},
        "tags = {'team': 'ml', 'paid': true, 'note': null}: unknown key; allowed: " + KEYS,
    ),
    _edit("text-null", {"name": None}, "name = null: must be text"),
    _edit("text-number", {"name": 32}, "name = 32: must be text; put it in quotes"),
    _edit(
        "text-boolean",
        {f"{CASE}.line": True},
        "benchmark.test_cases[3].line = true: must be text; put it in quotes",
    ),
    _edit(
        "text-empty", {f"{CASE}.line": ""}, "benchmark.test_cases[3].line = '': must not be empty"
    ),
    _edit(
        "text-too-long",
        {f"{CASE}.line": "x" * 4001},
        f"benchmark.test_cases[3].line = '{'x' * 76}...: must have at most 4000 characters",
    ),
    _edit(
        "integer-quoted",
        {"serving.batch": "4"},
        "serving.batch = '4': must be an integer, without quotes",
    ),
    _edit("integer-word", {"serving.batch": "four"}, "serving.batch = 'four': must be an integer"),
    _edit("integer-fraction", {"serving.batch": 4.5}, "serving.batch = 4.5: must be an integer"),
    _edit("integer-float", {"serving.batch": 4.0}, "serving.batch = 4.0: must be an integer"),
    _edit("integer-boolean", {"serving.batch": True}, "serving.batch = true: must be an integer"),
    _edit("integer-null", {"serving.batch": None}, "serving.batch = null: must be an integer"),
    _edit("integer-list", {"serving.batch": [4]}, "serving.batch = [4]: must be an integer"),
    _edit("at-least", {"quality.limit": 0}, "quality.limit = 0: must be at least 1"),
    _edit("at-most", {"quality.limit": 1320}, "quality.limit = 1320: must be at most 1319"),
    _edit(
        "at-most-by-far",
        {"capacity.nodes": 10**40},
        f"capacity.nodes = {10**40}: must be at most 8",
    ),
    _edit(
        "at-most-float",
        {"benchmark.temperature": 2.5},
        "benchmark.temperature = 2.5: must be at most 2",
    ),
    _edit(
        "more-than",
        {"capacity.price.usd_per_hour": 0},
        "capacity.price.usd_per_hour = 0: must be more than 0",
    ),
    _edit(
        "number-quoted",
        {"capacity.price.usd_per_hour": "35.76"},
        "capacity.price.usd_per_hour = '35.76': must be a number, without quotes",
    ),
    _edit(
        "number-with-unit",
        {"capacity.price.usd_per_hour": "36 USD"},
        "capacity.price.usd_per_hour = '36 USD': must be a number",
    ),
    _edit(
        "boolean-quoted",
        {f"{CASE}.headline": "true"},
        "benchmark.test_cases[3].headline = 'true': must be true or false, without quotes",
    ),
    _edit(
        "boolean-number",
        {f"{CASE}.headline": 1},
        "benchmark.test_cases[3].headline = 1: must be true or false",
    ),
    _edit(
        "date-word",
        {"capacity.price.as_of": "today"},
        "capacity.price.as_of = 'today': must be a date such as 2026-05-21",
    ),
    _edit(
        "price-of-the-future",
        {"capacity.price.as_of": "2126-01-01"},
        "capacity.price.as_of = 2126-01-01: is in the future; must be the day the price was read",
    ),
    _edit(
        "price-of-what",
        {"capacity.price.purchase": "savings-plan"},
        "capacity.price.purchase = 'savings-plan': must be 'on-demand', 'spot', 'reservation' or "
        "'capacity-block'",
    ),
    _edit(
        "price-of-where",
        {"capacity.price.region": "Ohio"},
        "capacity.price.region = 'Ohio': must be a region such as us-east-2",
    ),
    _edit(
        "date-number",
        {"capacity.price.as_of": 2026},
        "capacity.price.as_of = 2026: must be a date such as 2026-05-21",
    ),
    _edit(
        "date-and-time",
        {"capacity.price.as_of": "2026-05-21 10:00:00"},
        "capacity.price.as_of = '2026-05-21 10:00:00': must be a date such as 2026-05-21",
    ),
    _edit(
        "mapping-null",
        {"models": None},
        "models = null: must be a mapping with the keys target, draft",
    ),
    _edit(
        "mapping-list",
        {"serving": []},
        "serving = []: must be a mapping with the keys devices, logical_core_size, "
        "tensor_parallel, batch, length, api_key",
    ),
    _edit(
        "mapping-text-in-list",
        {CASE: "Tell me a story"},
        "benchmark.test_cases[3] = 'Tell me a story': must be a mapping with the keys name, "
        "line, set, file, classes, limit, structure, headline",
    ),
    _edit(
        "list-text",
        {"aws.availability_zones": "us-east-2c"},
        "aws.availability_zones = 'us-east-2c': must be a list",
    ),
    _edit(
        "list-mapping",
        {"benchmark.test_cases": {"name": "story"}},
        "benchmark.test_cases = {'name': 'story'}: must be a list",
    ),
    _edit(
        "list-null",
        {"alerts.emails": None},
        "alerts.emails = null: must be a list",
    ),
    _edit(
        "too-few-zones",
        {"aws.availability_zones": ["us-east-2c"]},
        "aws.availability_zones = ['us-east-2c']: must have at least 2 items",
    ),
    _edit(
        "too-many-zones",
        {"aws.availability_zones": [f"us-east-2{letter}" for letter in "abcd"]},
        "aws.availability_zones = ['us-east-2a', 'us-east-2b', 'us-east-2c', 'us-east-2d']: "
        "must have at most 3 items",
    ),
    _edit(
        "no-test-case",
        {"benchmark.test_cases": []},
        "benchmark.test_cases = []: must have at least 1 item",
    ),
    _edit(
        "purchase",
        {"capacity.purchase": "rent"},
        "capacity.purchase = 'rent': must be 'on-demand', 'spot', 'reservation' or "
        "'capacity-block'",
    ),
    _edit(
        "instance-type",
        {"capacity.instance_type": "p5.48xlarge"},
        "capacity.instance_type = 'p5.48xlarge': must be 'trn2.48xlarge'",
    ),
    _edit("devices", {"serving.devices": 6}, "serving.devices = 6: must be 1, 4, 8 or 16"),
    _edit(
        "devices-quoted",
        {"serving.devices": "8"},
        "serving.devices = '8': must be 1, 4, 8 or 16, without quotes",
    ),
    _edit(
        "TP-of-three",
        {"serving.tensor_parallel": 3},
        "serving.tensor_parallel = 3: must be 1, 2, 4, 8, 16, 32 or 64",
    ),
    _edit(
        "LNC-of-three",
        {"serving.logical_core_size": 3},
        "serving.logical_core_size = 3: must be 1 or 2",
    ),
    _edit(
        "mode-unknown",
        {"speculation.mode": "ngram"},
        "speculation.mode = 'ngram': must be 'vanilla', 'fused', 'eagle', 'eagle3', 'medusa' or "
        "'dflash'",
    ),
    _edit(
        "structure",
        {f"{CASE}.structure": "creative"},
        "benchmark.test_cases[3].structure = 'creative': must be 'structured' or 'open-ended'",
    ),
    _edit(
        "kind",
        {"models.draft": LLAMA | {"architecture": ARCHITECTURE | {"kind": "moe"}}},
        "models.draft.architecture.kind = 'moe': must be 'causal-lm', 'eagle-head', "
        "'eagle3-head', 'dflash-draft' or 'medusa-heads'",
    ),
    _edit(
        "name",
        {"name": "My Experiment"},
        "name = 'My Experiment': must be 2 to 20 of a-z, 0-9 and -, beginning with a letter and "
        "not ending with -",
    ),
    _edit(
        "case-name",
        {f"{CASE}.name": "Shake_speare"},
        "benchmark.test_cases[3].name = 'Shake_speare': must be 2 to 40 of a-z, 0-9 and -, with "
        "no - at either end",
    ),
    _edit(
        "region", {"aws.region": "Ohio"}, "aws.region = 'Ohio': must be a region such as us-east-2"
    ),
    _edit(
        "zone-identifier",
        {"aws.availability_zones.1": "use2-az3"},
        "aws.availability_zones[1] = 'use2-az3': must be an availability zone such as us-east-2a",
    ),
    _edit(
        "email",
        {"alerts.emails": ["ops@example.org", "ops"]},
        "alerts.emails[1] = 'ops': must be an email address such as you@example.org",
    ),
    _edit(
        "address-block",
        {"aws.api_access": ["203.0.113.7"]},
        "aws.api_access[0] = '203.0.113.7': must be an IPv4 network such as 203.0.113.0/24",
    ),
    _edit(
        "reservation",
        {"capacity.purchase": "reservation", "capacity.reservation_id": "mine"},
        "capacity.reservation_id = 'mine': must be the identifier of a reservation, such as "
        "cr-0123456789abcdef0",
    ),
    _edit(
        "model-outside",
        {"models.target.id": "../.."},
        "models.target.id = '../..': must be organisation/name, as on the Hugging Face Hub",
    ),
    _edit(
        "quoted-speedup",
        {"alerts.minimum_speedup": "1.2"},
        "alerts.minimum_speedup = '1.2': must be a number, without quotes",
    ),
    _edit(
        "private-access",
        {"aws.api_access": ["10.1.0.0/16"]},
        "aws.api_access[0] = '10.1.0.0/16': is private; EKS sees your public address",
    ),
    _edit(
        "another-partition",
        {"aws.region": "cn-north-1"},
        "aws.region = 'cn-north-1': must be a region of the partition aws",
    ),
    _edit(
        "idle-nodes",
        {"capacity.nodes": 3},
        "capacity.nodes = 3: must be 1, which is enough for 2 claims of 8 devices; every node is "
        "billed",
    ),
    _edit(
        "cache-too-large",
        {"serving.batch": 256, "serving.length": 40960},
        "serving.batch = 256: 256 sequences of 40960 tokens need a KV cache of 14720 GiB; with "
        "64.8 GiB of weights that exceeds 80% of the 768 GiB of device memory; use a smaller "
        "batch or length",
    ),
    _edit(
        "family-nobody-compiles",
        {"models.draft": LLAMA | {"architecture": ARCHITECTURE | {"family": "qwen_3"}}},
        "models.draft.architecture.family = 'qwen_3': must be 'llama', 'qwen2' or 'qwen3'",
    ),
    _edit(
        "email-twice",
        {"alerts.emails": ["a@example.org", "a@example.org"]},
        "alerts.emails[1] = 'a@example.org': is duplicated; list each address once",
    ),
    _edit(
        "image-without-tag",
        {"benchmark.image": "registry.example.com/benchmark"},
        "benchmark.image = 'registry.example.com/benchmark': must be an image with a tag or a "
        "digest",
    ),
    _edit(
        "idle-minutes-between-periods",
        {"alerts.idle_minutes": 17},
        "alerts.idle_minutes = 17: must be a multiple of 5",
    ),
    _edit(
        "blank-line",
        {"benchmark.test_cases.0.line": "   "},
        "benchmark.test_cases[0].line = '   ': must be more than whitespace",
    ),
    _edit(
        "half-the-internet",
        {"aws.api_access": ["0.0.0.0/1", "128.0.0.0/1"]},
        "aws.api_access[0] = '0.0.0.0/1': must be /8 or narrower; list your own addresses",
        "aws.api_access[1] = '128.0.0.0/1': must be /8 or narrower; list your own addresses",
    ),
    _edit(
        "model",
        {"models.target.id": "Qwen3-32B"},
        "models.target.id = 'Qwen3-32B': must be organisation/name, as on the Hugging Face Hub",
    ),
    _edit(
        "branch",
        {"models.target.revision": "main"},
        "models.target.revision = 'main': must be a commit, 40 hexadecimal digits; a branch "
        "can change its content; the figures known of Qwen/Qwen3-32B are of "
        "9216db5781bf21249d130ec9da846c4624c16137",
    ),
    _edit(
        "no-commit",
        {"models.draft.revision": ABSENT},
        "models.draft.revision: is required; the figures known of Qwen/Qwen3-1.7B are of "
        "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
    ),
    _edit(
        "no-commit-of-a-draft-of-one-variant",
        {"speculation.draft": {"id": "Qwen/Qwen3-0.6B"}},
        "speculation.draft.revision: is required; the figures known of Qwen/Qwen3-0.6B are of "
        "c1899de289a04d12100db370d81485cdf75e47ca",
    ),
    _edit(
        "no-commit-of-a-model-nobody-knows",
        {"models.draft": {"id": "example/small"}},
        "models.draft.revision: is required",
    ),
    _edit(
        "no-commit-and-no-id",
        {"models.draft": {"revision": "main", "id": ["Qwen/Qwen3-1.7B"]}},
        "models.draft.id = ['Qwen/Qwen3-1.7B']: must be text; put it in quotes",
        "models.draft.revision = 'main': must be a commit, 40 hexadecimal digits; a branch "
        "can change its content",
    ),
    _edit(
        "short-commit",
        {"models.draft.revision": "70d244c"},
        "models.draft.revision = '70d244c': must be a commit, 40 hexadecimal digits; a branch "
        "can change its content; the figures known of Qwen/Qwen3-1.7B are of "
        "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
    ),
    _edit(
        "window-of-none",
        {"speculation.num_speculative_tokens": 0},
        "speculation.num_speculative_tokens = 0: must be at least 1",
    ),
    _edit(
        "window-too-wide",
        {"speculation.num_speculative_tokens": 16},
        "speculation.num_speculative_tokens = 16: must be at most 15",
    ),
]

RULES = [
    _edit(
        "zone-of-another-region",
        {"aws.region": "us-west-2"},
        "aws.availability_zones[0] = 'us-east-2a': must be a zone of aws.region, us-west-2",
        "aws.availability_zones[1] = 'us-east-2c': must be a zone of aws.region, us-west-2",
    ),
    _edit(
        "zone-twice",
        {"aws.availability_zones": ["us-east-2c", "us-east-2c"]},
        "aws.availability_zones[1] = 'us-east-2c': is duplicated; list each zone once",
    ),
    _edit(
        "zone-not-listed",
        {"capacity.availability_zone": "us-east-2b"},
        "capacity.availability_zone = 'us-east-2b': must be in aws.availability_zones: "
        "us-east-2a, us-east-2c",
    ),
    _edit(
        "whole-internet",
        {"aws.api_access": ["203.0.113.0/24", "0.0.0.0/0"]},
        "aws.api_access[1] = '0.0.0.0/0': must be /8 or narrower; list your own addresses",
    ),
    _edit(
        "host-bits",
        {"aws.api_access": ["203.0.113.7/24"]},
        "aws.api_access[0] = '203.0.113.7/24': has host bits set; the network is 203.0.113.0/24",
    ),
    _edit(
        "no-such-address",
        {"aws.api_access": ["203.0.313.0/24"]},
        "aws.api_access[0] = '203.0.313.0/24': must be an IPv4 network such as 203.0.113.0/24",
    ),
    _edit(
        "no-such-prefix",
        {"aws.api_access": ["203.0.113.0/33"]},
        "aws.api_access[0] = '203.0.113.0/33': must be an IPv4 network such as 203.0.113.0/24",
    ),
    _edit(
        "capacity-block-without-reservation",
        {"capacity.purchase": "capacity-block"},
        "capacity.reservation_id = null: is required with purchase capacity-block",
    ),
    _edit(
        "reservation-without-reservation",
        {"capacity.purchase": "reservation"},
        "capacity.reservation_id = null: is required with purchase reservation",
    ),
    *(
        _edit(
            f"{purchase}-with-reservation",
            {"capacity.purchase": purchase, "capacity.reservation_id": "cr-0123456789abcdef0"},
            "capacity.reservation_id = 'cr-0123456789abcdef0': is allowed only with purchase "
            "reservation or capacity-block",
        )
        for purchase in ("on-demand", "spot")
    ),
    _edit(
        "runtime-unknown",
        {"runtime": "vllm-0.29"},
        "runtime = 'vllm-0.29': must be one of vllm-0.9.1-nxdi, vllm-0.16-nxdi, vllm-neuron-1.x",
    ),
    *(
        _edit(
            f"mode-{mode}",
            {"runtime": "vllm-0.16-nxdi", "speculation.mode": mode},
            f"speculation.mode = '{mode}': runtime vllm-0.16-nxdi serves eagle, eagle3; {mode} is "
            f"served by {able}",
        )
        for mode, able in (
            ("vanilla", "vllm-0.9.1-nxdi (llama, qwen2, qwen3, as a job)"),
            ("medusa", "vllm-0.9.1-nxdi (llama, as a job)"),
            ("dflash", "vllm-neuron-1.x (llama, qwen3)"),
        )
    ),
    _edit(
        "mode-of-the-other-runtime",
        {"speculation.mode": "eagle3"},
        "speculation.mode = 'eagle3': runtime vllm-0.9.1-nxdi serves fused, eagle, "
        "vanilla, medusa; eagle3 is served by vllm-0.16-nxdi (llama), vllm-neuron-1.x (llama, "
        "qwen3)",
    ),
    _edit(
        "fused-on-the-plugin",
        {"runtime": "vllm-0.16-nxdi"},
        "speculation.mode = 'fused': runtime vllm-0.16-nxdi serves eagle, eagle3; fused is "
        "served by vllm-0.9.1-nxdi (llama, qwen2, qwen3)",
    ),
    _edit(
        "target-unknown",
        {"models.target.id": "meta-llama/Llama-3.3-70B"},
        "models.target.architecture = null: is required, since meta-llama/Llama-3.3-70B is not "
        f"known here (did you mean meta-llama/Llama-3.3-70B-Instruct?); {ADD}",
    ),
    _edit(
        "draft-unknown",
        {"models.draft.id": "qwen/qwen3-1.7b"},
        "models.draft.architecture = null: is required, since qwen/qwen3-1.7b is not known here "
        f"(did you mean Qwen/Qwen3-1.7B?); {ADD}",
    ),
    _edit(
        "architecture-contradicts",
        {
            "models.draft.architecture": QWEN3_HEAD["architecture"]
            | {"kind": "causal-lm", "layers": 28}
        },
        "models.draft.architecture.hidden = 5120: must be 2048, as in Qwen/Qwen3-1.7B; "
        "architecture can be left out",
        "models.draft.architecture.tied_embeddings = false: must be true, as in Qwen/Qwen3-1.7B; "
        "architecture can be left out",
        "models.draft.architecture.checkpoint_gib = 1.5: must be 3.8, as in Qwen/Qwen3-1.7B; "
        "architecture can be left out",
    ),
    _edit(
        "architecture-contradicts-yes-or-no",
        {
            "models.draft.architecture": QWEN3_HEAD["architecture"]
            | {"kind": "causal-lm", "layers": 28, "hidden": 2048, "checkpoint_gib": 3.8}
        },
        "models.draft.architecture.tied_embeddings = false: must be true, as in Qwen/Qwen3-1.7B; "
        "architecture can be left out",
    ),
    _edit(
        "head-as-target",
        {"models.target": EAGLE_HEAD},
        "models.target = 'example/llama-70b-eagle': is of kind eagle-head; must be causal-lm",
    ),
    _edit(
        "eagle-without-a-head",
        EAGLE | {"models.draft": LLAMA},
        "models.draft = 'meta-llama/Llama-3.2-1B': is of kind causal-lm; mode eagle needs "
        "eagle-head",
    ),
    _edit(
        "eagle-for-qwen",
        {"speculation.mode": "eagle", "models.draft": QWEN3_HEAD},
        "models.target = 'Qwen/Qwen3-32B': is of family qwen3; mode eagle is served by "
        "vllm-0.9.1-nxdi (llama), vllm-0.16-nxdi (llama)",
    ),
    _edit(
        "eagle3-for-qwen-on-the-plugin",
        {
            "runtime": "vllm-0.16-nxdi",
            "speculation.mode": "eagle3",
            "models.draft": QWEN3_HEAD,
        },
        "models.target = 'Qwen/Qwen3-32B': is of family qwen3; mode eagle3 is served by "
        "vllm-0.16-nxdi (llama), vllm-neuron-1.x (llama, qwen3)",
    ),
    _edit(
        "a-qwen-head-for-llama",
        EAGLE
        | {
            "models.draft": EAGLE_HEAD
            | {"architecture": EAGLE_HEAD["architecture"] | {"family": "qwen3"}}
        },
        "models.draft = 'example/llama-70b-eagle': is of family qwen3; must be the target's, "
        "llama: NxDI builds the draft with the target's model class",
    ),
    _edit(
        "fused-with-a-head",
        {"models.draft": EAGLE_HEAD},
        "models.draft = 'example/llama-70b-eagle': is of kind eagle-head; mode fused needs "
        "causal-lm",
    ),
    _edit(
        "eagle3-with-an-older-head",
        EAGLE | {"runtime": "vllm-0.16-nxdi", "speculation.mode": "eagle3"},
        "models.draft = 'example/llama-70b-eagle': is of kind eagle-head; mode eagle3 needs "
        "eagle3-head",
    ),
    _edit(
        "a-known-eagle3-head-that-nxdi-cannot-compute",
        of_file("eagle3-nxdi")
        | {
            "models.draft": {
                "id": "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
                "revision": "f4fa34a8f803a0ba75d048d6b3dbc1ad5149e9ac",
            }
        },
        "models.draft = 'RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3': has "
        "norm_before_residual, which NxDI does not compute; vllm-neuron-1.x serves it as it is",
    ),
    _edit(
        "a-head-of-ones-own-that-nxdi-cannot-compute",
        EAGLE
        | {
            "runtime": "vllm-0.16-nxdi",
            "speculation.mode": "eagle3",
            "models.draft": EAGLE3_HEAD
            | {"architecture": EAGLE3_HEAD["architecture"] | {"norm_before_residual": True}},
        },
        "models.draft = 'example/llama-70b-eagle3': has norm_before_residual, which NxDI does not "
        "compute; vllm-neuron-1.x serves it as it is",
    ),
    _edit(
        "dflash-of-another-window",
        of_file("dflash") | {"speculation.num_speculative_tokens": 8},
        "speculation.num_speculative_tokens = 8: must be 9: "
        "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat makes 9 drafts in a step",
    ),
    _edit(
        "dflash-without-its-window",
        of_file("dflash") | {"speculation": {"mode": "dflash"}},
        "speculation.num_speculative_tokens: is required; "
        "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat takes 9 alone",
    ),
    _edit(
        "dflash-of-an-unknown-block",
        of_file("dflash")
        | {
            "models.draft": {"id": "example/block", "revision": "1" * 40}
            | {"architecture": EAGLE3_HEAD["architecture"] | OWN_BLOCK}
        },
        "models.draft.architecture.drafts: is required of a dflash-draft: block_size - 1 of its "
        "config.json",
    ),
    _edit(
        "more-medusa-heads-than-there-are",
        of_file("medusa")
        | {
            "models.draft.architecture": MEDUSA_HEADS | {"drafts": 3},
            "models.draft.id": "example/heads",
        },
        "speculation.num_speculative_tokens = 4: must be at most 3: example/heads makes at most 3 "
        "drafts in a step",
    ),
    _edit(
        "an-eagle3-head-of-qwen-layers-on-nxdi",
        of_file("eagle3-nxdi")
        | {
            "models.draft": EAGLE3_HEAD
            | {"architecture": EAGLE3_HEAD["architecture"] | {"family": "qwen3", "hidden": 4096}}
        },
        "models.draft = 'example/llama-70b-eagle3': is of family qwen3; must be the target's, "
        "llama: NxDI builds the draft with the target's model class",
    ),
    _edit(
        "a-head-of-another-target",
        EAGLE
        | {
            "models.draft": EAGLE_HEAD
            | {
                "architecture": EAGLE_HEAD["architecture"]
                | {"trained_for": "meta-llama/Meta-Llama-3-70B-Instruct"}
            }
        },
        "models.draft = 'example/llama-70b-eagle': is trained for "
        "meta-llama/Meta-Llama-3-70B-Instruct; must be for the target, "
        "meta-llama/Llama-3.3-70B-Instruct",
    ),
    _edit(
        "a-head-of-another-target-and-of-its-size",
        of_file("eagle3-qwen3")
        | {
            "models.draft": {
                "id": "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3",
                "revision": "6" * 40,
            }
        },
        "models.draft = 'RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3': is trained for "
        "meta-llama/Llama-3.3-70B-Instruct; must be for the target, Qwen/Qwen3-32B",
    ),
    _edit(
        "families",
        {"models.draft": SMALL | {"architecture": ARCHITECTURE | {"vocabulary": 151936}}},
        "models.draft = 'example/small': is of family llama; must be the target's, "
        "qwen3: NxDI builds the draft with the target's model class",
    ),
    _edit(
        "vocabularies",
        {"models.draft": LLAMA},
        "models.draft = 'meta-llama/Llama-3.2-1B': has a vocabulary of 128256; must be the "
        "target's, 151936",
        "models.draft = 'meta-llama/Llama-3.2-1B': is of family llama; must be the target's, "
        "qwen3: NxDI builds the draft with the target's model class",
    ),
    _edit(
        "head-of-another-size",
        EAGLE
        | {
            "runtime": "vllm-0.16-nxdi",
            "speculation.mode": "eagle3",
            "models.draft": EAGLE3_HEAD,
            "models.target": LLAMA_70B
            | {"id": "example/llama", "architecture": LLAMA_70B["architecture"] | {"hidden": 4096}},
        },
        "models.draft = 'example/llama-70b-eagle3': has hidden size 8192; a head must have the "
        "target's, 4096",
    ),
    _edit(
        "draft-as-large",
        {"models.draft.id": "Qwen/Qwen3-32B"},
        "models.draft = 'Qwen/Qwen3-32B': has 61.0 GiB of weights; must be smaller than the "
        "target's 61.0 GiB",
    ),
    _edit(
        "window-of-one",
        {"speculation.num_speculative_tokens": 1},
        "speculation.num_speculative_tokens = 1: must be at least 2: NxDI verifies a window of k "
        "positions with k - 1 draft tokens",
    ),
    _edit(
        "TP",
        {"serving.tensor_parallel": 64},
        "serving.tensor_parallel = 64: must be 32: 8 devices x 8 cores / logical_core_size 2",
    ),
    _edit(
        "LNC",
        {"serving.logical_core_size": 1},
        "serving.tensor_parallel = 32: must be 64: 8 devices x 8 cores / logical_core_size 1",
    ),
    _edit(
        "TP-that-does-not-divide-its-cores",
        of_file("eagle3") | {"serving.tensor_parallel": 32},
        "serving.tensor_parallel = 32: must divide 16: 4 devices x 8 cores / logical_core_size 2",
    ),
    _edit(
        "memory-of-the-cores-that-are-used",
        of_file("eagle3-qwen3") | {"serving.tensor_parallel": 2},
        "serving.devices = 8: 63.9 GiB of weights exceed 80% of the 48 GiB of device memory; use a "
        "larger tensor_parallel",
    ),
    _edit(
        "TP-beyond-the-largest",
        {"serving.devices": 16, "serving.logical_core_size": 1, "serving.tensor_parallel": 64},
        "serving.logical_core_size = 1: 16 devices x 8 cores / logical_core_size 1 give "
        "tensor_parallel 128; NxDI supports at most 64",
        "serving.devices = 16: 2 claims of 16 devices need more than 1 x trn2.48xlarge with 16 "
        "devices; use fewer devices or more capacity.nodes",
    ),
    _edit(
        "claims",
        {"serving.devices": 16, "serving.tensor_parallel": 64},
        "serving.devices = 16: 2 claims of 16 devices need more than 1 x trn2.48xlarge with 16 "
        "devices; use fewer devices or more capacity.nodes",
    ),
    _edit(
        "memory",
        {
            "serving.devices": 1,
            "serving.tensor_parallel": 4,
            "models.draft.id": "Qwen/Qwen3-14B",
        },
        "serving.devices = 1: 88.5 GiB of weights exceed 80% of the 96 GiB of device memory; use "
        "more devices",
    ),
    _edit(
        "length-beyond-the-target",
        {"serving.length": 40961},
        "serving.length = 40961: must be at most 40960, the context of the target Qwen/Qwen3-32B",
    ),
    _edit(
        "length-beyond-the-draft",
        EAGLE | {"models.draft.architecture.max_length": 512},
        "serving.length = 1024: must be at most 512, the context of the draft "
        "example/llama-70b-eagle",
    ),
    _edit(
        "length-too-short", {"serving.length": 100}, "serving.length = 100: must be at least 128"
    ),
    _edit(
        "load-beyond-length",
        {"benchmark.mean_output_tokens": 947},
        "benchmark.mean_output_tokens = 947: input, output and three standard deviations add up "
        "to 1011 tokens; the limit is 1010: serving.length 1024 minus two windows of 7",
    ),
    _edit(
        "deviations-beyond-length",
        {"benchmark.stddev_input_tokens": 16, "benchmark.stddev_output_tokens": 100},
        "benchmark.mean_output_tokens = 600: input, output and three standard deviations add up "
        "to 1012 tokens; the limit is 1010: serving.length 1024 minus two windows of 7",
    ),
    _edit(
        "input-too-short",
        {"benchmark.mean_input_tokens": 40},
        "benchmark.mean_input_tokens = 40: must be at least 41, llmperf's own minimum",
    ),
    _edit(
        "concurrency",
        {"benchmark.concurrency": 5, "benchmark.requests": 8},
        "benchmark.concurrency = 5: must be at most 4, serving.batch: more would measure the queue",
    ),
    _edit(
        "no-rounds",
        {"benchmark.rounds": 0},
        "benchmark.rounds = 0: must be at least 1",
    ),
    _edit(
        "too-many-rounds",
        {"benchmark.rounds": 101},
        "benchmark.rounds = 101: must be at most 100",
    ),
    *(
        _edit(
            f"rounds-of-{type(value).__name__}",
            {"benchmark.rounds": value},
            f"benchmark.rounds = {shown}: must be a whole number, or a mapping with the keys "
            "at_least, at_most and half_width",
        )
        for value, shown in ((2.5, "2.5"), ("6", "'6'"), (True, "true"), ([3, 6], "[3, 6]"))
    ),
    _edit(
        "a-range-of-too-many-rounds",
        {"benchmark.rounds": {"at_least": 4, "at_most": 101, "half_width": 0.05}},
        "benchmark.rounds.at_most = 101: must be at most 100",
    ),
    _edit(
        "a-range-of-too-few-rounds",
        {"benchmark.rounds": {"at_least": 2, "at_most": 30, "half_width": 0.05}},
        "benchmark.rounds.at_least = 2: must be at least 3, the fewest that an interval needs",
    ),
    _edit(
        "a-range-that-ends-before-it-begins",
        {"benchmark.rounds": {"at_least": 9, "at_most": 4, "half_width": 0.05}},
        "benchmark.rounds.at_least = 9: must be at most 4, which is at_most",
    ),
    _edit(
        "a-range-without-a-precision",
        {"benchmark.rounds": {"at_least": 4, "at_most": 30}},
        "benchmark.rounds.half_width = null: is required, because at_most is more than at_least",
    ),
    _edit(
        "a-precision-without-a-range",
        {"benchmark.rounds": {"at_least": 4, "at_most": 4, "half_width": 0.05}},
        "benchmark.rounds.half_width = 0.05: must be absent, because at_most equals at_least",
    ),
    _edit(
        "a-range-in-words",
        {"benchmark.rounds": {"at_least": "4", "at_most": 30, "half_width": 1}},
        "benchmark.rounds.at_least = '4': must be an integer, without quotes",
        "benchmark.rounds.half_width = 1: must be less than 1",
    ),
    _edit(
        "a-misspelt-range",
        {"benchmark.rounds": {"at_last": 4, "at_most": 30, "half_width": 0.05}},
        "benchmark.rounds.at_last = 4: unknown key; did you mean at_least? allowed: at_most, "
        "at_least, half_width",
    ),
    _edit(
        "temperature",
        {"benchmark.temperature": 0.7},
        "benchmark.temperature = 0.7: must be 0: mode fused of runtime vllm-0.9.1-nxdi always "
        "decodes greedily, so only the baseline would follow it",
    ),
    _edit(
        "temperature-eagle",
        EAGLE | {"benchmark.temperature": 1},
        "benchmark.temperature = 1.0: must be 0: mode eagle of runtime vllm-0.9.1-nxdi always "
        "decodes greedily, so only the baseline would follow it",
    ),
    _edit(
        "case-twice",
        {f"{CASE}.name": "counting"},
        "benchmark.test_cases[2].name = 'counting': is duplicated; must be unique",
        "benchmark.test_cases[3].name = 'counting': is duplicated; must be unique",
    ),
    _edit(
        "no-structured-headline",
        {"benchmark.test_cases.0.headline": False},
        "benchmark.test_cases: one structured case must have headline: true; none has",
    ),
    _edit(
        "no-open-ended-headline",
        {"benchmark.test_cases.1": ABSENT},
        "benchmark.test_cases: one open-ended case must have headline: true; none has",
    ),
    _edit(
        "two-headlines",
        {f"{CASE}.headline": True},
        "benchmark.test_cases[3].headline = true: only one open-ended case may have true; "
        "meaning-of-life has it",
    ),
]

SET: dict[str, Any] = {"name": "code", "set": "humaneval"}
TOOLS: dict[str, Any] = {"name": "tools", "set": "bfcl"}
LADDER: dict[str, Any] = {"benchmark.concurrency": ABSENT, "benchmark.requests": ABSENT}


def _load(name: str, points: list[Any], *errors: str, **changes: Any) -> Bad:
    """A bad list of load points."""
    return _edit(f"load-{name}", LADDER | {"benchmark.load": points} | changes, *errors)


LOADS = [
    _edit(
        "no-load",
        LADDER,
        "benchmark.concurrency: is required, or load in its place",
    ),
    _edit(
        "no-requests",
        {"benchmark.requests": ABSENT},
        "benchmark.requests: is required, because benchmark has no requests",
    ),
    _edit(
        "concurrency-beside-load",
        {"benchmark.load": [{"concurrency": 2}]},
        "benchmark.concurrency = 4: must be absent beside load, which has the load points",
    ),
    _load("empty", [], "benchmark.load = []: must have at least 1 item"),
    _load(
        "no-list",
        {"concurrency": 4},  # type: ignore[arg-type]  # the mistake itself
        "benchmark.load = {'concurrency': 4}: must be a list",
    ),
    _load(
        "unknown-key",
        [{"concurency": 4}],
        "benchmark.load[0].concurency = 4: unknown key; did you mean concurrency? allowed: "
        "concurrency, requests, rate, seconds",
    ),
    _load(
        "of-nothing",
        [{"requests": 4}],
        "benchmark.load[0].concurrency: is required, or rate in its place",
    ),
    _load(
        "both",
        [{"concurrency": 4, "rate": 0.5, "seconds": 60, "requests": 8}],
        "benchmark.load[0].concurrency = 4: must be absent beside rate",
        "benchmark.load[0].requests = 8: must be absent beside rate",
    ),
    _load(
        "seconds-of-a-concurrency",
        [{"concurrency": 4, "requests": 4, "seconds": 60}],
        "benchmark.load[0].seconds = 60.0: must be absent beside concurrency",
    ),
    _load(
        "rate-of-0",
        [{"rate": 0, "seconds": 60}],
        "benchmark.load[0].rate = 0: must be more than 0",
    ),
    _load(
        "rate-in-quotes",
        [{"rate": "0.5", "seconds": 60}],
        "benchmark.load[0].rate = '0.5': must be a number, without quotes",
    ),
    _load(
        "rate-too-high",
        [{"rate": 5000, "seconds": 60}],
        "benchmark.load[0].rate = 5000: must be at most 1000",
    ),
    _load("no-seconds", [{"rate": 1}], "benchmark.load[0].seconds: is required with rate"),
    _load(
        "too-short",
        [{"rate": 0.1, "seconds": 5}],
        "benchmark.load[0].seconds = 5.0: must be at least 10: at this rate requests are so far "
        "apart",
    ),
    _load(
        "too-long",
        [{"rate": 1, "seconds": 700}],
        "benchmark.load[0].seconds = 700.0: must be at most 600, half of "
        "benchmark.timeout_seconds: the last answers need the rest",
    ),
    _load(
        "without-requests",
        [{"concurrency": 2, "requests": 4}, {"concurrency": 4}, {"concurrency": 8}],
        "benchmark.requests: is required, because benchmark.load[1] has no requests",
    ),
    _load(
        "twice",
        [
            {"concurrency": 2, "requests": 4},
            {"rate": 0.5, "seconds": 60},
            {"concurrency": 2, "requests": 8},
            {"rate": 0.5, "seconds": 30},
        ],
        "benchmark.load[2].concurrency = 2: is duplicated; list each load point once",
        "benchmark.load[3].rate = 0.5: is duplicated; list each load point once",
    ),
    _load(
        "all-beyond-the-batch",
        [{"concurrency": 16, "requests": 16}, {"concurrency": 8, "requests": 8}],
        "benchmark.load[1].concurrency = 8: must be at most 4, serving.batch: more would measure "
        "the queue",
    ),
    _load(
        "too-many-cells",
        [{"concurrency": number, "requests": 1} for number in range(1, 9)],
        "benchmark.test_cases = 10: 2 variants x 10 test cases x 8 load points are 160 cells; must "
        "be at most 150, or the dashboards outgrow a CloudFormation template",
    ),
]

PROMPTS = [
    _edit(
        "set-unknown",
        {CASE: SET | {"set": "gsm8k"}},
        "benchmark.test_cases[3].set = 'gsm8k': must be one of humaneval, mt-bench, bfcl",
    ),
    _edit(
        "set-beside-line",
        {f"{CASE}.set": "mt-bench"},
        "benchmark.test_cases[3].set = 'mt-bench': must be absent beside line: a test case has one "
        "of line, set and file",
    ),
    _edit(
        "structure-of-a-set",
        {CASE: SET | {"structure": "structured", "headline": True}},
        "benchmark.test_cases[3].structure = 'structured': is allowed only with line",
        "benchmark.test_cases[3].headline = true: is allowed only with line",
    ),
    _edit(
        "line-without-structure",
        {f"{CASE}.structure": ABSENT},
        "benchmark.test_cases[3].structure: is required with line",
    ),
    _edit(
        "line-without-its-length",
        {"benchmark.mean_input_tokens": ABSENT},
        "benchmark.mean_input_tokens: is required with a line",
    ),
    _edit(
        "classes-of-a-line",
        {f"{CASE}.classes": ["coding"], f"{CASE}.limit": 3},
        "benchmark.test_cases[3].classes = ['coding']: is allowed only with set or file",
        "benchmark.test_cases[3].limit = 3: is allowed only with set or file",
    ),
    _edit(
        "classes-unknown",
        {CASE: TOOLS | {"classes": ["parallel", "java", "parallel"]}},
        "benchmark.test_cases[3].classes[1] = 'java': is no class of bfcl; must be one of "
        "simple_python, multiple, parallel, parallel_multiple",
        "benchmark.test_cases[3].classes[2] = 'parallel': is duplicated; list each class once",
    ),
    _edit(
        "limit-of-0",
        {CASE: SET | {"limit": 0}},
        "benchmark.test_cases[3].limit = 0: must be at least 1",
    ),
    _edit(
        "file-elsewhere",
        {CASE: {"name": "own", "file": "../prompts.jsonl"}},
        "benchmark.test_cases[3].file = '../prompts.jsonl': must be the name of a .jsonl or .txt "
        "file in the experiment's folder, of A-Z, a-z, 0-9 and . _ -",
    ),
    _edit(
        "file-missing",
        {CASE: {"name": "own", "file": "no-such.jsonl"}},
        "benchmark.test_cases[3].file = 'no-such.jsonl': no file no-such.jsonl",
    ),
    _edit(
        "tools-without-a-parser",
        EAGLE | {CASE: TOOLS},
        "benchmark.test_cases[3].set = 'bfcl': has tools, and no parser of "
        "meta-llama/Llama-3.3-70B-Instruct's tool calls is known; give one in "
        "models.target.architecture.tool_parser",
    ),
    _edit(
        "objectives-of-nothing",
        {"benchmark.objectives": {}},
        "benchmark.objectives: must have ttft_p90_ms or tpot_p90_ms or e2e_p90_ms",
    ),
    _edit(
        "objectives-that-contradict-each-other",
        {"benchmark.objectives": {"ttft_p90_ms": 1000, "e2e_p90_ms": 900}},
        "benchmark.objectives.e2e_p90_ms = 900.0: must be more than ttft_p90_ms, 1000: no answer "
        "ends before it begins",
    ),
    _edit(
        "objective-of-0",
        {"benchmark.objectives": {"tpot_p90_ms": 0}},
        "benchmark.objectives.tpot_p90_ms = 0: must be more than 0",
    ),
    _edit(
        "chat-template-text",
        {"benchmark.chat_template_kwargs": "enable_thinking"},
        "benchmark.chat_template_kwargs = 'enable_thinking': must be a mapping",
    ),
]

SWEEP: dict[str, Any] = swept()


def _sweep(name: str, changes: dict[str, Any], *errors: str) -> Bad:
    """A bad sweep of the article's pair."""
    return _edit(f"sweep-{name}", SWEEP | changes, *errors)


SWEEPS = [
    _sweep(
        "of-jobs-that-cost-too-much",
        {"sweep.mode": "vanilla", "sweep.at_most_usd": 100},
        "sweep.mode = 'vanilla': runs as a job, and a sweep serves what it measures; list the "
        "variants with speculation instead",
    ),
    _edit(
        "neither-listed-nor-swept",
        {"speculation": ABSENT},
        "speculation: is required, or sweep in its place",
    ),
    _edit("no-quality", {"quality": ABSENT}, "quality: is required with speculation"),
    _edit(
        "listed-and-swept",
        {"sweep": {"mode": "fused", "windows": [7], "at_most_usd": 9}},
        "sweep = {'mode': 'fused', 'windows': [7], 'at_most_usd': 9.0}: must be absent beside "
        "speculation, which lists the variants",
    ),
    _sweep(
        "with-quality",
        {"quality": {"limit": 50}},
        "quality = {'limit': 50}: must be absent beside sweep, whose servers end with their "
        "measurement",
    ),
    _sweep(
        "with-a-range-of-rounds",
        {"benchmark.rounds": {"at_least": 4, "at_most": 30, "half_width": 0.05}},
        "benchmark.rounds = {'at_most': 30, 'at_least': 4, 'half_width': 0.05}: must be a number "
        "with sweep: whether a range is enough is decided on both sides of a comparison, and these "
        "are measured at different times",
    ),
    _sweep(
        "no-mapping",
        {"sweep": [3, 7]},
        "sweep = [3, 7]: must be a mapping with the keys mode, drafts, windows, batches, "
        "at_most_usd, run",
    ),
    _sweep("no-window", {"sweep.windows": []}, "sweep.windows = []: must have at least 1 item"),
    _sweep("no-limit", {"sweep.at_most_usd": ABSENT}, "sweep.at_most_usd: is required"),
    _sweep("run", {"sweep.run": 0}, "sweep.run = 0: must be at least 1"),
    _sweep(
        "window-too-wide",
        {"sweep.windows": [3, 16]},
        "sweep.windows[1] = 16: must be at most 15",
    ),
    _sweep(
        "mode-not-served",
        {"sweep.mode": "dflash", "sweep.windows": [3, 7]},
        "sweep.mode = 'dflash': runtime vllm-0.9.1-nxdi serves fused, eagle, vanilla, medusa; "
        "dflash is served by vllm-neuron-1.x (llama, qwen3)",
    ),
    _sweep(
        "window-of-one",
        {"sweep.windows": [3, 7, 1]},
        "sweep.windows[2] = 1: must be at least 2: NxDI verifies a window of k positions with k - "
        "1 draft tokens",
    ),
    _sweep(
        "window-twice",
        {"sweep.windows": [7, 3, 7]},
        "sweep.windows[2] = 7: is duplicated; list each window once",
    ),
    _sweep(
        "batch-twice",
        {"sweep.batches": [4, 4]},
        "sweep.batches[1] = 4: is duplicated; list each batch once",
    ),
    _sweep(
        "draft-twice",
        {"sweep.drafts": [SMALL_DRAFT, SMALL_DRAFT]},
        f"sweep.drafts[1] = '{SMALL_DRAFT['id']}@{SMALL_DRAFT['revision']}': is duplicated; "
        "list each draft once",
    ),
    _sweep(
        "no-draft",
        {"models.draft": ABSENT},
        "models.draft = null: is required: mode fused needs a draft of kind causal-lm",
    ),
    _sweep(
        "draft-unknown",
        {"sweep.drafts": [SMALL_DRAFT, SMALL_DRAFT | {"id": "example/small"}]},
        "sweep.drafts[1].architecture = null: is required, since example/small is not known "
        f"here; {ADD}",
    ),
    _sweep(
        "draft-of-another-family",
        {"sweep.drafts": [SMALL_DRAFT, LLAMA]},
        "sweep.drafts[1] = 'meta-llama/Llama-3.2-1B': has a vocabulary of 128256; must be the "
        "target's, 151936",
        "sweep.drafts[1] = 'meta-llama/Llama-3.2-1B': is of family llama; must be the target's, "
        "qwen3: NxDI builds the draft with the target's model class",
    ),
    _sweep(
        "draft-of-another-kind",
        {"sweep.drafts": [SMALL_DRAFT, QWEN3_HEAD]},
        "sweep.drafts[1] = 'example/qwen3-32b-eagle3': is of kind eagle3-head; mode fused needs "
        "causal-lm",
    ),
    _sweep(
        "batch-too-large-for-the-memory",
        {"sweep.batches": [4, 256], "serving.length": 16384},
        "sweep.batches[1] = 256: 256 sequences of 16384 tokens need a KV cache of 5888 GiB; with "
        "64.8 GiB of weights that exceeds 80% of the 768 GiB of device memory; use a smaller batch "
        "or length",
    ),
    _sweep(
        "usual-batch-too-large-for-the-memory",
        {"serving.batch": 256, "serving.length": 16384},
        "serving.batch = 256: 256 sequences of 16384 tokens need a KV cache of 5888 GiB; with 64.8 "
        "GiB of weights that exceeds 80% of the 768 GiB of device memory; use a smaller batch or "
        "length",
    ),
    _sweep(
        "load-above-a-batch",
        {"sweep.batches": [4, 2], "sweep.windows": [3, 7]},
        "benchmark.concurrency = 4: must be at most 2, sweep.batches[1]: more would measure the "
        "queue",
    ),
    _sweep(
        "more-nodes-than-variants",
        {"sweep.windows": [3, 7], "capacity.nodes": 4},
        "capacity.nodes = 4: must be at most 3, the variants of the sweep; every node is billed",
    ),
    _sweep(
        "too-many-cells",
        {"sweep.windows": [*range(2, 16)], "sweep.at_most_usd": 9999, "sweep.batches": [4, 8]},
        "benchmark.test_cases = 10: 30 variants x 10 test cases are 300 cells; must be at most "
        "150, or the dashboards outgrow a CloudFormation template",
    ),
    _sweep(
        "dear-for-its-compiles",
        ON_TRAINIUM
        | {"sweep.at_most_usd": 150, "sweep.windows": [3, 7, 9, 11, 15], "benchmark.rounds": 1},
        "sweep.at_most_usd = 150.0: must be at least 203, the estimate, mostly for 6 compiles of "
        "45 minutes, 1 at a time; or sweep less",
    ),
    _sweep(
        "dear-for-its-measurements",
        {"sweep.at_most_usd": 120, "sweep.windows": [7], "benchmark.rounds": 30},
        "sweep.at_most_usd = 120.0: must be at least 130, the estimate, mostly for 2 measurements "
        "of 202 minutes, 2 at a time; or sweep less",
    ),
]


def _job(name: str, changes: dict[str, Any], *errors: str) -> Bad:
    """A bad experiment of the article's pair as jobs."""
    return _edit(f"jobs-{name}", VANILLA | changes, *errors)


MEDUSA_HEADS = {"id": "FasterDecoding/medusa-vicuna-7b-v1.3", "revision": "1" * 40}
SMALL_VICUNA: dict[str, Any] = {
    "id": "example/small-vicuna",
    "revision": "1" * 40,
    "architecture": ARCHITECTURE
    | {"vocabulary": 32000, "max_length": 2048, "tied_embeddings": False},
}

JOBS = [
    _job(
        "with-a-key",
        {"serving.api_key": True},
        "serving.api_key = true: must be false with mode vanilla, which runs as a job: there is no "
        "server to guard",
    ),
    _job(
        "with-services",
        {
            "quality": {"limit": 50},
            "speculation": [
                {"name": "SD", "mode": "fused", "num_speculative_tokens": 7},
                {"name": "vanilla", "mode": "vanilla", "num_speculative_tokens": 7},
            ],
        },
        "speculation[1].mode = 'vanilla': runs as a job, which is compared only with a baseline "
        "that runs as one; give it an experiment file of its own",
    ),
    _job(
        "of-two-modes",
        {
            "models": {"target": {"id": "lmsys/vicuna-7b-v1.3", "revision": "1" * 40}},
            "speculation": [
                {"mode": "medusa", "num_speculative_tokens": 4, "draft": MEDUSA_HEADS},
                {
                    "name": "vanilla",
                    "mode": "vanilla",
                    "num_speculative_tokens": 4,
                    "draft": SMALL_VICUNA,
                },
            ],
        },
        "speculation[1].mode = 'vanilla': must be medusa, as of the first variant: jobs of one "
        "experiment have one baseline, which is compiled as they are",
    ),
    _edit(
        "jobs-in-a-sweep",
        swept(mode="vanilla", windows=[3, 7]) | {"serving.batch": 1, "benchmark.concurrency": 1},
        "sweep.mode = 'vanilla': runs as a job, and a sweep serves what it measures; list the "
        "variants with speculation instead",
    ),
    _job(
        "with-quality",
        {"quality": {"limit": 50}},
        "quality = {'limit': 50}: must be absent with mode vanilla, which runs as a job: there is "
        "no server to ask",
    ),
    _job(
        "at-a-batch",
        {"serving.batch": 4},
        "serving.batch = 4: must be 1: mode vanilla runs as a job, which decodes one prompt at a "
        "time",
    ),
    _job(
        "at-a-batch-of-its-own",
        {
            "speculation": [
                {"mode": "vanilla", "num_speculative_tokens": 7},
                {"name": "b2", "mode": "vanilla", "num_speculative_tokens": 5, "batch": 2},
            ]
        },
        "speculation[1].batch = 2: must be 1: mode vanilla runs as a job, which decodes one prompt "
        "at a time",
    ),
    _job(
        "at-a-rate",
        {
            "benchmark.concurrency": ABSENT,
            "benchmark.load": [{"concurrency": 1}, {"rate": 0.5, "seconds": 60}],
        },
        "benchmark.load[1].rate = 0.5: must be absent: mode vanilla runs as a job, which decodes "
        "one prompt at a time",
    ),
    _job(
        "beyond-one",
        {
            "benchmark.concurrency": ABSENT,
            "benchmark.load": [{"concurrency": 1}, {"concurrency": 2}],
        },
        "benchmark.load[1].concurrency = 2: must be 1: mode vanilla runs as a job, which decodes "
        "one prompt at a time",
    ),
    _job(
        "at-a-concurrency",
        {"benchmark.concurrency": 2},
        "benchmark.concurrency = 2: must be 1: mode vanilla runs as a job, which decodes one "
        "prompt at a time",
    ),
    _job(
        "on-two-nodes",
        {"capacity.nodes": 2},
        "capacity.nodes = 2: must be 1: jobs run one after the other; every node is billed",
    ),
    _job(
        "of-an-unknown-set",
        {CASE: {"name": "tools", "set": "bfl"}},
        "benchmark.test_cases[3].set = 'bfl': must be one of humaneval, mt-bench, bfcl",
    ),
    _edit(
        "medusa-answers-that-do-not-fit-behind-its-prompts",
        of_file("medusa") | {"benchmark.mean_output_tokens": 961},
        "benchmark.mean_output_tokens = 961: must be at most 960, what is left of serving.length "
        "beside the prompts of inference_demo --benchmark, which take half of it",
    ),
]

SEVERAL = [
    _edit(
        "types-here-and-there",
        {
            "name": "My Experiment",
            "capacity.nodes": "1",
            "speculation": {"mode": "fused", "num_speculative_token": 7},
            "serving.batch": 0,
            "serving.colour": "green",
            "alerts": ABSENT,
        },
        "name = 'My Experiment': must be 2 to 20 of a-z, 0-9 and -, beginning with a letter and "
        "not ending with -",
        "capacity.nodes = '1': must be an integer, without quotes",
        "speculation.num_speculative_token = 7: unknown key; did you mean num_speculative_tokens? "
        "allowed: name, mode, num_speculative_tokens, draft, batch",
        "serving.batch = 0: must be at least 1",
        "serving.colour = 'green': unknown key; allowed: devices, logical_core_size, "
        "tensor_parallel, batch, length, api_key",
        "alerts: is required, with idle_minutes, minimum_speedup, budget_usd_per_month",
    ),
    _edit(
        "rules-here-and-there",
        {
            "capacity.purchase": "capacity-block",
            "serving.tensor_parallel": 64,
            "benchmark.concurrency": 5,
            "benchmark.requests": 8,
            "benchmark.mean_input_tokens": 40,
        },
        "capacity.reservation_id = null: is required with purchase capacity-block",
        "serving.tensor_parallel = 64: must be 32: 8 devices x 8 cores / logical_core_size 2",
        "benchmark.mean_input_tokens = 40: must be at least 41, llmperf's own minimum",
        "benchmark.concurrency = 5: must be at most 4, serving.batch: more would measure the queue",
    ),
    # Nothing can be said of what the runtime cannot serve, but of the rest it can.
    _edit(
        "runtime-and-what-does-not-rely-on-it",
        {
            "runtime": "vllm-9",
            "speculation.num_speculative_tokens": 1,
            "models.draft.id": "example/small",
            "serving.length": 50000,
            "alerts.emails": ["a@example.org", "a@example.org"],
        },
        "runtime = 'vllm-9': must be one of vllm-0.9.1-nxdi, vllm-0.16-nxdi, vllm-neuron-1.x",
        "models.draft.architecture = null: is required, since example/small is not known "
        f"here; {ADD}",
        "alerts.emails[1] = 'a@example.org': is duplicated; list each address once",
    ),
    # By a wrong tensor_parallel the cache would be too large as well.
    _edit(
        "memory-by-a-wrong-TP",
        {"serving.devices": 1, "serving.tensor_parallel": 64, "serving.batch": 8},
        "serving.tensor_parallel = 64: must be 4: 1 devices x 8 cores / logical_core_size 2",
    ),
    _edit(
        "a-list-too-short-with-a-bad-item",
        {"aws.availability_zones": ["use2-az3"]},
        "aws.availability_zones[0] = 'use2-az3': must be an availability zone such as us-east-2a",
        "aws.availability_zones = ['use2-az3']: must have at least 2 items",
    ),
    _edit(
        "as-many-as-are-shown",
        {"alerts.emails": ["nobody"] * 20},
        *(
            f"alerts.emails[{index}] = 'nobody': must be an email address such as you@example.org"
            for index in range(20)
        ),
    ),
    _edit(
        "more-than-are-shown",
        {"alerts.emails": ["nobody"] * 23},
        *(
            f"alerts.emails[{index}] = 'nobody': must be an email address such as you@example.org"
            for index in range(20)
        ),
        "and 3 more",
    ),
]

BAD = [*SYNTAX, *PLACES, *TYPES, *RULES, *LOADS, *PROMPTS, *SWEEPS, *JOBS, *SEVERAL]
each_bad_file = pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)

# Words of pydantic, of the YAML parser and of Python that mean nothing to the author of a file.
JARGON = re.compile(
    r"\bInput\b|should|valid (string|integer|number|boolean|array|dictionary|list)\b|"
    r"\b(array|object|dict|str|tuple|NoneType|None|True|False|token|scalar|constructor)\b|"
    r"pydantic|Traceback|Error|<block|after validation|\^"
)


def _refusal(text: str, file: str = "mine.yaml") -> str:
    with pytest.raises(ExperimentError) as caught:
        parse(text, file)
    return str(caught.value)


@each_bad_file
def test_a_bad_file_gets_its_lines(bad: Bad) -> None:
    assert _refusal(bad.text).split("\n") == bad.lines("mine.yaml")


@each_bad_file
def test_a_line_is_one_line_in_plain_words(bad: Bad) -> None:
    for line in bad.lines("mine.yaml"):
        assert line.isprintable()
        assert not JARGON.search(line)
        assert len(line) <= 300


def test_names_are_unique() -> None:
    assert len({bad.name for bad in BAD}) == len(BAD)


def test_the_command_refuses_them_all_with_their_lines(tmp_path: Path) -> None:
    for bad in BAD:
        (tmp_path / f"{bad.name}.yaml").write_text(bad.text, encoding="utf-8")
    result = _check(tmp_path, *(f"{bad.name}.yaml" for bad in BAD))
    assert result.stderr.splitlines() == [
        line for bad in BAD for line in bad.lines(f"{bad.name}.yaml")
    ]
    assert result.stdout == ""
    assert result.returncode == 1


def test_the_command_refuses_one_bad_file_among_good_ones(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(edited({"capacity.purchase": "rent"}), encoding="utf-8")
    result = _check(tmp_path, str(ARTICLE), "mine.yaml")
    assert result.stderr == (
        "mine.yaml:15: capacity.purchase = 'rent': must be 'on-demand', 'spot', 'reservation' or "
        "'capacity-block'\n"
    )
    verdict, *notes = result.stdout.splitlines()
    assert verdict == f"{ARTICLE}: article is valid"
    assert all(note.startswith(f"{ARTICLE}: capacity.") for note in notes)
    assert result.returncode == 1


def _check(directory: Path, *files: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "experiment", "check", *files],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


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


@settings(max_examples=50, deadline=None)
@given(field=st.sampled_from(sorted(_fields(edited_data({})))), value=odd_values)
def test_no_value_anywhere_gets_more_than_its_lines(field: str, value: Any) -> None:
    _gets_its_lines({field: value})


_SWEEP_OF_ALL: dict[str, Any] = swept(drafts=[SMALL_DRAFT], batches=[4, 8], run=1)


@settings(max_examples=50, deadline=None)
@given(
    field=st.sampled_from([*_fields({"sweep": _SWEEP_OF_ALL["sweep"]}), "quality", "speculation"]),
    value=odd_values,
)
def test_no_value_in_a_sweep_gets_more_than_its_lines(field: str, value: Any) -> None:
    absent = field in ("quality", "speculation") and value is ABSENT
    _gets_its_lines(_SWEEP_OF_ALL if absent else _SWEEP_OF_ALL | {field: value})


@settings(max_examples=50, deadline=None)
@given(field=st.sampled_from(sorted(_fields(edited_data(VANILLA)))), value=odd_values)
def test_no_value_in_jobs_gets_more_than_its_lines(field: str, value: Any) -> None:
    _gets_its_lines({**VANILLA, field: value})


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
        assert line.isprintable()
        if match[1]:
            assert 1 <= int(match[1]) <= len(text.splitlines()) + 1
            found.append((int(match[1]), match[2]))
    return found
