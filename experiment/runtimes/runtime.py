"""A runtime: an image generation that compiles and serves on Trainium."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from experiment.known_models import Family, Mode, ModelKind
from experiment.speculation import Serving
from spectap.names import Engine


class Workload(StrEnum):
    """The kind of a variant's Kubernetes workload."""

    SERVICE = "service"
    """A Deployment and a Service."""
    JOB = "job"


class Preparation(StrEnum):
    """The time at which a variant's graphs are compiled."""

    COMPILE_JOB = "compile-job"
    """Ahead of time, on CPUs, by a Job of its own."""
    FIRST_START = "first-start"
    """On the devices, by the first service that starts. Its cache is kept in the bucket."""


@dataclass(frozen=True, kw_only=True)
class ModeSupport:
    """A runtime's support of one mode."""

    draft: ModelKind | None
    """The draft's kind; None for a mode that needs no draft model."""
    families: frozenset[Family]
    """Target families whose model class supports it."""
    minimum_tokens: int
    """The smallest ``num_speculative_tokens``."""
    greedy_only: bool
    """Whether the device samples greedily, whatever temperature a request asks for."""
    unproven: frozenset[Family] = frozenset()
    """Families for which nobody has shown that it works on this image."""
    source: str = ""
    """The source of the command line, as a permanent link."""
    maximum_tokens: int | None = None
    """The largest ``num_speculative_tokens``; None where the mode sets no limit."""
    tensor_parallel: tuple[int, ...] | None = None
    """The values of ``serving.tensor_parallel`` that it takes; None for any."""
    workload: Workload = Workload.SERVICE
    speculates_without: str | None = None
    """A feature that the runtime turns off for a variant in this mode. A baseline has it."""
    may_keep_it: bool = False
    """Whether the experiment's file may keep that feature on."""
    undrafted: int = 0
    """Window positions that no draft fills. NxDI keeps one for the token that the drafts follow."""

    def drafts_per_step(self, window: int) -> int:
        """Drafts that a step verifies. The step yields at most one token more."""
        return window - self.undrafted

    def ahead(self, window: int) -> int:
        """Positions beyond the last token that a step may use. A request must leave them free."""
        return window


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The settings of one variant's compile and service, all that a runtime knows of it."""

    target: str
    """The name under which the target is served."""
    family: Family
    """The target's."""
    tool_parser: str | None
    """vLLM's tool parser; None where no prompt has tools."""
    platform: str
    """``InstanceType.platform``."""
    serving: Serving
    batch: int
    """The variant's own, or that of ``serving``."""
    served_length: int
    answer_tokens: int
    """Tokens of the answers to a job's prompts."""
    mode: Mode | None
    """None for a baseline, as ``window``."""
    window: int | None
    has_draft: bool
    modes: tuple[Mode, ...]
    """All modes of the experiment. What one of them needs of a server, all variants get."""
    without: str | None
    """A feature of the runtime that this variant is served without."""

    @property
    def compiled_mode(self) -> Mode:
        """The variant's mode; for a baseline, the mode of the variants that are compared with it.

        A baseline that runs as a job is measured as they are, so the mode decides its compile.
        """
        return self.mode or self.modes[0]


@dataclass(frozen=True)
class Paths:
    """The paths in a container that the command lines of a runtime refer to."""

    target: str
    draft: str | None
    """The draft's checkpoint as downloaded; None for a variant without a draft."""
    artifact: str
    """The folder into which the artifact is compiled, or from which it is read."""
    scratch: str
    """An empty folder that a compile Job's containers share."""
    scripts: str
    """The folder of the files of ``charts/scripts``."""


@dataclass(frozen=True, kw_only=True)
class Runtime(ABC):
    """One image generation. Everything that differs between generations is in its module."""

    name: str
    image: str
    ami_release: str
    """The release of the EKS AMI whose Neuron driver suits the image's runtime library
    (aws-neuron-sdk 81ce03ae, ``release-notes/components/runtime.rst``; awslabs/amazon-eks-ami
    15822511, ``CHANGELOG.md``)."""
    engine: Engine
    """The engine, which decides the counters of ``/metrics``."""
    counts_drafts: bool = False
    """Whether it fills V1's counters of drafts, ``vllm:spec_decode_*``."""
    modes: Mapping[Mode, ModeSupport]
    maintenance: str | None = None
    """The date since which it only gets fixes, and its successor, in words."""
    one_family: bool = False
    """Whether a draft uses its target's model class and so must be of its family."""
    takes_norm_before_residual: bool = True
    """Whether it supports EAGLE3 heads with norm_before_residual."""
    lengths: tuple[int, ...] | None = None
    """The values of ``serving.length`` that it compiles for; None for any."""
    logical_core_size: Literal[1, 2] | None = None
    """The only value of ``serving.logical_core_size`` that it serves; None for any."""
    usable_memory: float = 0.8
    """Share of device memory that weights and KV cache may use. Compiled graphs and scratch space
    need the rest."""
    cache_memory: float = 1.0
    """Share of device memory that the KV cache alone may use."""
    takes_fewer_cores: bool = False
    """Whether a service may use a part of its claim's cores: the first ``tensor_parallel``."""
    preparation: Preparation = Preparation.COMPILE_JOB
    cached_at: Mapping[str, str] = field(default_factory=dict)
    """The folders of ``Paths.artifact`` that a first start fills, each with the absolute path at
    which the image looks for it."""
    complete_environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment of a start that finds its cache complete."""

    @property
    def tag(self) -> str:
        """The image's tag, without the digest."""
        return self.image.partition("@")[0].rpartition(":")[2]

    def cache_tokens(self, config: EngineConfig) -> int:
        """The tokens that the KV cache has room for: those of a full batch."""
        return config.serving.length * config.batch

    @abstractmethod
    def compile_flags(self, config: EngineConfig) -> tuple[str, ...]:
        """The flags that decide the graphs. They are part of the artifact's key: no paths."""

    def artifact_parts(self, config: EngineConfig) -> tuple[str, ...]:
        """The files and folders of a complete artifact, for a runtime with a compile Job."""
        raise NotImplementedError

    def compile_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """The command that compiles into ``paths.artifact``, in a compile Job."""
        raise NotImplementedError

    def compile_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        return {}

    def draft_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """The command of the script that prepares the draft; empty without one."""
        return []

    def draft_version(self, config: EngineConfig) -> tuple[str, ...]:
        """The draft's script with its version, for the artifact's key."""
        return ()

    def generate_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """The command of a job that generates from ``paths.artifact``."""
        raise NotImplementedError

    def generate_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        return {}

    @abstractmethod
    def serve_command(self, config: EngineConfig, paths: Paths, port: int) -> list[str]:
        """The command that serves ``paths.artifact`` in OpenAI's protocol on ``port``."""

    @abstractmethod
    def serve_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]: ...


def serve(config: EngineConfig, paths: Paths, port: int) -> tuple[str, ...]:
    """The flags for the model, its name and its address."""
    named = ("--served-model-name", config.target)
    return ("vllm", "serve", paths.target, *named, "--port", str(port))


def tools(config: EngineConfig) -> tuple[str, ...]:
    """The flags for tool calls, if any prompt has tools: all services get them or none."""
    parser = config.tool_parser
    return ("--enable-auto-tool-choice", "--tool-call-parser", parser) if parser else ()


def compact(value: Mapping[str, Any]) -> str:
    """JSON for a command line: on one line, with keys in the given order."""
    return json.dumps(value, separators=(",", ":"))
