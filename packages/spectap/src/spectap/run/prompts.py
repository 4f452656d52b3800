"""The prompts that a run sends: its sets, without prompts that its services cannot take."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from spectap.endpoint import context
from spectap.endpoint.context import Counted, Refused
from spectap.errors import ConfigError, RunError
from spectap.inputs.config import Config
from spectap.inputs.prompt import LeftOut, Prompt, UsedSet
from spectap.load import sets
from spectap.load.sets import LoadedSet
from spectap.names import PROMPTS
from spectap.protocol.text import EndpointType
from spectap.records.journal import read_json, write_json
from spectap.run.folder import writing


def loaded(config: Config, files: Path) -> dict[str, LoadedSet]:
    """The set of each test case that has one, by the test case's name.

    ``files`` is the folder of the user's prompts. No service is asked. Raises RunError, whose text
    is a line for each thing that is wrong.
    """
    loaded_sets = {}
    for case in config.test_cases:
        if case.prompts is not None:
            try:
                prompt_set = loaded_sets[case.name] = sets.load(case.prompts, files)
            except ConfigError as error:
                raise RunError(str(error)) from None
            for prompt in prompt_set.prompts:
                if config.load.endpoint_type is EndpointType.COMPLETIONS and not prompt.is_text:
                    raise RunError(
                        f"{case.name}: {prompt.name} has several messages or tools, which "
                        "endpoint_type completions cannot send; must be one message of text"
                    )
    return loaded_sets


async def prepare(
    config: Config, files: Path, folder: Path, window: int = 0
) -> dict[str, tuple[Prompt, ...]]:
    """The prompts that every service can take, for each test case with a set.

    A service can take a prompt that leaves room for the longest answer. A prompt that one service
    cannot take is sent to none. ``window`` is the widest window of isolated variants that are
    compared with these, because they must get the same prompts. The services are asked once, and a
    resumed run reads the answer in its folder. Jobs cannot be asked, so nothing is left out for
    them. Raises RunError.
    """
    noted = {used.case: used for used in read(folder)}
    chosen: dict[str, tuple[Prompt, ...]] = {}
    for case, prompt_set in loaded(config, files).items():
        if case not in noted:
            noted[case] = await _used(config, case, prompt_set, window)
            with writing(folder):
                write_json(folder / PROMPTS, tuple(noted.values()))
        elif noted[case].digest != _digest(prompt_set.prompts):
            raise RunError(
                f"{folder / PROMPTS}: {case}: this run was begun with other prompts than those "
                f"of {prompt_set.source} now: set a new RUN_ID"
            )
        left_out = {prompt.name for prompt in noted[case].left_out}
        chosen[case] = tuple(p for p in prompt_set.prompts if p.name not in left_out)
    return chosen


def read(folder: Path) -> tuple[UsedSet, ...]:
    """Reads what ``prepare`` stored; empty without it. Raises JournalError."""
    return read_json(folder / PROMPTS, tuple[UsedSet, ...]) or ()


async def _used(config: Config, case: str, prompt_set: LoadedSet, window: int) -> UsedSet:
    """Asks all services for the length of each prompt. Raises RunError where none fits."""
    prompts = prompt_set.prompts
    counts = await asyncio.gather(
        *(
            context.count(url, config.models[name], prompts, config.load)
            for name, url in config.endpoints.items()
        )
    )
    left_out = tuple(_left_out(config, prompts, counts, window))
    names = {prompt.name for prompt in left_out}
    used = [prompt for prompt in prompts if prompt.name not in names]
    if not used:
        closest = min(left_out, key=lambda prompt: prompt.tokens - prompt.most)
        too_long = (
            f"has {closest.tokens:,} tokens with its longest answer, and the services take "
            f"{closest.most:,}"
        )
        raise RunError(
            f"{case}: the services take none of its {len(left_out)} prompts: {closest.name}: "
            f"{closest.reason or too_long}"
        )
    return UsedSet(
        case=case,
        source=prompt_set.source,
        licence=prompt_set.licence,
        digest=_digest(prompts),
        classes=tuple(Counter(prompt.prompt_class for prompt in used).items()),
        used=len(used),
        left_out=left_out,
        counted=bool(counts) and all(counted is not None for count in counts for counted in count),
    )


def _left_out(
    config: Config,
    prompts: Sequence[Prompt],
    counts: Sequence[Sequence[Counted | Refused | None]],
    window: int,
) -> Iterator[LeftOut]:
    """The prompts that a service refuses, or that are too long for one.

    Each has the reason of the first service that refuses, or the figures of the one with the least
    room. ``counts`` has each service's counts, in the order of the prompts. A window is left free:
    vLLM's V0 reserves slots for one beyond the last token, and ends where they exceed its length
    (docs/assumptions.md, "A window below the compiled length is room enough").
    """
    window = max(window, *(variant.window or 0 for variant in config.variants))
    for prompt, *counted in zip(prompts, *counts, strict=True):
        refused = next((count for count in counted if isinstance(count, Refused)), None)
        if refused is not None:
            yield LeftOut(prompt.name, 0, 0, refused.reason)
            continue
        longest = prompt.max_tokens or config.load.mean_output_tokens
        known = [
            (count.tokens + longest, count.most - window)
            for count in counted
            if isinstance(count, Counted)
        ]
        tokens, most = max(known, key=lambda pair: pair[0] - pair[1], default=(0, 0))
        if tokens > most:
            yield LeftOut(prompt.name, tokens, most)


def _digest(prompts: Sequence[Prompt]) -> str:
    content = "".join(f"{prompt.model_dump_json()}\n" for prompt in prompts)
    return hashlib.sha256(content.encode()).hexdigest()
