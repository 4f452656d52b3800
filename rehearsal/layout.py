"""Where a rehearsal's files lie in the checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The folders of one checkout."""

    root: Path

    @property
    def work(self) -> Path:
        """Files of one rehearsal."""
        return self.root / ".cache" / "rehearsal"

    @property
    def pairs(self) -> Path:
        """Model pairs for vLLM on the CPU. They are kept for later rehearsals."""
        return self.root / ".cache" / "pairs"

    @property
    def vllm(self) -> Path:
        """The Python interpreter that has vLLM."""
        return self.root / ".venv-vllm" / "bin" / "python"

    @property
    def assembly(self) -> Path:
        """The cloud assembly that synthesis writes."""
        return self.root / "cdk.out"

    @property
    def manifests(self) -> Path:
        """The Kubernetes manifests that synthesis renders."""
        return self.root / "dist"

    @property
    def logs(self) -> Path:
        """The output of each process."""
        return self.work / "logs"

    @property
    def pods(self) -> Path:
        """A sweep's: a folder for each, with one for each path that its benchmark mounts."""
        return self.work / "pods"

    @property
    def mounts(self) -> dict[str, Path]:
        """The folder here for each path that the benchmark pod mounts."""
        return {
            "/etc/benchmark": self.work / "etc-benchmark",
            "/results": self.root / "results",
            "/tmp": self.work / "tmp",
        }
