"""Golden endpoints are as fast as the article says, by an arithmetic that is known."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiment import Experiment, load
from experiment.loader import parse
from experiment.variants import variants
from operations.console import Console
from rehearsal.aws import Aws
from rehearsal.endpoints import (
    GOLDEN,
    OF_CLASS,
    OF_STRUCTURE,
    by_text,
    decoding,
    of_class,
    prompts_of,
)
from rehearsal.setting import Layout, Setting
from spectap.golden.schedule import Decoding
from spectap.golden.server import Acceptance
from spectap.inputs.config import Structure
from tests.experiment.files import (
    EAGLE,
    EAGLE3_HEAD,
    EXPERIMENTS,
    edited,
)
from tests.vllm.corpus import Case, conversations
from tests.vllm.endpoints import cases


def test_the_article_s_shape(article: Experiment) -> None:
    base, sd = variants(article)
    in_flight = article.benchmark.points[0].concurrency
    assert in_flight == 4
    assert decoding(base).time_per_token(1, in_flight) == pytest.approx(0.045)
    gains = {s: decoding(sd).gain(rate, in_flight) for s, rate in OF_STRUCTURE.items()}
    assert gains[Structure.STRUCTURED] == pytest.approx(3, abs=0.15)
    assert gains[Structure.OPEN_ENDED] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_file_has_endpoints(file: Path) -> None:
    assert by_text(load(file))


PROMPTS = [
    {"prompt": "Sort these numbers.", "class": "coding"},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sing."}]}
    | {"class": "writing"},
    {"prompt": "Draw.", "class": "of-their-own"},
]


def test_prompts_are_accepted_by_their_class_or_line_and_a_pair_is_trained_on_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in PROMPTS))
    own = {"name": "own", "file": "own.jsonl", "classes": ["coding", "writing", "of-their-own"]}
    (tmp_path / "mine.yaml").write_text(edited({"benchmark.test_cases": [own]}))
    with_prompts = load(tmp_path / "mine.yaml")
    known = Acceptance(by_text(with_prompts))
    assert known.of("Sort these numbers.") == pytest.approx(OF_CLASS["coding"], abs=0.2)
    assert known.of("Be brief.\nSing.") == pytest.approx(OF_CLASS["writing"], abs=0.2)
    assert known.of("Draw.") == pytest.approx(of_class("of-their-own"), abs=0.2)
    test_case = with_prompts.benchmark.test_cases[0].model_copy(update={"classes": ("writing",)})
    assert [prompt.prompt_class for prompt in prompts_of(with_prompts, test_case)] == ["writing"]

    coding, writing, drawing = (Case(*case) for case in json.loads(cases(with_prompts)))
    assert (coding.line, coding.structured) == (None, True)
    assert [*coding.prompts[0][0]] == ["user", "Sort these numbers."]
    assert not writing.structured
    assert [*drawing.prompts[0][0]] == ["user", "Draw."]
    prompt, answer = next(conversations([writing], 0, 50))
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSing.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert len(answer) >= 50
    _, code = next(conversations([coding], 0, 50))
    assert code.startswith("def ")


@pytest.mark.parametrize("acceptance", [0.0, 0.52, 0.97])
def test_a_step_yields_what_the_theory_expects(acceptance: float) -> None:
    decoding = Decoding(drafts=6)
    _, *steps, _ = decoding.steps(20_000, acceptance, seed=1)
    assert {step.tokens for step in steps} <= set(range(1, 8))
    mean = sum(step.tokens for step in steps) / len(steps)
    assert mean == pytest.approx(decoding.tokens_per_step(acceptance), rel=0.03)


def test_the_last_step_yields_more_than_the_answer_takes() -> None:
    *steps, last = Decoding(drafts=4, speed=10).steps(20, 1.0, "x")
    step = Decoding(drafts=4, speed=10).step_seconds()
    assert [each.at for each in steps] == pytest.approx([0.02 + n * step for n in range(4)])
    assert [(step.tokens, step.beyond) for step in steps] == [(1, 0), (5, 0), (5, 0), (5, 0)]
    assert (last.tokens, last.beyond) == (4, 1)


EAGLE3: dict[str, Any] = {"models.draft": EAGLE3_HEAD, "speculation.mode": "eagle3"}


@pytest.mark.parametrize(
    ("runtime", "head", "face"),
    [
        ("vllm-0.9.1-nxdi", {}, {"--engine=v0", "--drafts=6"}),
        ("vllm-neuron", EAGLE3, {"--engine=v1", "--drafts=7", "--counts-drafts"}),
    ],
)
def test_they_have_the_runtime_s_face(
    runtime: str, head: dict[str, Any], face: set[str], tmp_path: Path
) -> None:
    experiment = parse(edited(EAGLE | {"runtime": runtime} | head), "mine.yaml")
    aws = Aws("", "", "", {"A": "1"})
    setting = Setting(experiment, "", Layout(tmp_path), aws, GOLDEN, Console(1))
    server = GOLDEN.servers(setting, None).by_variant["SD"]
    assert {f"--model={experiment.models.target.id}", "--speed=10", *face} <= {*server.command}
    assert ("--counts-drafts" in server.command) == ("--counts-drafts" in face)
    assert server.environment == {"A": "1"}
    assert f"--port={server.url.rpartition(':')[2].removesuffix('/v1')}" in server.command
    assert json.loads((setting.layout.logs / "acceptance.json").read_bytes())
