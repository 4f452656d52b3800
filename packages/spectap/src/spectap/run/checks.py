"""Checks whether answers have the form, or the number, that their prompts ask for.

No answer is ever run or quoted. A problem names the broken rule in the prompt's words alone,
because a run stores the texts of answers only on request.
"""

import ast
import functools
import json
import re
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import orjson
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from spectap.inputs.config import Config
from spectap.inputs.prompt import Form, Prompt
from spectap.records.answer import Answer, CheckedAnswer, ToolCall, digest

CUT_OFF: Final = "cut off"
"""The problem of an answer that was cut off and so could not be checked."""

_LONGEST_PROGRAM: Final = 200_000
"""The most characters of a checked program. No syntax tree of so few exhausts the C stack."""
_LONGEST_PROBLEM: Final = 200
_BLOCK: Final = re.compile(
    # Nothing is given back to try again, which would take the cube of a long line's time.
    r"^[ \t]*+```++[ \t]*+([^\s`]*+)[^\n]*+\n(.*?)(?:\n?^[ \t]*+```|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A fenced block in Markdown: its language and its text. The last one may lack its end."""
_PYTHON: Final = ("python", "python3", "py")
_NUMBER: Final = re.compile(
    r"(?:(?<!\w)-)?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)(?:[eE][+-]?\d+)?"
)
"""A number in prose: ``1,234.5``. The hyphen of ``5-10`` is not a sign."""
_RESULT: Final = re.compile(r"(?:\\boxed\{|####)([^\n}]*)")
"""A result as models mark it: in LaTeX, or as GSM8K does."""
_SPELLED: Final = {"\N{MINUS SIGN}": "-", "\\$": "", "$": "", "{,}": ",", "\\,": "", "\\!": ""}
"""Characters in and before numbers, and what they mean: LaTeX's thousands, currencies."""

# A regular expression may take for ever and cannot be interrupted: none is matched.
_WITHOUT_PATTERNS: Final = extend(Draft202012Validator, {"pattern": lambda *_: ()})
_TURNING: Final = frozenset(("not", "oneOf", "if", "maxContains"))
"""JSON Schema's keywords that may refuse an answer because a part of the schema accepts it."""


class _Problem(Exception):
    """The reason why an answer is not valid."""


class _CannotTell(Exception):
    """The reason why an answer cannot be checked."""


def checked(
    config: Config,
    answers: Mapping[str, Sequence[Answer]],
    prompts: Sequence[Prompt],
    **turn: Any,
) -> list[CheckedAnswer]:
    """Checks the answers of a turn, given by variant, to ``prompts``.

    ``turn`` has the fields that identify the turn in each line.
    """
    by_name = {prompt.name: prompt for prompt in prompts}
    lines = []
    for variant in config.variants:
        for answer in answers.get(variant.name, ()):
            prompt = by_name[answer.prompt]
            valid, problem = check(prompt, answer)
            lines.append(
                CheckedAnswer(
                    variant=variant.name,
                    **turn,
                    prompt=answer.prompt,
                    digest=digest(answer),
                    finish=answer.finish,
                    form=prompt.form,
                    valid=valid,
                    problem=problem,
                    answer=answer if config.keep_answers else None,
                )
            )
    return lines


def check(prompt: Prompt, answer: Answer) -> tuple[bool | None, str]:
    """Whether ``answer`` has the form of ``prompt``, and why not. Never raises.

    None with a reason where it cannot be checked; None with an empty reason where no form is asked
    for.
    """
    if prompt.form is None:
        return None, ""
    if answer.finish == "length":
        return None, CUT_OFF
    try:
        if prompt.form is Form.TOOL_CALL:
            _check_calls(prompt, answer.tool_calls)
        elif prompt.form is Form.JSON:
            _check_json(without_thoughts(answer.content))
        elif prompt.form is Form.NUMBER:
            _check_number(without_thoughts(answer.content), prompt.number)
        else:
            _check_program(without_thoughts(answer.content))
    except _Problem as problem:
        return False, _one_line(problem)
    except _CannotTell as reason:
        return None, _one_line(reason)
    except Exception as error:
        # Of the libraries, for a schema or a text that they did not expect. A run goes on.
        return None, f"could not be checked: {type(error).__name__}"
    return True, ""


def without_thoughts(content: str) -> str:
    """The text after the thoughts; empty where they do not end."""
    before, end, after = content.partition("</think>")
    if end:
        return after
    return "" if before.lstrip().startswith("<think>") else before


def _check_calls(prompt: Prompt, calls: tuple[ToolCall, ...]) -> None:
    if not calls:
        raise _Problem("calls no tool")
    functions = {tool["function"]["name"]: tool["function"] for tool in prompt.tools}
    for call in calls:
        if call.name not in functions:
            raise _Problem("calls a tool that it was not given")
        try:
            arguments = orjson.loads(call.arguments)
        except orjson.JSONDecodeError as error:
            raise _Problem(f"{call.name}: its arguments are not JSON: {_at(error)}") from None
        if not isinstance(arguments, dict):
            raise _Problem(f"{call.name}: its arguments are not a JSON object")
        if broken := _broken(functions[call.name].get("parameters"), arguments):
            raise _Problem(f"{call.name}: {broken}")


def _broken(schema: Any, arguments: Mapping[str, Any]) -> str:
    """Names the argument and the keyword of the schema that it violates: `` `days`: breaks type``.

    Empty where none does, and where the schema cannot be read.
    """
    readable = _readable(json.dumps({} if schema is None else schema))
    if readable is None:
        return ""
    try:
        error = next(readable.iter_errors(arguments), None)
    except (Unresolvable, RecursionError, ArithmeticError):
        return ""  # what a schema does to the library is not the fault of the answer
    if error is None:
        return ""
    # By the schema's own path: a name that is not in the schema is the answer's, and not quoted.
    steps = pairwise(map(str, error.absolute_schema_path))
    location = ".".join(name for keyword, name in steps if keyword == "properties")
    prefix = f"`{location}`: " if location else ""
    return f"{prefix}breaks {error.validator or 'false'}"


@functools.lru_cache(maxsize=1024)
def _readable(schema: str) -> Validator | None:
    """A validator; None for a schema that cannot be read, or that says little without patterns."""
    keywords = set[str]()

    def without_dialect(content: dict[str, Any]) -> dict[str, Any]:
        keywords.update(key for key in content if key != "pattern")
        if isinstance(content.get("pattern"), str):  # otherwise it is a property of that name
            keywords.add("pattern")
        # The library would go on in the dialect that is named here, with all its keywords.
        return {
            key: value
            for key, value in content.items()
            if key != "$schema" or not isinstance(value, str)
        }

    content = json.loads(schema, object_hook=without_dialect)
    try:
        Draft202012Validator.check_schema(content)
    except SchemaError:
        return None
    if "patternProperties" in keywords or ("pattern" in keywords and keywords & _TURNING):
        return None
    # An empty registry: a reference elsewhere is not followed, which would be a download.
    return _WITHOUT_PATTERNS(content, registry=Registry())


def _check_json(text: str) -> None:
    try:
        orjson.loads(text)
        return
    except orjson.JSONDecodeError as error:
        blocks = _BLOCK.findall(text)
        if not blocks:
            raise _Problem(f"is not JSON: {_at(error)}") from None
    if len(blocks) > 1:
        raise _Problem(f"has {len(blocks)} fenced blocks")
    try:
        orjson.loads(blocks[0][1])
    except orjson.JSONDecodeError as error:
        raise _Problem(f"its fenced block is not JSON: {_at(error)}") from None


def _at(error: orjson.JSONDecodeError) -> str:
    prefix = f"line {error.lineno}, " if error.lineno > 1 else ""
    return f"{prefix}column {error.colno}"


def _check_number(text: str, number: float | None) -> None:
    """Checks the marked number, or else the last one. lm-eval reads GSM8K's answers so, too."""
    for spelling, meaning in _SPELLED.items():
        text = text.replace(spelling, meaning)
    numbers = _NUMBER.findall([text, *_RESULT.findall(text)][-1])
    if not numbers:
        raise _Problem("has no number")
    if float(numbers[-1].replace(",", "")) != number:
        raise _Problem("its last number is another")


def _check_program(text: str) -> None:
    """Checks the first fenced block in Python, or else the first block, or else the whole text."""
    blocks = _BLOCK.findall(text)
    in_python = [block for block in blocks if block[0].lower() in _PYTHON]
    program = (in_python or blocks or [("", text)])[0][1]
    if not program.strip():
        raise _Problem("is empty")
    if len(program) > _LONGEST_PROGRAM:
        raise _CannotTell("is too long to be parsed")
    program = program.replace("\r\n", "\n")  # which textwrap takes for text
    first = next(line for line in program.split("\n") if line.strip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes and comparisons: they are valid
            # A completion may be the body alone, indented as in the function.
            ast.parse(textwrap.dedent(program) if first[0] in " \t" else program)
    except (SyntaxError, ValueError) as error:
        number = error.lineno if isinstance(error, SyntaxError) else None
        raise _Problem(f"is not Python: line {number}" if number else "is not Python") from None
    except (RecursionError, MemoryError):
        raise _CannotTell("is nested too deeply to be parsed") from None


def _one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split()).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}..."
