"""Golden endpoints are as fast as the article says, by an arithmetic that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiment import Experiment, load
from experiment.loader import parse
from experiment.variants import variants
from rehearsal.golden.endpoints import golden_servers
from rehearsal.golden.performance import (
    OF_CLASS,
    OF_STRUCTURE,
    Draft,
    by_text,
    decoding,
    description,
    draft_of,
    of_class,
    prompts_of,
)
from rehearsal.golden.schedule import Decoding, Linear
from rehearsal.golden.server import Acceptance
from rehearsal.vllm.corpus import Case, conversations
from rehearsal.vllm.endpoints import cases
from spectap.config import Structure
from tests.experiment.files import (
    ARTICLE_TEXT,
    EAGLE,
    EAGLE3_HEAD,
    EXPERIMENTS,
    SMALL_DRAFT,
    edited,
)


def draft(**changes: object) -> Draft:
    return draft_of(variants(parse(edited(changes), "mine.yaml"))[1])


def test_the_article_s_shape(article: Experiment) -> None:
    base, sd = variants(article)
    in_flight = article.benchmark.points[0].concurrency
    assert in_flight == 4
    assert decoding(base).time_per_token(1, in_flight) == pytest.approx(0.045)
    gains = {s: decoding(sd).gain(rate, in_flight) for s, rate in OF_STRUCTURE.items()}
    assert gains[Structure.STRUCTURED] == pytest.approx(3, abs=0.15)
    assert gains[Structure.OPEN_ENDED] == pytest.approx(1, abs=0.05)
    *_, line = description(article)
    assert line.startswith("SD, window 7: a draft takes 3.7% of a pass; with 4 in flight: ")
    assert "structured text, 97.0% accepted, 3.08x" in line
    assert "open-ended text, 52.0% accepted, 0.99x" in line
    assert draft_of(sd).size == pytest.approx(1)


def test_the_smaller_draft_is_faster_and_about_60_percent_less_is_accepted() -> None:
    def accepted(model: Draft, structure: Structure) -> float:
        """Drafts that a step accepts, with the article's window."""
        return Decoding(window=7).tokens_per_step(model.acceptance(OF_STRUCTURE[structure])) - 1

    small = draft(**{"models.draft": SMALL_DRAFT})
    assert 0.3 < small.cost / Draft().cost < 0.45
    less = [
        1 - accepted(small, structure) / accepted(Draft(), structure) for structure in Structure
    ]
    assert sum(less) / len(less) == pytest.approx(0.6, abs=0.03)
    assert all(0.45 < share < 0.75 for share in less)


def test_a_head_is_not_judged_by_its_size_and_a_fixed_window_is_one_pass() -> None:
    assert draft(**EAGLE) == Draft()
    assert Draft(at_once=10).cost == pytest.approx(Draft().cost / 10)
    rates = [Draft(size).acceptance(0.5) for size in (0.1, 0.5, 1, 1.01, 2, 16)]
    assert rates == sorted(set(rates))
    assert 0 < rates[0] < rates[-1] < 1


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_file_has_endpoints_whose_steps_are_its_window_s(file: Path) -> None:
    experiment = load(file)
    assert len([*description(experiment)]) > 1
    for variant in variants(experiment):
        assert decoding(variant).drafts == (variant.drafts_per_step or 0)


PROMPTS = [
    {"prompt": "Sort these numbers.", "class": "coding"},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sing."}]}
    | {"class": "writing"},
    {"prompt": "Draw.", "class": "of-their-own"},
]


@pytest.fixture(scope="module")
def with_prompts(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The article's, with a test case of a file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in PROMPTS))
    case = (
        "    - name: own\n      file: own.jsonl\n      classes: [coding, writing, of-their-own]\n"
    )
    path = folder / "mine.yaml"
    path.write_text(ARTICLE_TEXT.replace("  test_cases:\n", f"  test_cases:\n{case}"))
    return load(path)


def test_prompts_are_accepted_by_their_class_or_line(with_prompts: Experiment) -> None:
    known = Acceptance(by_text(with_prompts))
    assert known.of("Sort these numbers.") == pytest.approx(OF_CLASS["coding"], abs=0.2)
    assert known.of("Be brief.\nSing.") == pytest.approx(OF_CLASS["writing"], abs=0.2)
    assert known.of("Draw.") == pytest.approx(of_class("of-their-own"), abs=0.2)
    case = with_prompts.benchmark.test_cases[0].model_copy(update={"classes": ("writing",)})
    assert [prompt.prompt_class for prompt in prompts_of(with_prompts, case)] == ["writing"]


def test_the_pair_for_vllm_is_trained_on_each_class(with_prompts: Experiment) -> None:
    coding, writing, drawing, *lines = (Case(*case) for case in json.loads(cases(with_prompts)))
    assert (coding.line, coding.structured) == (None, True)
    assert [*coding.prompts[0][0]] == ["user", "Sort these numbers."]
    assert not writing.structured
    assert [*drawing.prompts[0][0]] == ["user", "Draw."]
    assert not any(case.prompts for case in lines)
    prompt, answer = next(conversations([writing], 0, 50))
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSing.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert len(answer) >= 50
    _, code = next(conversations([coding], 0, 50))
    assert code.startswith("def ")


def test_a_step_drafts_at_width_one_and_verifies_at_the_window() -> None:
    decoding = Decoding(window=7, draft_cost=0.1, token_seconds=1, cost=Linear(0.01))
    # 28 positions: 1.27 passes; six drafts of 4 positions: 0.103 each.
    assert decoding.step_seconds(4) == pytest.approx(1.27 + 0.6 * 1.03)
    assert decoding.slowdown(4) == pytest.approx((1.27 + 0.6 * 1.03) / (1.06 + 0.6))
    upstream = Decoding(6, undrafted=0, draft_cost=0.1, token_seconds=1, cost=Linear(0.01))
    assert upstream.step_seconds(4) == decoding.step_seconds(4)
    assert [*upstream.steps(99, 0.9, "x")] == [*decoding.steps(99, 0.9, "x")]


@pytest.mark.parametrize("acceptance", [0.0, 0.52, 0.97])
def test_a_step_yields_what_the_theory_expects(acceptance: float) -> None:
    decoding = Decoding(window=7)
    _, *steps, _ = decoding.steps(20_000, acceptance, seed=1)
    assert {step.tokens for step in steps} <= set(range(1, 8))
    mean = sum(step.tokens for step in steps) / len(steps)
    assert mean == pytest.approx(decoding.tokens_per_step(acceptance), rel=0.03)


def test_the_last_step_yields_more_than_the_answer_takes() -> None:
    *steps, last = Decoding(window=5, speed=10).steps(20, 1.0, "x")
    step = Decoding(window=5, speed=10).step_seconds()
    assert [each.at for each in steps] == pytest.approx([0.02 + n * step for n in range(4)])
    assert [(step.tokens, step.beyond) for step in steps] == [(1, 0), (5, 0), (5, 0), (5, 0)]
    assert (last.tokens, last.beyond) == (4, 1)


EAGLE3: dict[str, Any] = {"models.draft": EAGLE3_HEAD, "speculation.mode": "eagle3"}


@pytest.mark.parametrize(
    ("runtime", "head", "face"),
    [
        ("vllm-0.9.1-nxdi", {}, {"--engine=v0", "--undrafted=1"}),
        ("vllm-neuron-1.x", EAGLE3, {"--engine=v1", "--undrafted=0", "--counts-drafts"}),
    ],
)
def test_they_have_the_runtime_s_face(
    runtime: str, head: dict[str, Any], face: set[str], tmp_path: Path
) -> None:
    experiment = parse(edited(EAGLE | {"runtime": runtime} | head), "mine.yaml")
    servers = golden_servers(experiment, 10, {"A": "1"}, tmp_path)
    server = servers["SD"]
    assert {f"--model={experiment.models.target.id}", "--speed=10", *face} <= {*server.command}
    assert ("--counts-drafts" in server.command) == ("--counts-drafts" in face)
    assert server.environment == {"A": "1"}
    assert f"--port={server.url.rpartition(':')[2].removesuffix('/v1')}" in server.command
    assert json.loads((tmp_path / "acceptance-SD.json").read_bytes())
