"""From every compile input to the key a compiled artifact is stored under.

NxDI loads whatever graph it finds at ``NEURON_COMPILED_ARTIFACTS`` and ignores flags that differ
from those the graph was compiled with. If a key left out an input, one window would run on another
window's graph, and nothing would say so.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class CompileInputs:
    """Everything that changes what the compiler produces."""

    target: str
    target_revision: str
    draft: str | None
    draft_revision: str | None
    mode: str | None
    num_speculative_tokens: int | None
    tensor_parallel: int
    logical_core_size: int
    batch: int
    length: int
    instance_type: str
    image: str
    family: str
    compile_flags: tuple[str, ...]


def artifact_key(inputs: CompileInputs) -> str:
    """A readable prefix and 16 hex digits of SHA-256 over all inputs.

    For example ``qwen3-32b-fused-7-0123456789abcdef``; safe as an object key, a label value and
    part of a file name.
    """
    canonical = json.dumps(asdict(inputs), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    decoding = f"{inputs.mode}-{inputs.num_speculative_tokens}" if inputs.mode else "base"
    # A label value holds 63 characters.
    model = inputs.target.rpartition("/")[2].lower()[:24].strip(".-_")
    return f"{model}-{decoding}-{digest}"
