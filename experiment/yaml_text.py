"""YAML text to JSON: what an experiment file can say, and words for where it is malformed."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning
from ruamel.yaml.reader import ReaderError

from experiment.errors import ExperimentError, shown
from experiment.schema import Experiment

TOO_DEEP: Final = "is nested too deeply; no list or mapping of an experiment is"


def as_json(text: str, file: str) -> str:
    """The mapping in the YAML text of ``file`` as JSON.

    Raises ExperimentError, one line, for what is not YAML, no mapping, or more than JSON can say.
    """
    data = _mapping(text, file)
    try:
        return json.dumps(data)
    except ValueError:
        raise ExperimentError(file, "not valid YAML: an anchor contains itself") from None
    except RecursionError:
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

# What YAML calls so. A file can hold it by its number only; a template, which is read as YAML too,
# would hold it as it is. Halves of surrogate pairs are among it.
_NOT_PRINTABLE: Final = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Constructor(SafeConstructor):
    """Builds what JSON can say. A date stays text; the schema knows where one belongs."""

    yaml_constructors = {
        # None stands for any other tag, which is refused.
        **{tag: SafeConstructor.yaml_constructors[tag] for tag in (None, *_JSON_TAGS)},
        _TAG + "timestamp": SafeConstructor.construct_yaml_str,
    }

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Refuses, with its line, a value that Python cannot build."""
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

    def check_mapping_key(
        self,
        node: Any,
        key_node: Any,
        mapping: Any,
        key: Any,
        value: Any,
    ) -> bool:
        """Refuses, with its line, a key that is not text or is there already."""
        problem = None
        if not isinstance(key, str):
            problem = f"a key must be text, in quotes if need be; {shown(key)} is not"
        elif key in mapping:
            line = next(k.start_mark.line for k, _ in node.value if k.value == key) + 1
            problem = f"key {shown(key)} is in line {line} already"
        if problem:
            raise ConstructorError(problem=problem, problem_mark=key_node.start_mark)
        return True


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
    ("found unhashable key", "a key must be text; a value that begins with {{ needs quotes"),
    ("expected a mapping.* for merging", "<< takes the alias of a mapping"),
)
"""The parser's words, and ours."""


def _mapping(text: str, file: str) -> Mapping[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            data = yaml.load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ExperimentError(file, f"line {line}: not valid YAML: {_problem(error)}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"character U+{error.character:04X} cannot stand in a text file"
        raise ExperimentError(file, f"line {line}: not valid YAML: {problem}") from None
    except ReusedAnchorWarning as warning:
        anchor = re.search("anchor '(.+)'", str(warning))
        name = f" &{anchor[1]}" if anchor else ""
        raise ExperimentError(file, f"not valid YAML: anchor{name} is there twice") from None
    except RecursionError:
        raise ExperimentError(file, TOO_DEEP) from None
    if not isinstance(data, Mapping):
        one = "a list" if isinstance(data, list) else "a single value"
        found = "empty" if data is None else one
        keys = ", ".join(Experiment.model_fields)
        raise ExperimentError(file, f"is {found}; an experiment is a mapping with the keys {keys}")
    return data


def _problem(error: MarkedYAMLError) -> str:
    """What the parser found, in words for someone who has not read its source."""
    problem = str(error.problem or error.context).splitlines()[0].replace(_TAG, "!!")
    context = error.context_mark.line + 1 if error.context_mark else 1
    for pattern, words in _YAML_PROBLEMS:
        if match := re.match(pattern, problem):
            return words.format(*match.groups(), context=context)
    return problem
