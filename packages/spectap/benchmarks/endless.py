"""Answers that do not end: a variant is faster by the token, and its answers run to their longest.

An answer costs what its tokens cost together, so what is true of the cost is that of an answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks import harness, verdicts
from benchmarks.harness import Bar, Group, Statement
from benchmarks.verdicts import COST
from spectap.analysis.summarise import summarise
from spectap.analysis.verdicts import Action
from spectap.inputs.config import Config
from spectap.inputs.prompt import Form
from spectap.records.answer import CheckedAnswer
from spectap.records.record import Record
from tests import samples

_TTFT: Final = 0.21
_TOKEN: Final = {"Base": 0.045, "SD": 0.045 / 1.31}
_TOKENS: Final = 256.0
_LONGEST: Final = 1100
_SLOTS: Final = 4
ENDS: Final = "ends by itself"


@dataclass(frozen=True)
class Endless:
    """A set of prompts, of which the variant's answers to some run on."""

    share: float
    """Of the prompts."""
    prompts: int = 120
    rounds: int = 6
    lengths: float = 0.3
    """Scatter of the answers' lengths."""

    @property
    def name(self) -> str:
        return f"{self.share:.0%} of {self.prompts} run on"

    def config(self) -> Config:
        """The configuration of its runs."""
        point = {"concurrency": _SLOTS, "requests": self.prompts // self.rounds}
        load = samples.load(points=[point], rounds=self.rounds, mean_output_tokens=_LONGEST)
        case = {"name": "case", "prompts": {"set": "simulated"}}
        return samples.config(load=load, test_cases=[case])

    def run(self, number: int) -> tuple[list[Record], list[CheckedAnswer]]:
        """The requests and answers of one of its runs."""
        chance = np.random.default_rng([round(1000 * self.share), self.prompts, number])
        lengths = self.lengths * chance.standard_normal(self.prompts) - self.lengths**2 / 2
        endless = chance.random(self.prompts) < self.share
        records, answers, point = [], [], self.config().load.points[0]
        for variant, token in _TOKEN.items():
            free = np.zeros(_SLOTS)
            for prompt in range(self.prompts):
                cut = bool(variant == "SD" and endless[prompt])
                tokens = _LONGEST if cut else max(2, round(_TOKENS * np.exp(lengths[prompt])))
                number_of_round, slot = prompt // point.requests, int(free.argmin())
                last = _TTFT + token * (tokens - 1) * float(np.exp(0.05 * chance.standard_normal()))
                place: dict[str, Any] = {
                    **{"variant": variant, "case": "case", "load": point.name, "attempt": 1},
                    **{"round": number_of_round + 1, "prompt": f"prompt-{prompt}"},
                }
                records.append(
                    samples.record(
                        **place,
                        request=f"{variant}-{prompt}",
                        sent=1e5 * number_of_round + float(free[slot]),
                        chunks=((_TTFT, 1), (last, tokens - 1)),
                        output_tokens=tokens,
                        end=last,
                    )
                )
                free[slot] += last
                answers.append(
                    CheckedAnswer(
                        **place,
                        digest="",
                        finish="length" if cut else "stop",
                        form=Form.JSON,
                        valid=None if cut else True,
                        problem="",
                        answer=None,
                    )
                )
        return records, answers

    @property
    def truth(self) -> float:
        """An answer's cost with the baseline, by that with the variant."""
        base, short, long = (
            _TTFT + _TOKEN[variant] * (tokens - 1)
            for variant, tokens in (("Base", _TOKENS), ("SD", _TOKENS), ("SD", _LONGEST))
        )
        return base / ((1 - self.share) * short + self.share * long)

    def statements(self, number: int) -> Iterator[Statement]:
        """The claim on cost that decides, and whether any check finds that answers do not end."""
        records, answers = self.run(number)
        summary = summarise(self.config(), records, answers=answers)
        comparison = summary.cases[0].cell("SD").comparison
        assert comparison is not None
        if comparison.cost is not None:
            yield verdicts.claimed(COST, self.truth, comparison.cost)
        found = any(check.worse for check in summary.correctness)
        yield Statement(ENDS, wrong=found and not self.share, found=found if self.share else None)
        plainly = comparison.verdict.action is Action.KEEP
        yield Statement("keep it on", wrong=plainly and self.truth < 1)


GROUPS: Final = (
    Group(
        "endless",
        tuple(Endless(share) for share in (0.0, 0.05, 0.10, 0.20, 0.40)),
        {COST: Bar(0.90), harness.ANY: Bar(None, wrong=0.07)},
    ),
    Group("far endless", (Endless(0.10), Endless(0.40)), {ENDS: Bar(None, found=0.95)}),
)
