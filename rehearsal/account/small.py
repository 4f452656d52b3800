"""The experiment that is rehearsed: its own variants, with as little load as it can do with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from experiment import load
from experiment.smoke import small_load

IMAGE: Final = "public.ecr.aws/example/benchmark:rehearsal"
"""Nobody pulls it: the benchmark is a process here, and nothing is to be built."""


def write_small(file: str, into: Path) -> Path:
    """Writes ``file`` with the load of ``make smoke``, and with an image, into a folder.

    Its models need not be small ones: nobody loads them here. Raises ExperimentError or OSError.
    """
    yaml = YAML()
    small = yaml.load(Path(file))
    small["benchmark"] |= small_load(load(file)) | {"image": IMAGE}
    into.mkdir(parents=True, exist_ok=True)
    path = into / Path(file).name
    with path.open("w", encoding="utf-8") as written:
        yaml.dump(small, written)
    load(str(path))
    return path
