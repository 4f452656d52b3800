"""Which prompts a run sends, and what it notes of them."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectap.errors import RunError
from spectap.inputs.prompt import LeftOut, Prompt
from spectap.names import PROMPTS
from spectap.run import prompts
from tests import samples
from tests.endpoint.test_context import vllm
from tests.tapped import Handler, server

pytestmark = pytest.mark.anyio

LINES = (
    '{"prompt": "one", "class": "short", "name": "first"}\n'
    '{"prompt": "one two three four five", "class": "long", "name": "second"}\n'
    '{"prompt": "one", "class": "short", "max_tokens": 80, "name": "third"}\n'
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "mine.jsonl").write_text(LINES, encoding="utf-8")
    return tmp_path


CASES = [
    {"name": "mine", "prompts": {"file": "mine.jsonl"}},
    {"name": "line", "line": "a", "structure": "structured"},
]


async def prepare(
    files: Path, *handlers: Handler, window: int | None = None, elsewhere: int = 0
) -> dict[str, tuple[Prompt, ...]]:
    """With a service for each handler; answers have 20 tokens unless a prompt says otherwise."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(server(handler)) for handler in handlers]
        variants = samples.variants(**{f"V{number}": url for number, url in enumerate(urls)})
        variants[0]["window"] = window
        config = samples.config(variants=variants, test_cases=CASES)
        return await prompts.prepare(config, files, files, elsewhere)


@pytest.mark.parametrize(
    ("text", "second"),
    [
        # With answer and template they have 24, 28 and 84 tokens; each by who lacks most.
        (LINES, LeftOut("second", 28, 25)),
        (
            LINES.replace("one two three", "refused"),
            LeftOut("second", 0, 0, "roles must alternate"),
        ),
    ],
)
async def test_what_one_service_cannot_take_none_is_sent(
    files: Path, text: str, second: LeftOut
) -> None:
    (files / "mine.jsonl").write_text(text, encoding="utf-8")
    chosen = await prepare(files, vllm([]), vllm([], most=27), vllm([], most=25))
    assert {case: [prompt.name for prompt in sent] for case, sent in chosen.items()} == {
        "mine": ["first"]
    }
    (used,) = prompts.read(files)
    assert used.left_out == (second, LeftOut("third", 84, 25))
    assert (used.case, used.source, used.licence) == ("mine", "mine.jsonl", "")
    assert (used.used, used.classes, used.counted) == (1, (("short", 1),), True)


@pytest.mark.parametrize(("window", "elsewhere", "fits"), [(None, 0, 3), (1, 0, 2), (None, 1, 2)])
async def test_a_window_of_room_is_left_beyond_the_longest_answer(
    files: Path, window: int | None, elsewhere: int, fits: int
) -> None:
    """The widest, be it of a variant that is measured elsewhere. The third has 84 tokens."""
    chosen = await prepare(files, vllm([], most=84), window=window, elsewhere=elsewhere)
    assert len(chosen["mine"]) == fits


async def test_where_a_service_does_not_count_the_others_do(files: Path) -> None:
    async def silent(_: Any) -> Any:
        raise ConnectionError

    chosen = await prepare(files, vllm([], most=30), silent)
    assert [prompt.name for prompt in chosen["mine"]] == ["first", "second"]
    (used,) = prompts.read(files)
    assert not used.counted


async def test_a_resumed_run_asks_nothing_and_refuses_other_prompts(files: Path) -> None:
    first = await prepare(files, vllm([], most=25))
    bodies: list[dict[str, Any]] = []
    assert await prepare(files, vllm(bodies)) == first
    assert bodies == []
    (files / "mine.jsonl").write_text(LINES.replace("five", "six"), encoding="utf-8")
    with pytest.raises(RunError, match=rf"{PROMPTS}: mine: .* other prompts .*: set a new RUN_ID$"):
        await prepare(files, vllm([]))


async def test_a_set_of_which_everything_is_refused_or_too_long(files: Path) -> None:
    """Two services, each of which counts what the other refuses; then one, with little room."""
    text = '{"prompt": "refused", "name": "first"}\n{"prompt": "one", "name": "second"}\n'
    (files / "mine.jsonl").write_text(text, encoding="utf-8")

    async def second_service(request: Any) -> Any:
        if "refused" in await request.text():
            return web.json_response({"count": 4, "max_model_len": 100})
        return web.json_response({"message": "too plain"}, status=400)

    with pytest.raises(RunError, match=r"^mine: .* none of its 2 prompts: first: roles must alter"):
        await prepare(files, vllm([]), second_service)
    (files / "mine.jsonl").write_text('{"prompt": "one", "name": "second"}\n', encoding="utf-8")
    with pytest.raises(RunError, match=r"^mine: .*: second: has 24 tokens .* 10$"):
        await prepare(files, vllm([], most=10))
    assert prompts.read(files) == ()
