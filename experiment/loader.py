"""Loads an ``Experiment`` from a YAML file, or says in lines why the file is refused."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from experiment.fields import PATTERN_MESSAGES, ExperimentError, as_json
from experiment.measurement import PromptFile
from experiment.rules import refusals
from experiment.schema import Experiment
from spectap import wording
from spectap.errors import ConfigError, allowed
from spectap.wording import printable

MOST_SHOWN: Final = 20
"""The most errors that are shown for one file."""

MOST_NESTED: Final = 20
"""The deepest nesting of lists and mappings. A valid experiment has fewer than ten levels."""

Steps = tuple[str | int, ...]
"""The keys and list positions that lead to a value, e.g. ``("test_cases", 0, "name")``."""


def load(path: str | Path) -> Experiment:
    """Loads the experiment in the YAML 1.2 file ``path``.

    Raises ExperimentError with one line per error: file, line, field, value, and what is allowed.
    Rules between fields are checked only when every field is valid by itself.
    """
    if not str(path):
        raise ExperimentError("no experiment is named: give a file, such as experiments/NAME.yaml")
    return parse(_read(Path(path)), str(path))


def parse(text: str, file: str) -> Experiment:
    """The experiment in the YAML text of ``file``; raises as ``load`` does."""
    document = Document(text, file)
    try:
        # Strict validation of JSON takes a list for a tuple, and a string for an enumeration or
        # a date. It still refuses "4" for 4.
        experiment = Experiment.model_validate_json(document.json)
    except ValidationError as error:
        _refuse(file, list(_invalid(error, document)))
    experiment = experiment.with_prompts_of(_prompt_files(experiment, document))
    if lines := [document.line(*refusal) for refusal in refusals(experiment)]:
        _refuse(file, lines)
    return experiment


def _refuse(file: str, lines: list[str]) -> NoReturn:
    if len(lines) > MOST_SHOWN:
        lines[MOST_SHOWN:] = [f"{file}: and {len(lines) - MOST_SHOWN} more"]
    raise ExperimentError("\n".join(lines)) from None


def _invalid(error: ValidationError, document: Document) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        kind = problem["type"]
        # A list also counts as too short where some of its items are refused.
        if kind == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"]:
            continue
        context = problem.get("ctx", {})
        words = PATTERN_MESSAGES.get(context.get("pattern", "")) or allowed(problem, Experiment)
        steps = (*problem["loc"], *_steps(context.get("field", "")))
        yield document.line_of(steps, words, of_key=kind == "extra_forbidden")


def _prompt_files(experiment: Experiment, document: Document) -> dict[str, PromptFile]:
    files: dict[str, PromptFile] = {}
    lines: list[str] = []
    for index, case in enumerate(experiment.benchmark.test_cases):
        if case.file is None or case.file in files:
            continue
        path = Path(document.file).parent / case.file
        if not path.is_file():
            lines.append(document.line(f"benchmark.test_cases[{index}].file", f"no file {path}"))
            continue
        try:
            files[case.file] = PromptFile.read(path)
        except ConfigError as error:
            lines += str(error).splitlines()
    if lines:
        _refuse(document.file, list(dict.fromkeys(lines)))
    return files


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        files = [*path.parent.glob("[!.]*.yaml")] or Path("experiments").glob("*.yaml")
        why = f"no such file; available: {', '.join(sorted(map(str, files))) or 'none'}"
    except UnicodeDecodeError:
        why = "is not UTF-8 text; an experiment is YAML"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    raise ExperimentError(f"{path}: {why}")


class Document:
    """The mapping in the YAML text of a file.

    Raises ExperimentError, with the parser's own words in one line, for text that is not valid
    YAML, is not a mapping, or has values that JSON cannot express.
    """

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = _Constructor
        yaml.max_depth = MOST_NESTED
        position, problem = file, "must be a mapping of keys to values"
        if not text.strip():
            problem = f"is empty; {problem}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ReusedAnchorWarning)
                data, root = yaml.load(text) or (None, None)
            self.json = json.dumps(data)
            if isinstance(root, Node) and isinstance(data, Mapping):
                self.root = root
                """The mapping as the parser composed it, with merge keys (``<<``) resolved."""
                return
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            position = f"{file}:{mark.line + 1 if mark else 1}"
            problem = f"not valid YAML: {_indented(text, error) or _problem(error)}"
        except ReaderError as error:
            position = f"{file}:{text.count(chr(10), 0, error.position) + 1}"
            problem = f"not valid YAML: character U+{error.character:04X}: {error.reason}"
        except (TypeError, ValueError, RecursionError) as error:  # of what JSON cannot express
            problem = f"not valid YAML: {error}"
        raise ExperimentError(f"{position}: {printable(problem)}")

    @cached_property
    def data(self) -> Any:
        """The file's data in JSON's form, with every key as text."""
        return json.loads(self.json)

    def line(self, field: str, allowed: str) -> str:
        """The line that refuses ``field``, named as in the schema: line, value, what is allowed."""
        return self.line_of(_steps(field), allowed)

    def line_of(self, steps: Steps, allowed: str, *, of_key: bool = False) -> str:
        """The line that refuses the value at ``steps``; ``of_key`` takes its key's line."""
        path, line = self._locate(steps, of_key=of_key)
        return f"{self.file}:{line}: {_dotted(path)}{self._value(path)}: {allowed}"

    def _value(self, path: Steps) -> str:
        """The file's value there; empty where it is absent, or a long list or mapping."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (LookupError, TypeError):
                return ""
        if isinstance(value, dict) and "id" in value:
            value = value["id"]  # a model
        if isinstance(value, dict | list) and len(json.dumps(value)) > 80:
            return ""
        return f" = {as_json(value)}"

    def _locate(self, path: Steps, *, of_key: bool) -> tuple[Steps, int]:
        """``path`` as the file spells it, and the line of its value (or of its key), from 1.

        A position is left out where the file has a single mapping in place of a list. An aliased
        value has the line where it is written, an absent one that of the mapping around it.
        """
        node: Node | None = self.root
        line, spelt = _line(self.root), []
        for step in path:
            if isinstance(node, MappingNode) and isinstance(step, int):
                continue
            if isinstance(node, ScalarNode):
                break
            spelt.append(step)
            key, node = _entry(node, step)
            if key and node:
                # A block begins below its key. An alias refers to a line above its key.
                line = _line(key) if of_key else min(_line(key), _line(node))
        return tuple(spelt), line


def _entry(node: Node | None, step: str | int) -> tuple[Node, Node] | tuple[None, None]:
    """The key and the value of ``step`` in ``node``; an item of a list is its own key."""
    if isinstance(node, MappingNode):
        # The last one counts: what a mapping says itself comes after what it merges.
        entries = (entry for entry in reversed(node.value) if entry[0].value == step)
        return next(entries, (None, None))
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None, None


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _dotted(path: Steps) -> str:
    """``("test_cases", 0, "name")`` as ``test_cases[0].name``."""
    text = ""
    for step in path:
        is_plain = re.fullmatch(r"[\w-]+", str(step))
        text += f"[{step}]" if isinstance(step, int) else f".{step if is_plain else as_json(step)}"
    return text.removeprefix(".")


def _steps(field: str) -> Steps:
    """``test_cases[0].name`` as ``("test_cases", 0, "name")``; for fields of the schema."""
    names = re.findall(r"[^.\[\]]+", field)
    return tuple(int(name) if name.isdigit() else name for name in names)


def _indented(text: str, error: MarkedYAMLError) -> str | None:
    """The two lines with different indentation, if that was the parser's problem."""
    mark = error.problem_mark
    if mark is None or not re.match("mapping values are|expected <block end>", error.problem or ""):
        return None
    lines = text.split("\n")
    before = [n for n in range(mark.line) if lines[n].strip() and lines[n].lstrip()[0] != "#"]
    if not before or mark.line >= len(lines):
        return None
    this, last = (len(lines[n]) - len(lines[n].lstrip(" ")) for n in (mark.line, before[-1]))
    if this == last:
        return None
    return (
        f"line {mark.line + 1} is indented by {wording.count(this, 'space')}, and line "
        f"{before[-1] + 1} by {last}: the keys of a mapping begin in one column, and so do the "
        "items of a list"
    )


def _problem(error: MarkedYAMLError) -> str:
    """The parser's message: what it was reading, since which line, and what it met."""
    problem = str(error.problem or error.context).splitlines()[0]
    if not error.problem or not error.context or not error.context_mark:
        return problem
    return f"{error.context} from line {error.context_mark.line + 1} on, {problem}"


_TAG: Final = "tag:yaml.org,2002:"
_JSON_TAGS: Final = ("null", "bool", "int", "float", "str", "seq", "map")

# The characters that YAML calls printable, negated. Surrogates are among the others. A file can
# hold such a character only as an escape, but a rendered manifest would hold it as it is.
_NOT_PRINTABLE: Final = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Constructor(SafeConstructor):
    """Builds only what JSON can express. A date stays text: the schema says where dates are."""

    yaml_constructors = {
        # None stands for any other tag, which is refused.
        None: SafeConstructor.yaml_constructors[None],
        **{_TAG + tag: SafeConstructor.yaml_constructors[_TAG + tag] for tag in _JSON_TAGS},
        _TAG + "timestamp": SafeConstructor.construct_yaml_str,
    }

    def construct_document(self, node: Any) -> tuple[Any, Node]:
        self.deep_construct = True  # so that an error in a value has the line of that value
        return super().construct_document(node), node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Raises ConstructorError, with its line, for a value that Python cannot build."""
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, str) and _NOT_PRINTABLE.search(value):
                raise ValueError
        except (ValueError, LookupError):
            tag = str(node.tag).removeprefix(_TAG)
            raise ConstructorError(
                problem=f"{as_json(node.value)} is not a valid {tag}", problem_mark=node.start_mark
            ) from None
        return value
