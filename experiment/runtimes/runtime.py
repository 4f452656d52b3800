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
    """How a variant lives in Kubernetes."""

    SERVICE = "service"
    """A Deployment and a Service."""
    JOB = "job"


class Preparation(StrEnum):
    """When a variant's graphs are compiled."""

    COMPILE_JOB = "compile-job"
    """Ahead of time, on CPUs, by a Job of its own."""
    FIRST_START = "first-start"
    """On the devices, by the first service that starts. Its cache is kept in the bucket."""


@dataclass(frozen=True, kw_only=True)
class ModeSupport:
    """How one runtime serves one mode."""

    draft: ModelKind | None
    """The draft's kind; None for a mode that needs no draft model."""
    families: frozenset[Family]
    """Target families whose model class can do it."""
    minimum_tokens: int
    """The smallest ``num_speculative_tokens``."""
    greedy_only: bool
    """Tokens are sampled greedily on the device, whatever temperature a request asks for."""
    unproven: frozenset[Family] = frozenset()
    """Families for which nobody has shown it on this image."""
    source: str = ""
    """Where the command line was read, as a link that does not move."""
    maximum_tokens: int | None = None
    """The largest ``num_speculative_tokens``; None where the mode sets no limit."""
    tensor_parallel: tuple[int, ...] | None = None
    """The values of ``serving.tensor_parallel`` that it takes; None for any."""
    workload: Workload = Workload.SERVICE
    speculates_without: str | None = None
    """A feature that the runtime turns off where a variant speculates so. A baseline has it."""
    may_keep_it: bool = False
    """Whether the file may choose to keep that."""
    undrafted: int = 0
    """Positions of a window that no draft fills: NxDI keeps one, for the token that the drafts
    follow."""

    def drafts_per_step(self, window: int) -> int:
        """Drafts that a step verifies; it yields at most one token more."""
        return window - self.undrafted

    def ahead(self, window: int) -> int:
        """Positions beyond the last token that a step may use: a request must leave them free."""
        return window


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """What one variant is compiled, served and run with; all that a runtime knows of it."""

    target: str
    """Name that the target is served under."""
    family: Family
    """The target's."""
    tool_parser: str | None
    """None where no prompt has tools."""
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
    """Modes of the experiment: what one needs of a server, all variants get."""
    without: str | None
    """A feature of the runtime that it is served without."""

    @property
    def compiled_mode(self) -> Mode:
        """Its mode; of a baseline, that of the variants that are compared with it.

        A baseline that runs as a job is measured as they are, so this decides how it is compiled.
        """
        return self.mode or self.modes[0]


@dataclass(frozen=True)
class Paths:
    """The paths in a container that the command lines of a runtime refer to."""

    target: str
    draft: str | None
    """The draft's checkpoint as it was downloaded; None for a variant without a draft."""
    artifact: str
    """Where the compiled artifact is written to, or read from."""
    scratch: str
    """An empty folder that a compile Job's containers share."""
    scripts: str
    """Where the files of ``charts/scripts`` are."""


@dataclass(frozen=True, kw_only=True)
class Runtime(ABC):
    """One image generation. Everything that differs between generations stands in its module."""

    name: str
    image: str
    ami_release: str
    """Release of the EKS AMI for its nodes, whose Neuron driver suits the image's runtime library
    (aws-neuron-sdk 81ce03ae, ``release-notes/components/runtime.rst``; awslabs/amazon-eks-ami
    15822511, ``CHANGELOG.md``)."""
    engine: Engine
    """Decides which counters ``/metrics`` fills."""
    counts_drafts: bool = False
    """Whether it fills V1's counters of drafts, ``vllm:spec_decode_*``."""
    modes: Mapping[Mode, ModeSupport]
    maintenance: str | None = None
    """Since when it gets no more than fixes, and what to take instead, in words."""
    one_family: bool = False
    """Whether a draft is built with its target's model class, so must be of the same family."""
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
    """Folders of ``Paths.artifact`` of a first start, each with the absolute path at which the
    image looks for it."""
    complete_environment: Mapping[str, str] = field(default_factory=dict)
    """Environment, beside the usual, of a start that finds its cache complete."""

    @property
    def tag(self) -> str:
        """The image's, without its digest: for people."""
        return self.image.partition("@")[0].rpartition(":")[2]

    def cache_tokens(self, config: EngineConfig) -> int:
        """Tokens that the KV cache has room for: those of a full batch."""
        return config.serving.length * config.batch

    @abstractmethod
    def compile_flags(self, config: EngineConfig) -> tuple[str, ...]:
        """Flags that decide what is compiled: a part of the artifact's key, so without paths."""

    def artifact_parts(self, config: EngineConfig) -> tuple[str, ...]:
        """Files and folders that a complete artifact has, of a runtime with a compile Job."""
        raise NotImplementedError

    def compile_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """Compiles into ``paths.artifact``, in a compile Job."""
        raise NotImplementedError

    def compile_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        return {}

    def draft_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """A script of ``charts/scripts`` that prepares the draft, if any, and its arguments."""
        return []

    def draft_version(self, config: EngineConfig) -> tuple[str, ...]:
        """The draft's script and its version, for the artifact's key."""
        return ()

    def generate_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """Generates from ``paths.artifact``, in a job."""
        raise NotImplementedError

    def generate_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        return {}

    @abstractmethod
    def serve_command(self, config: EngineConfig, paths: Paths, port: int) -> list[str]:
        """Serves ``paths.artifact`` in OpenAI's protocol on ``port``."""

    @abstractmethod
    def serve_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]: ...


def serve(config: EngineConfig, paths: Paths, port: int) -> tuple[str, ...]:
    """Flags of the model, its name and its address."""
    named = ("--served-model-name", config.target)
    return ("vllm", "serve", paths.target, *named, "--port", str(port))


def tools(config: EngineConfig) -> tuple[str, ...]:
    """Flags for calls of tools, where the prompts have some: all services get them or none."""
    parser = config.tool_parser
    return ("--enable-auto-tool-choice", "--tool-call-parser", parser) if parser else ()


def compact(value: Mapping[str, Any]) -> str:
    """JSON for a command line: one line, keys in the given order."""
    return json.dumps(value, separators=(",", ":"))
