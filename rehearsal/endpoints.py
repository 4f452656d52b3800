"""Golden endpoints for an experiment's variants, and how fast they are, which is the truth that
measurements are held against.

The article's structures get the article's speed-ups, 3 where a continuation is predictable and 1
where it is not. The other rules are ours, and made for a rehearsal. Times are at the article's
speed unless stated otherwise.
"""

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from experiment import Experiment
from experiment.measurement import TestCase
from experiment.variants import Variant, variants
from rehearsal import RehearsalError
from rehearsal.manifest import IndexedJob
from rehearsal.processes import lasting_port
from rehearsal.setting import Caps, Endpoints, Server, Servers, Setting
from spectap.errors import ConfigError
from spectap.golden.schedule import TOKEN_SECONDS, Decoding, Linear
from spectap.inputs.config import PromptSource, Structure
from spectap.inputs.prompt import Prompt
from spectap.load import sets

OF_STRUCTURE: Final[Mapping[Structure, float]] = {
    Structure.STRUCTURED: 0.97,
    Structure.OPEN_ENDED: 0.52,
}
"""How likely a draft is accepted, whichever model made it."""

OF_CLASS: Final[Mapping[str, float]] = {
    "coding": 0.9,
    "extraction": 0.88,
    "math": 0.84,
    "reasoning": 0.75,
    "stem": 0.7,
    "humanities": 0.65,
    "writing": 0.58,
    "roleplay": 0.52,
}
"""Acceptance by class, in the order of published measurements."""
_OTHER_CLASSES: Final = (0.5, 0.95)
_SPREAD: Final = 0.05
"""Standard deviation between the prompts of a class."""

# A prompt is filled with its line and then cut. It certainly holds the line's beginning.
_CERTAIN_CHARACTERS: Final = 40

COST: Final = Linear(0.04)
_ARTICLE_CONCURRENCY: Final = 4

ARTICLE_DRAFT_COST: Final = 0.037
"""A draft of Qwen3-1.7B for Qwen3-32B: with ``COST`` and the article's window and load, it gives
the article's speed-ups."""


def draft_cost(variant: Variant) -> float:
    """Returns a draft's length in target passes: the article's, whatever the draft model's size.

    One whose number of drafts was fixed when it was trained makes all of them in one pass.
    """
    model = variant.draft
    return ARTICLE_DRAFT_COST / ((model and model.resolved_architecture.drafts) or 1)


def prompts_of(experiment: Experiment, case: TestCase) -> tuple[Prompt, ...]:
    """All prompts of a test case that has a set or a file. Raises RehearsalError."""
    if case.file is not None:
        prompts = experiment.prompt_files[case.file].prompts
        return tuple(p for p in prompts if not case.classes or p.prompt_class in case.classes)
    try:
        return sets.load(PromptSource(set=case.set, classes=case.classes), Path()).prompts
    except ConfigError as error:
        raise RehearsalError(str(error)) from None


def of_class(name: str) -> float:
    """The acceptance of a class; of one that is not known, any that its name alone decides."""
    return OF_CLASS.get(name, random.Random(name).uniform(*_OTHER_CLASSES))


def by_text(experiment: Experiment) -> dict[str, float]:
    """Acceptance by the text that a golden endpoint recognises a prompt by.

    The first text that a prompt contains counts. Prompts are filled with the line of their test
    case, so the text is that line or its beginning; those of sets are sent as they are. The longest
    texts come first, because one may begin like another. Raises RehearsalError.
    """
    known: dict[str, float] = {}
    for case in experiment.benchmark.test_cases:
        if not case.is_line:
            for prompt in prompts_of(experiment, case):
                rate = random.Random(prompt.name).gauss(of_class(prompt.prompt_class), _SPREAD)
                contents = [message.get("content") for message in prompt.messages]
                texts = [text.strip() for text in contents if isinstance(text, str)]
                for text in [text for text in texts if text][-1:]:  # others may begin alike
                    known[text] = min(0.98, max(0.05, rate))
        elif case.line is not None and case.structure is not None:
            text = ("\n" + case.line.rstrip("\n") + "\n")[:_CERTAIN_CHARACTERS]
            known[text] = OF_STRUCTURE[case.structure]
    return {text: known[text] for text in sorted(known, key=len, reverse=True)}


def decoding(variant: Variant, speed: float = 1) -> Decoding:
    """How the variant's endpoint decodes."""
    return Decoding(
        drafts=variant.drafts_per_step or 0,
        draft_cost=draft_cost(variant),
        token_seconds=TOKEN_SECONDS / COST(_ARTICLE_CONCURRENCY),
        speed=speed,
        cost=COST,
    )


SPEED: Final = 10
"""How much faster the golden endpoints are than the article's baseline."""
LAUNCH_ERROR: Final = 0.02
"""How far the launches of one endpoint are off each other, where a run has several."""


def _servers(setting: Setting, job: IndexedJob | None) -> Servers:
    experiment, logs = setting.experiment, setting.layout.logs
    several = experiment.benchmark.launches > 1
    environment, acceptance = setting.serving_environment, logs / "acceptance.json"
    logs.mkdir(parents=True, exist_ok=True)
    acceptance.write_text(json.dumps(by_text(experiment)), encoding="utf-8")
    servers = {}
    for variant in variants(experiment):
        schedule, port = decoding(variant, SPEED), lasting_port()
        options = {
            "port": port,
            "engine": variant.runtime.engine,
            "model": experiment.models.target.id,
            "drafts": schedule.drafts,
            "batch": variant.batch,
            "max-model-len": experiment.serving.length,
            "speed": SPEED,
            "token-cost": COST.slope,
            "token-seconds": schedule.token_seconds,
            "draft-cost": schedule.draft_cost,
            "launch-error": LAUNCH_ERROR if several else 0.0,
            "acceptance": acceptance,
            "otherwise": OF_STRUCTURE[Structure.OPEN_ENDED],
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        counted = ["--counts-drafts"] if variant.runtime.counts_drafts else []
        command = (sys.executable, "-m", "spectap.golden", *arguments, *counted)
        servers[variant.name] = Server(f"http://127.0.0.1:{port}/v1", command, environment)
    first = (
        f"golden, {SPEED} times the article's speed: a pass takes {COST.slope:.1%} longer for each "
        f"further token, and a draft {ARTICLE_DRAFT_COST:.1%} of a pass"
    )
    launched = [f"a launch's times are {LAUNCH_ERROR:.0%} off (standard deviation)"] * several
    return Servers(servers, (first, *launched))


GOLDEN: Final = Endpoints(
    name=f"golden endpoints at {SPEED} times the article's speed",
    servers=_servers,
    # The article's load takes most of an hour at the article's speed.
    caps=Caps(rounds=4, output_tokens=120, rate_seconds=2),
    start_seconds=10,
)
"""They answer by a schedule. As processes, they do not wait for each other."""
