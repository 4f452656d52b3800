"""Rules on the test cases and the prompts that they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from experiment.errors import ABSENT, Refusal
from experiment.measurement import TestCase
from experiment.rules.models import models_known
from experiment.rules.rule import Refusals, Rule
from experiment.schema import Experiment
from spectap.config import Structure
from spectap.load import sets

_OF_A_LINE: Final = ("structure", "headline")
_OF_PROMPTS: Final = ("classes", "limit")


def _placed(experiment: Experiment) -> Iterator[tuple[str, TestCase]]:
    """Each test case with its place in the file."""
    for index, case in enumerate(experiment.benchmark.test_cases):
        yield f"benchmark.test_cases[{index}]", case


def _names(experiment: Experiment) -> Refusals:
    names = Counter(case.name for case in experiment.benchmark.test_cases)
    for place, case in _placed(experiment):
        if names[case.name] > 1:
            yield Refusal(f"{place}.name", case.name, "is duplicated; must be unique")


def _one_source(experiment: Experiment) -> Refusals:
    for place, case in _placed(experiment):
        first, *others = case.sources or ("",)
        if not first:
            yield Refusal(f"{place}.line", ABSENT, "is required, or set or file in its place")
        for key in others:
            yield Refusal(
                f"{place}.{key}",
                getattr(case, key),
                f"must be absent beside {first}: a test case has one of line, set and file",
            )


def _fields_fit_source(experiment: Experiment) -> Refusals:
    for place, case in _placed(experiment):
        if case.is_line and case.structure is None:
            yield Refusal(f"{place}.structure", ABSENT, "is required with line")
        foreign, source = (_OF_PROMPTS, "set or file") if case.is_line else (_OF_A_LINE, "line")
        for key in foreign:
            if value := getattr(case, key):
                shown = str(value) if isinstance(value, Structure) else value
                yield Refusal(f"{place}.{key}", shown, f"is allowed only with {source}")


def _headlines(experiment: Experiment) -> Refusals:
    cases = experiment.benchmark.test_cases
    for structure in Structure:
        headlines = [i for i, c in enumerate(cases) if c.headline and c.structure is structure]
        # The article's figures are of lines: where there are others, they may be left out.
        if not headlines and all(case.is_line for case in cases):
            yield Refusal(
                "benchmark.test_cases",
                ABSENT,
                f"one {structure} case must have headline: true; none has",
            )
        for index in headlines[1:]:
            first = cases[headlines[0]].name
            yield Refusal(
                f"benchmark.test_cases[{index}].headline",
                True,
                f"only one {structure} case may have true; {first} has it",
            )


def _known(experiment: Experiment) -> Refusals:
    for place, case in _placed(experiment):
        if case.set is not None and case.set not in sets.KNOWN:
            yield Refusal(f"{place}.set", case.set, f"must be one of {', '.join(sets.KNOWN)}")


def _classes(experiment: Experiment) -> Refusals:
    for place, case in _placed(experiment):
        known = [name for name in experiment.classes(case) if name]
        for index, name in enumerate(case.classes):
            field = f"{place}.classes[{index}]"
            if name in case.classes[:index]:
                yield Refusal(field, name, "is duplicated; list each class once")
            elif name not in known:
                allowed = f"one of {', '.join(known)}" if known else "absent: it has no classes"
                yield Refusal(
                    field, name, f"is no class of {case.set or case.file}; must be {allowed}"
                )


def _tools(experiment: Experiment) -> Refusals:
    target = experiment.models.target
    for place, case in _placed(experiment):
        if experiment.has_tools(case) and target.known.tool_parser is None:
            key = "set" if case.set else "file"
            yield Refusal(
                f"{place}.{key}",
                getattr(case, key),
                f"has tools, and no parser of {target.id}'s tool calls is known; give one in "
                "models.target.architecture.tool_parser",
            )


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _one_source: (),
    _fields_fit_source: (_one_source,),
    _names: (),
    _headlines: (_fields_fit_source,),
    _known: (_one_source,),
    _classes: (_fields_fit_source, _known),
    _tools: (_known, models_known),
}
