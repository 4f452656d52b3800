"""Which stages an experiment has, and in which order."""

from __future__ import annotations

from deployment.stages.benchmark import Benchmark
from deployment.stages.check import Check
from deployment.stages.deploy import Deploy
from deployment.stages.finish import Results, Stop
from deployment.stages.prepare import Compile, Download
from deployment.stages.restore import Restore
from deployment.stages.serve import Serve
from deployment.stages.stage import Stage, Way
from deployment.stages.start import Start
from experiment.schema import CompileNode


def stages(way: Way) -> list[Stage]:
    """Trainium nodes stand only for those that need them."""
    experiment = way.place.experiment
    prepared: list[Stage] = [Start(way)]
    match experiment.compile_node:
        case CompileNode.CPU:
            prepared = [Compile(way), Start(way)]
        case CompileNode.TRAINIUM:
            prepared = [Start(way), Compile(way)]
    served: list[Stage] = [] if experiment.apart else [Serve(way)]
    return [
        Check(way),
        Deploy(way),
        Restore(way),
        Download(way),
        *prepared,
        *served,
        Benchmark(way),
        Stop(way),
        Results(way),
    ]
