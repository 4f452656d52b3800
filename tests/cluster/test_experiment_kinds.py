"""The whole way of what is no service with a compile Job: a sweep, jobs, first starts."""

from __future__ import annotations

from pathlib import Path

from charts.names import COMPILED_PREFIX, TRAINIUM_NODES
from rehearsal.account import timeline
from rehearsal.account.world import World
from spectap.names import COMPLETE, RESULTS_PREFIX
from tests.charts.test_first_start import EAGLE3
from tests.cluster.holding import holds, runs, sizes
from tests.cluster.way import STAGES, Way, begun
from tests.experiment.files import ON_TRAINIUM, VANILLA, swept


def test_a_sweep_that_is_killed_in_its_measuring(tmp_path: Path) -> None:
    """Three windows and their baseline on a node with room for two of them."""
    with begun(tmp_path, swept()) as way:
        way.kill_at("benchmark", _has_measured_one)
        way.run()
        assert way.stages() == [name for name in STAGES if name != "serve"]
        holds(way)
        _does_nothing_again(way)


def test_jobs_that_compile_on_the_trainium_node(tmp_path: Path) -> None:
    with begun(tmp_path, VANILLA | ON_TRAINIUM) as way:
        way.run()
        stages = way.stages()
        assert stages.index("download") < stages.index("start") < stages.index("compile")
        assert {*STAGES} - {*stages} == {"serve"}
        holds(way)
        _does_nothing_again(way)


def test_services_that_compile_at_their_first_start(tmp_path: Path) -> None:
    with begun(tmp_path, EAGLE3) as way:
        way.run()
        assert way.stages() == [name for name in STAGES if name != "compile"]
        holds(way)
        _does_nothing_again(way)
        # Another start finds the cache complete.
        graphs = timeline.written(way.world, COMPILED_PREFIX)
        way.run("experiment", "--yes", "--again")
        assert timeline.written(way.world, COMPILED_PREFIX) == graphs
        assert sizes(way.world, TRAINIUM_NODES) == [0, 1, 0, 1, 0]
        assert len(runs(way)) == 2


def _has_measured_one(account: World) -> bool:
    """But not all variants are complete."""
    ends = [key for key in timeline.written(account, RESULTS_PREFIX) if key.endswith(COMPLETE)]
    return 0 < len(ends) < 4


def _does_nothing_again(way: Way) -> None:
    started, drawn = len(way.world.kubelets.record), runs(way)
    way.run()
    assert len(way.world.kubelets.record) == started
    assert runs(way) == drawn
    holds(way)
