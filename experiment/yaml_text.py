"""YAML text to JSON and the line of every value."""

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
from spectap.printing import printable

MOST_NESTED: Final = 20
"""Lists and mappings inside one another. A valid experiment has fewer than ten."""


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


def read_yaml(text: str, file: str) -> Document:
    """The mapping in the YAML text of ``file``.

    Raises ExperimentError, with the parser's own words in one line, where the text is not valid
    YAML, is not a mapping, or has values that JSON cannot express.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    yaml.max_depth = MOST_NESTED
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            data, root = yaml.load(text) or (None, None)
        if root is None or not isinstance(data, Mapping):
            raise ExperimentError(file, "must be a mapping of keys to values")
        return Document(json.dumps(data), root)
    except MarkedYAMLError as error:
        raise _malformed(file, error.problem_mark or error.context_mark, _problem(error)) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"character U+{error.character:04X}: {error.reason}"
        raise ExperimentError(f"{file}:{line}", f"not valid YAML: {problem}") from None
    except (TypeError, ValueError, RecursionError) as error:  # of what JSON cannot express
        raise ExperimentError(file, f"not valid YAML: {error}") from None


def _malformed(file: str, mark: Any, problem: str) -> ExperimentError:
    line = mark.line + 1 if mark else 1
    return ExperimentError(f"{file}:{line}", printable(f"not valid YAML: {problem}"))


def _problem(error: MarkedYAMLError) -> str:
    """The parser's words: what it was reading, from which line on, and what it met there."""
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
    """Builds what JSON can express. A date stays text; the schema knows where one belongs."""

    yaml_constructors = {
        # None stands for any other tag, which is refused.
        None: SafeConstructor.yaml_constructors[None],
        **{_TAG + tag: SafeConstructor.yaml_constructors[_TAG + tag] for tag in _JSON_TAGS},
        _TAG + "timestamp": SafeConstructor.construct_yaml_str,
    }

    def construct_document(self, node: Any) -> tuple[Any, Node]:
        """The value of the document, and its node with merge keys resolved."""
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
                problem=f"{shown(node.value)} is no valid {tag}", problem_mark=node.start_mark
            ) from None
        return value
