"""Where a rehearsal's things lie in the checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The folders of one checkout."""

    root: Path

    @property
    def work(self) -> Path:
        """What is there for one rehearsal only."""
        return self.root / ".cache" / "rehearsal"

    @property
    def pairs(self) -> Path:
        """Model pairs made for vLLM on the CPU, which outlive a rehearsal."""
        return self.root / ".cache" / "pairs"

    @property
    def vllm(self) -> Path:
        """The Python that has vLLM."""
        return self.root / ".venv-vllm" / "bin" / "python"

    @property
    def manifests(self) -> Path:
        """What synthesis renders for Kubernetes."""
        return self.root / "dist"

    @property
    def logs(self) -> Path:
        """What each process said."""
        return self.work / "logs"

    @property
    def mounts(self) -> dict[str, Path]:
        """The benchmark pod's mounted paths."""
        return {
            "/etc/benchmark": self.work / "etc-benchmark",
            "/results": self.root / "results",
            "/tmp": self.work / "tmp",
        }
