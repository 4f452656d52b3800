"""What stand-ins make of an experiment's own prompts before they are asked."""

from __future__ import annotations

import json

import pytest

from experiment import Experiment, load
from rehearsal.golden.acceptances import OF_CLASS, OF_STRUCTURE, by_text, of_class
from rehearsal.golden.server import Acceptance
from rehearsal.prompts import prompts_of
from rehearsal.vllm import model_pair
from rehearsal.vllm.corpus import Case, conversations
from tests.experiment.files import ARTICLE_TEXT

PROMPTS = [
    {"prompt": "Sort these numbers.", "class": "coding"},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sing."}]}
    | {"class": "writing"},
    {"prompt": "Draw.", "class": "of-their-own"},
]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The article's, with a test case of a file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.jsonl").write_text("".join(json.dumps(one) + "\n" for one in PROMPTS))
    case = "    - name: own\n      file: own.jsonl\n      classes: [{}]\n"
    cases = case.format("coding, writing, of-their-own")
    path = folder / "mine.yaml"
    path.write_text(ARTICLE_TEXT.replace("  test_cases:\n", f"  test_cases:\n{cases}"))
    return load(path)


def test_golden_endpoints_accept_by_class(experiment: Experiment) -> None:
    known = Acceptance(by_text(experiment))
    assert known.of("Sort these numbers.") == pytest.approx(OF_CLASS["coding"], abs=0.2)
    assert known.of("Be brief.\nSing.") == pytest.approx(OF_CLASS["writing"], abs=0.2)
    assert known.of("Draw.") == pytest.approx(of_class("of-their-own"), abs=0.2)
    for case in experiment.benchmark.test_cases:
        if case.line is not None and case.structure is not None:
            assert known.of(f"\n{case.line}\n" * 3) == OF_STRUCTURE[case.structure]


def test_only_the_classes_that_are_asked_for(experiment: Experiment) -> None:
    case = experiment.benchmark.test_cases[0]
    writing = case.model_copy(update={"classes": ("writing",)})
    assert [prompt.prompt_class for prompt in prompts_of(experiment, writing)] == ["writing"]


def test_the_pair_is_trained_on_each_class(experiment: Experiment) -> None:
    cases = [Case(*case) for case in json.loads(model_pair.cases(experiment))]
    coding, writing, own, *lines = cases
    assert (coding.line, coding.structured) == (None, True)
    assert [*coding.prompts[0][0]] == ["user", "Sort these numbers."]
    assert not writing.structured
    assert [*own.prompts[0][0]] == ["user", "Draw."]
    assert not any(case.prompts for case in lines)
    prompt, answer = next(conversations([writing], 0, 50))
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSing.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert len(answer) >= 50
    _, code = next(conversations([coding], 0, 50))
    assert code.startswith("def ")


def test_the_pair_differs_with_the_prompts(experiment: Experiment) -> None:
    fewer = experiment.benchmark.model_copy(
        update={"test_cases": experiment.benchmark.test_cases[1:]}
    )
    other = experiment.model_copy(update={"benchmark": fewer})
    assert model_pair.cases(other) != model_pair.cases(experiment)
