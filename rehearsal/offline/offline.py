"""Each variant as a job: the indexes of one Job, each of which generates by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from experiment import Experiment
from experiment.variants import Variant, variants
from rehearsal.errors import RehearsalError
from rehearsal.golden import cost
from rehearsal.golden.acceptances import OF_STRUCTURE, by_text
from rehearsal.golden.arithmetic import COST, decoding
from rehearsal.golden.drafts import draft_of
from rehearsal.golden.endpoints import SPEED
from rehearsal.golden.said import said
from rehearsal.offline.job import read_offline_job
from rehearsal.offline.nxdi.device import Truth
from rehearsal.offline.pods import OfflinePods
from rehearsal.outcome import Measured
from rehearsal.setting import Setting
from rehearsal.sweep import indexes
from rehearsal.sweep.controller import Attempt
from rehearsal.sweep.faults import Faults
from spectap.config import Structure
from spectap.names import LEDGER

_PACE: Final = "the article's speed"


def offline(setting: Setting, faults: Faults) -> Measured:
    """Measures all variants, an index each. Raises RehearsalError or ProcessError."""
    if shutil.which("flock") is None:
        raise RehearsalError("generate.sh needs flock, which util-linux brings along")
    job = read_offline_job(setting.layout.manifests)
    indexes.check(setting, job)
    pods = OfflinePods(
        job,
        {variant.name: variant for variant in variants(setting.experiment)},
        truths(setting.experiment),
        setting.entry_point,
        replace(setting.place({}), stand_in=f"a golden inference_demo at {SPEED} times {_PACE}"),
        faults,
        setting.layout,
    )
    return indexes.measured(
        setting,
        pods,
        faults,
        title="run the jobs",
        at_once=job.parallelism,
        note=LEDGER,  # to which a turn is added when it is whole
        said=tuple(_said(setting.experiment)),
        differences=_differences(pods),
        load="none; a job generates one prompt after another",
    )


def truths(experiment: Experiment) -> dict[str, Truth]:
    """What each variant's golden NxDI knows, by the variant's name. Raises RehearsalError."""
    accepted = by_text(experiment)
    return {variant.name: _truth(variant, accepted) for variant in variants(experiment)}


def _truth(variant: Variant, accepted: Mapping[str, float]) -> Truth:
    own, draft = decoding(variant, COST, SPEED), draft_of(variant)
    return Truth(
        token_seconds=own.token_seconds,
        draft_cost=own.draft_cost,
        prefill_seconds=own.prefill_seconds,
        speed=own.speed,
        cost=cost.argument(own.cost),
        otherwise=draft.acceptance(OF_STRUCTURE[Structure.OPEN_ENDED]),
        by_text={text: draft.acceptance(rate) for text, rate in accepted.items()},
    )


def _said(experiment: Experiment) -> Iterator[str]:
    yield f"none; a golden inference_demo, {SPEED} times {_PACE}, by this arithmetic"
    yield from said(experiment, COST)


def _differences(pods: OfflinePods) -> Iterator[str]:
    yield from pods.benchmark(Attempt(0)).differences
    yield "generate: NxDI's packages are golden ones, and so are its artifacts"
    yield "generate: paths of its command are those of its folders here"
    yield "fetch: left out, since nothing is compiled"
