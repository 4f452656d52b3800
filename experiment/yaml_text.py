"""YAML text to JSON and the line of every value; words for where the text is malformed."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from experiment.errors import ExperimentError, Path, shown
from experiment.schema import Experiment

MOST_NESTED: Final = 20
"""Lists and mappings inside one another. A valid experiment has fewer than ten."""

TOO_DEEP: Final = "lists and mappings are nested too deeply"


@dataclass(frozen=True)
class Document:
    """The mapping in a YAML file."""

    json: str
    root: Node
    """The mapping as the parser composed it, after merge keys (``<<``) were resolved."""

    def locate(self, path: Path, *, of_key: bool = False) -> tuple[Path, int]:
        """``path`` as the file spells it, and the line of its value, from 1.

        - A position in a list is left out where the file has a single mapping in place of a list,
          and a key where it has a single value in place of a mapping.
        - A value that an alias or a merge key brings has the line where it is written. With
          ``of_key``, the line is that of the last key instead.
        - A value that is not in the file has the line of the nearest mapping or list around it.
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

    def value(self, path: Path) -> Any:
        """The value at ``path``, as ``locate`` takes it; None where nothing is."""
        value = json.loads(self.json)
        for step in path:
            if isinstance(value, Mapping) and isinstance(step, int):
                continue
            try:
                value = value[step]
            except (LookupError, TypeError):
                return None
        return value


def _entry(node: Node | None, step: str | int) -> tuple[Node, Node] | tuple[None, None]:
    """The key and the value of ``step`` in ``node``; an item of a list is its own key."""
    if isinstance(node, MappingNode):
        # The last one counts: what a mapping says itself comes after what it merges.
        return next((entry for entry in reversed(node.value) if entry[0].value == step), _NOTHING)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return _NOTHING


_NOTHING: Final = (None, None)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def read_yaml(text: str, file: str) -> Document:
    """The mapping in the YAML text of ``file``.

    Raises ExperimentError, with one line of text, where the text is not valid YAML, is not a
    mapping, or has values that JSON cannot express.
    """
    data, root = _mapping(text, file)
    try:
        return Document(json.dumps(data), root)
    except RecursionError:  # aliases inside aliases
        raise ExperimentError(file, TOO_DEEP) from None


_TAG: Final = "tag:yaml.org,2002:"

_JSON_TAGS: Final = {
    _TAG + tag: words
    for tag, words in {
        "null": "null",
        "bool": "true or false",
        "int": "an integer",
        "float": "a number",
        "str": "text",
        "seq": "a list",
        "map": "a mapping",
    }.items()
}

# The characters that YAML calls printable, negated. Surrogates are among the others. A file can
# hold such a character only as an escape, but a rendered manifest would hold it as it is.
_NOT_PRINTABLE: Final = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Constructor(SafeConstructor):
    """Builds what JSON can express. A date stays text; the schema knows where one belongs."""

    yaml_constructors = {
        # None stands for any other tag, which is refused.
        **{tag: SafeConstructor.yaml_constructors[tag] for tag in (None, *_JSON_TAGS)},
        _TAG + "timestamp": SafeConstructor.construct_yaml_str,
    }

    def construct_document(self, node: Any) -> tuple[Any, Node]:
        """The value of the document, and its node with merge keys resolved."""
        self.deep_construct = True  # so that construct_object sees an anchor inside itself
        return super().construct_document(node), node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Raises ConstructorError, with its line, for a value that Python cannot build."""
        if node in self.recursive_objects:
            raise ConstructorError(
                problem=f"anchor &{node.anchor} contains itself", problem_mark=node.start_mark
            )
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, str) and _NOT_PRINTABLE.search(value):
                raise ValueError
        except (ValueError, LookupError):
            raise ConstructorError(
                problem=f"{shown(node.value)} is not {_JSON_TAGS[str(node.tag)]}",
                problem_mark=node.start_mark,
            ) from None
        return value

    def flatten_mapping(self, node: Any) -> None:
        """Checks the keys of ``node`` before those that it merges are among them."""
        if getattr(node, "merge", None) is None:
            self._check_keys(node)
        super().flatten_mapping(node)

    def _check_keys(self, node: Any) -> None:
        lines: dict[str, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == _TAG + "merge":
                continue
            key = self.construct_object(key_node, deep=True)
            problem = None
            if isinstance(key, Mapping):
                problem = "a key must be text; a value that begins with { needs quotes"
            elif not isinstance(key, str):
                problem = f"a key must be text; put {shown(key)} in quotes"
            elif key in lines:
                problem = f"key {shown(key)} is duplicated; it is already in line {lines[key]}"
            if problem:
                raise ConstructorError(problem=problem, problem_mark=key_node.start_mark)
            lines[key] = _line(key_node)


_YAML_PROBLEMS: Final = (
    (r"found character '\\t'", "there is a tab; indent with spaces"),
    (r"found character (.+) that cannot start", "text that begins with {0} needs quotes"),
    (
        "mapping values are not allowed",
        "a colon cannot stand here; put text with a colon in quotes, or check the indentation",
    ),
    (
        "found undefined alias '(.+)'",
        "there is no anchor &{0}; text that begins with * needs quotes",
    ),
    (
        "expected (?:<block end>|'<document start>'|the node content)",
        "this does not belong here; check indentation and quotes, here and in the lines above",
    ),
    (r"expected ',' or ']'", "the [ of line {context} is not closed"),
    (r"expected ',' or '}'", "the {{ of line {context} is not closed"),
    ("found unexpected end of stream", "the quote opened in line {context} is never closed"),
    ("could not find expected ':'", "there is no colon after the key of line {context}"),
    ("but found another document", "a second document begins; a file holds one experiment"),
    (
        "could not determine a constructor for the tag '(.+)'",
        "tag {0} is unknown; write plain values, and text that begins with ! in quotes",
    ),
    (r"found unknown escape character '(.+)'", "there is no escape \\{0}; use single quotes"),
    ("expected a mapping.* for merging", "<< takes the alias of a mapping"),
    ("found duplicate merge key", "<< is duplicated; give it one list of aliases"),
    ("maximum depth", TOO_DEEP),
)
"""Patterns of the parser's messages, and the words that replace them."""


def _mapping(text: str, file: str) -> tuple[Mapping[str, Any], Node]:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    yaml.max_depth = MOST_NESTED
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            loaded: tuple[Any, Any] = yaml.load(text) or (None, None)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _malformed(file, line, _problem(error)) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"character U+{error.character:04X} is not allowed in a text file"
        raise _malformed(file, line, problem) from None
    except ReusedAnchorWarning as warning:
        raise _malformed(file, *_duplicated_anchor(str(warning))) from None
    data, root = loaded
    if not isinstance(data, Mapping):
        one = "a list" if isinstance(data, list) else "a single value"
        found = "empty" if data is None else one
        keys = ", ".join(Experiment.model_fields)
        raise ExperimentError(file, f"is {found}; an experiment is a mapping with the keys {keys}")
    return data, root


def _malformed(file: str, line: int, problem: str) -> ExperimentError:
    return ExperimentError(f"{file}:{line}", f"not valid YAML: {problem}")


_REUSED_ANCHOR: Final = re.compile(
    r"anchor ['\"](.+)['\"]\nfirst occurrence +in .+, line (\d+), (?:.*\n)+?"
    r"second occurrence +in .+, line (\d+), "
)


def _duplicated_anchor(warning: str) -> tuple[int, str]:
    """The line and the problem of ruamel.yaml's ReusedAnchorWarning, which has no mark."""
    [(anchor, first, second)] = _REUSED_ANCHOR.findall(warning)
    return int(second), f"anchor &{anchor} is duplicated; it is already in line {first}"


def _problem(error: MarkedYAMLError) -> str:
    """What the parser found, in words for people who have not read its source."""
    problem = str(error.problem or error.context).splitlines()[0].replace(_TAG, "!!")
    context = error.context_mark.line + 1 if error.context_mark else 1
    for pattern, words in _YAML_PROBLEMS:
        if match := re.match(pattern, problem):
            return words.format(*match.groups(), context=context)
    return problem
