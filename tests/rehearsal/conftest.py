"""An embedded AWS, empty, and rehearsals in it without the CDK's CLI."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from app import write_manifests
from charts.llmperf import prompt_assets
from charts.names import Deployed, bucket_name, prompts_bucket_name, stopper_arn
from deployment.console import Console
from experiment import Experiment
from rehearsal.aws.client import Aws, embedded_aws
from rehearsal.golden.endpoints import GOLDEN
from rehearsal.indexes import NO_FAULTS, Faults, isolated
from rehearsal.rehearse import compared, create
from rehearsal.setting import Caps, Layout, Outcome, Setting
from spectap.report import results
from spectap.report.results import Results
from tests.synthesis import ACCOUNT, ROOT

REGION: Final = "us-east-2"
QUICK: Final = replace(GOLDEN, caps=Caps(rounds=1, output_tokens=50), start_seconds=5)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """One for the tests of a module."""
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal left."""

    outcome: Outcome
    layout: Layout
    printed: str
    """Progress and summary."""

    @property
    def run(self) -> Results:
        """The results."""
        return results.read(self.outcome.run_dir)

    @property
    def stand_ins(self) -> str:
        """The file that lists what stood in for what."""
        return (self.outcome.run_dir / "stand-ins.txt").read_text(encoding="utf-8")


Rehearse = Callable[..., Rehearsed]


def write_deployed(experiment: Experiment, account: str, folder: Path) -> None:
    """Writes the manifests of an experiment deployed in an account."""
    deployed = Deployed(
        bucket_name(experiment, account),
        "an-image:1",
        stopper_arn(experiment, account),
        prompts_bucket_name(experiment, account, "hnb659fds"),
    )
    write_manifests(experiment, deployed, folder)


@pytest.fixture(scope="module")
def manifests(article: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The article's, as a folder."""
    folder = tmp_path_factory.mktemp("dist")
    write_deployed(article, ACCOUNT, folder)
    return folder


@pytest.fixture(scope="module")
def rehearse(aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    """Rehearses an experiment, with faults if any."""

    def played(experiment: Experiment, faults: Faults = NO_FAULTS) -> Rehearsed:
        folder = tmp_path_factory.mktemp("checkout")
        (folder / "spectap").symlink_to(ROOT / "spectap")
        layout, regional = Layout(folder), replace(aws, region=experiment.aws.region)
        write_deployed(experiment, aws.account, layout.manifests)
        for key, content in prompt_assets(experiment).items():
            (layout.assembly / key).write_bytes(content)
        create(regional, experiment, layout)
        console = Console(9, stream := io.StringIO())
        setting = Setting(experiment, "rehearsal-1", layout, regional, QUICK, console)
        outcome = isolated(setting, faults) if experiment.isolated else compared(setting)
        outcome.write_stand_ins()
        return Rehearsed(outcome, layout, stream.getvalue() + outcome.summary(console))

    return played
