"""``make experiment`` through all of its stages: called, killed, and called again."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from charts.names import COMPILE_NODES, COMPILED_PREFIX, TRAINIUM_NODES
from experiment.variants import variants
from spectap.names import COMPLETE, RESULTS_PREFIX
from tests.experiment.files import swept
from tests.operations.conftest import operating
from tests.operations.fake_aws import HOUR, action
from tests.operations.operators import STACKS, STAGES, Operator
from tests.stacks.test_delivery import allowed, synthesise


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Operator]:
    with operating(tmp_path, {}) as account:
        yield account


def test_each_stage_once_and_nothing_again(account: Operator, tmp_path: Path) -> None:
    assert account.run("experiment", "--yes") == 0, account.output
    assert account.stages == [*STAGES]
    holds(account)
    assert account.run("experiment", "--yes") == 0, account.output
    holds(account)

    assert account.run("experiment", "--yes", "--again") == 0, account.output
    assert [size for _, size in sizes(account, TRAINIUM_NODES)] == [0, 1, 0, 1, 0]
    assert account.cluster
    assert sorted(account.cluster.begun.values()) == [1, 1, 1, 2]
    assert len([*(tmp_path / "results").iterdir()]) == 2

    for command in ("preflight", "status", "logs", "results", "start --yes", "stop"):
        assert account.run(*command.split()) == 0, account.output
    assert account.run("destroy", "--yes") == 0, account.output
    assert account.aws.cloudformation.stacks == {}
    # The role of the workflows may do whatever these commands ask for.
    actions = {action(call) for call in account.aws.calls} - {"sts:GetCallerIdentity"}
    (tmp_path / "delivery").mkdir()
    assert actions <= allowed(synthesise(tmp_path / "delivery"), "Deploy").keys()


def test_killed_in_each_stage_it_ends_the_same(account: Operator) -> None:
    """Somebody comes back at once, or when what was begun has gone on for an hour."""
    killed = []
    for stage, (calls, away) in zip(STAGES, itertools.cycle([(9, 0.0), (25, HOUR)])):
        killed += [stage] if account.kill_in(stage, calls) else []
        account.aws.clock.advance(away)
    assert {*STAGES} - {*killed} <= {"results"}  # which may be over before
    assert account.run("experiment", "--yes") == 0, account.output
    holds(account)


def test_a_sweep_that_is_killed_in_its_measuring(tmp_path: Path) -> None:
    with operating(tmp_path, swept()) as account:
        assert account.kill_in("benchmark", 40)
        asked = len(account.aws.calls)
        assert account.run("status") == 0
        screen = [" ".join(line.split()) for line in account.output.splitlines()]
        for begin in (
            "stacks network, cluster, model-store, trainium, serving, observability, budget: comp",
            "nodes trainium ",
            "jobs download complete since ",
            "guard trainium to 0 at ",
        ):
            assert any(line.startswith(begin) for line in screen), account.output
        assert not any("Update" in call or "Put" in call for call in account.aws.calls[asked:])
        assert account.run("experiment", "--yes") == 0, account.output
        assert account.stages == [name for name in STAGES if name != "serve"]
        holds(account)


def holds(account: Operator) -> None:
    """Nothing was made twice, and Trainium was paid for only while something was measured."""
    assert account.cluster
    experiment, written = account.cluster.experiment, account.cluster.written
    assert sorted(account.executed) == sorted(STACKS)
    assert {*account.cluster.begun.values()} == {1}, account.cluster.begun

    graphs = [key for key in written if key.startswith(COMPILED_PREFIX) and key.endswith(COMPLETE)]
    assert len(graphs) == len(variants(experiment))
    (_, first), (up, most), (down, last) = sizes(account, TRAINIUM_NODES)
    assert (first, most, last) == (0, experiment.capacity.nodes, 0)
    assert up >= max(written[key] for key in graphs)
    assert down >= max(when for key, when in written.items() if key.startswith(RESULTS_PREFIX))
    assert [size for _, size in sizes(account, COMPILE_NODES)] == [0, len(graphs), 0]

    (run,) = {key.split("/")[1] for key in written if key.startswith(RESULTS_PREFIX)}
    assert (account.file.parent / "results" / run / "config.json").is_file()


def sizes(account: Operator, kind: str) -> list[tuple[float, int]]:
    """When a group of nodes was asked for which size, from the stack's own on."""
    (group,) = (g for g in account.aws.eks.groups.values() if g.name.startswith(kind))
    history: list[tuple[float, int]] = [(0.0, 0)]
    for update in group.updates:
        params: dict[str, Any] = {param["type"]: param["value"] for param in update["params"]}
        size = int(params.get("DesiredSize", history[-1][1]))
        if size != history[-1][1]:
            history.append((account.aws.clock.seconds_of(update["createdAt"]), size))
    return history
