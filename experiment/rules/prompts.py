"""Rules on the test cases and the prompts that they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from benchmark.config import Structure
from experiment.errors import ABSENT, Refusal
from experiment.rules.rule import Refusals, Rule
from experiment.schema import Experiment, TestCase

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


def _classes(experiment: Experiment) -> Refusals:
    for place, case in _placed(experiment):
        if case.file is None:
            continue
        found = {prompt.prompt_class for prompt in experiment.prompt_files[case.file].prompts}
        known = sorted(found - {""})
        for index, name in enumerate(case.classes):
            field = f"{place}.classes[{index}]"
            if name in case.classes[:index]:
                yield Refusal(field, name, "is duplicated; list each class once")
            elif name not in known:
                allowed = f"one of {', '.join(known)}" if known else "absent: it has no classes"
                yield Refusal(field, name, f"is no class of {case.file}; must be {allowed}")


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _one_source: (),
    _fields_fit_source: (_one_source,),
    _names: (),
    _headlines: (_one_source,),
    _classes: (_one_source, _fields_fit_source),
}
