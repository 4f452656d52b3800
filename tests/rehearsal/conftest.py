"""An embedded AWS, empty, and rehearsals in it without the CDK's CLI."""

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from app import write_manifests
from charts.benchmark import prompt_assets
from charts.names import Deployed, bucket_name, prompts_bucket_name, stopper_arn
from experiment import Experiment, load
from rehearsal import __main__ as command
from rehearsal import rehearse as rehearsal
from rehearsal.aws import Aws, embedded_aws
from rehearsal.endpoints import GOLDEN
from rehearsal.setting import Caps, Endpoints, Layout, Outcome
from spectap.report import results
from spectap.report.results import Results
from tests.conftest import edited
from tests.experiment.files import REGION
from tests.synthesis import ACCOUNT, ROOT

QUICK: Final = replace(GOLDEN, caps=Caps(rounds=1, output_tokens=50, prompts=2), start_seconds=5)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws


@dataclass(frozen=True)
class Rehearsed:
    outcome: Outcome
    layout: Layout
    printed: str
    """Progress and summary."""

    @property
    def run(self) -> Results:
        return results.read(self.outcome.run_dir)

    @property
    def stand_ins(self) -> str:
        return (self.outcome.run_dir / "stand-ins.txt").read_text(encoding="utf-8")


Rehearse = Callable[..., Rehearsed]


def write_deployed(experiment: Experiment, account: str, folder: Path) -> None:
    deployed = Deployed(
        bucket_name(experiment, account),
        "an-image:1",
        stopper_arn(experiment, account),
        prompts_bucket_name(experiment, account, "hnb659fds"),
    )
    write_manifests(experiment, deployed, folder)


@pytest.fixture(scope="module")
def manifests(article: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    write_deployed(article, ACCOUNT, folder)
    return folder


@pytest.fixture(scope="module")
def rehearse(aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    """Calls ``python -m rehearsal FILE``, for the article's file changed.

    The CDK's own CLI is left out.
    """

    def called(
        changes: dict[str, Any], endpoints: Endpoints = QUICK, prompts: str = ""
    ) -> Rehearsed:
        folder, outcomes = tmp_path_factory.mktemp("checkout"), list[Outcome]()
        (folder / "packages").symlink_to(ROOT / "packages")
        (folder / "own.jsonl").write_text(prompts, encoding="utf-8")
        file = edited(folder, changes)

        def synthesise(file: str, layout: Layout, _: object) -> None:
            experiment = load(file)
            write_deployed(experiment, aws.account, layout.manifests)
            for key, content in prompt_assets(experiment).items():
                (layout.assembly / key).write_bytes(content)

        def kept(*given: Any) -> Outcome:
            outcomes.append(rehearsal.rehearse(*given))
            return outcomes[0]

        @contextlib.contextmanager
        def running_aws(region: str, _: Path) -> Iterator[Aws]:
            yield replace(aws, region=region)

        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["rehearsal", str(file)])
            for name, stand_in in {"ROOT": folder, "rehearse": kept}.items():
                patch.setattr(command, name, stand_in)
            patch.setattr(rehearsal, "_synthesise", synthesise)
            patch.setattr(rehearsal, "embedded_aws", running_aws)
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                status = command.main(endpoints)
        assert outcomes, printed.getvalue()
        assert status == (1 if outcomes[0].failed else 0), printed.getvalue()
        return Rehearsed(outcomes[0], Layout(folder), printed.getvalue())

    return called
