"""Experiment files made from the article's by editing one thing or a few."""

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).parents[2]
EXPERIMENTS: Final = ROOT / "experiments"
ARTICLE: Final = EXPERIMENTS / "article.yaml"
ARTICLE_TEXT: Final = ARTICLE.read_text(encoding="utf-8")

ABSENT: Final = object()
"""As a value in ``edited``: the field is left out."""

_DATA: Final = json.loads(json.dumps(YAML(typ="safe", pure=True).load(ARTICLE_TEXT), default=str))
PUBLISHED: Final[dict[str, Any]] = {"published": _DATA.pop("published")}
"""The change that has the article's figures, as its file does. Few other changes would fit them."""

REGION: Final[str] = _DATA["aws"]["region"]
"""That of the article's file, which has its zones ``a`` and ``c``."""

SMALL_DRAFT: Final[dict[str, Any]] = {
    "id": "Qwen/Qwen3-0.6B",
    "revision": "c1899de289a04d12100db370d81485cdf75e47ca",
}


def model(
    name: str, digit: str, vocabulary: int, layers: int, hidden: int, gib: float, **extra: Any
) -> dict[str, Any]:
    """A model as a file has it: with Llama's family and heads, unless ``extra`` say another."""
    figures = {"vocabulary": vocabulary, "layers": layers, "hidden": hidden, "checkpoint_gib": gib}
    defaults = {"family": "llama", "kv_heads": 8, "head_dim": 128, "tied_embeddings": False}
    architecture = figures | defaults | {"max_length": 131072} | extra
    return {"id": name, "revision": digit * 40, "architecture": architecture}


QWEN3_HEAD: Final = model(
    *("example/qwen3-32b-eagle3", "5", 151936, 1, 5120, 1.5),
    kind="eagle3-head",
    family="qwen3",
    max_length=40960,
)
LLAMA_70B: Final = model("meta-llama/Llama-3.3-70B-Instruct", "7", 128256, 80, 8192, 131.4)
LLAMA: Final = model(
    "meta-llama/Llama-3.2-1B", "4", 128256, 16, 2048, 2.3, head_dim=64, tied_embeddings=True
)
_HEAD: Final = (128256, 1, 8192, 3.4)
EAGLE_HEAD: Final = model("example/llama-70b-eagle", "e", *_HEAD, kind="eagle-head")
EAGLE3_HEAD: Final = model("example/llama-70b-eagle3", "3", *_HEAD, kind="eagle3-head")
DFLASH_DRAFT: Final = model("example/block", "d", *_HEAD, kind="dflash-draft", drafts=9)
EAGLE: Final[dict[str, Any]] = {
    "models.target": LLAMA_70B,
    "models.draft": EAGLE_HEAD,
    "speculation.mode": "eagle",
}
"""The changes that make an EAGLE experiment of the article's."""
VANILLA: Final[dict[str, Any]] = {
    "speculation.mode": "vanilla",
    "serving.batch": 1,
    "benchmark.concurrency": 1,
}
"""The changes that run the article's pair as jobs."""
ON_TRAINIUM: Final[dict[str, Any]] = {"compiling": {"node": "trainium"}}
"""The change that compiles on the Trainium nodes."""


def of_file(name: str) -> dict[str, Any]:
    """The changes that make the experiment of that name of the article's."""
    text = (EXPERIMENTS / f"{name}.yaml").read_text(encoding="utf-8")
    data = json.loads(json.dumps(YAML(typ="safe", pure=True).load(text), default=str))
    return {field: data.get(field, ABSENT) for field in _DATA | data}


def edited_data(changes: Mapping[str, Any]) -> Any:
    """The article's data, as JSON has it, with the dotted fields of ``changes`` changed.

    ``spectap.test_cases.3.name`` goes into a list; one past the end of a list appends.
    """
    data = copy.deepcopy(_DATA)
    for field, value in changes.items():
        new = [] if value is ABSENT else [copy.deepcopy(value)]
        *parents, last = field.split(".")
        node = data
        for parent in parents:
            node = node[int(parent)] if isinstance(node, list) else node[parent]
        if isinstance(node, list):
            node[int(last) : int(last) + 1] = new
        elif new:
            node[last] = new[0]
        else:
            node.pop(last, None)
    return data


def edited(changes: Mapping[str, Any]) -> str:
    """The text of the article's file with the dotted fields of ``changes`` changed.

    JSON is YAML 1.2, and quick to write and to read.
    """
    return json.dumps(edited_data(changes), indent=2, allow_nan=False, ensure_ascii=False)


def swept(**sweep: Any) -> dict[str, Any]:
    """The changes that sweep windows of the article's pair, or what ``sweep`` says."""
    usual = {"mode": "fused", "windows": [3, 7, 15], "at_most_usd": 1000}
    return {"speculation": ABSENT, "sweep": usual | sweep}


def lines_of(data: Any, field: str = "", line: int = 1) -> dict[str, int]:
    """The line of each field, such as ``test_cases[0].name``, in the text of ``edited``.

    It is counted from the layout of that text, which nothing parses.
    """
    places = {field: line}
    line += 1
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        name = f"{field}.{key}".removeprefix(".") if isinstance(data, dict) else f"{field}[{key}]"
        places |= lines_of(value, name, line) if isinstance(value, dict | list) else {name: line}
        line += 1 + json.dumps(value, indent=2).count("\n")
    return places


def line_of_error(places: Mapping[str, int], field: str) -> int:
    """The line of ``field``, or of the mapping that lacks it."""
    return places.get(field) or places[re.sub(r"\.?[\w-]+$", "", field)]


def replaced(old: str, new: str) -> str:
    """The text of the article's file with ``old``, which is there once, replaced."""
    assert ARTICLE_TEXT.count(old) == 1, f"{old!r} is there {ARTICLE_TEXT.count(old)} times"
    return ARTICLE_TEXT.replace(old, new)
