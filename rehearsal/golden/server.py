"""The golden endpoint: OpenAI-compatible, with a record of its own of what it sent when.

Its answers follow a schedule. So a measurement can be checked against a truth that was not measured
in the same way.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from aiohttp import web

from experiment.runtimes import Engine
from rehearsal.golden import counted, wire
from rehearsal.golden.schedule import Decoding, Step
from rehearsal.golden.sent import Sent

FAULT_HEADER = "X-Golden-Fault"


class Fault(Enum):
    """Ways to fail: for one request by a header, or for all by ``Golden.fault``."""

    RESET = "reset"  # the connection is torn down in mid-stream
    TRUNCATED = "truncated"  # the stream ends early, as if it were whole
    MALFORMED = "malformed"  # an event that is no JSON, and the stream goes on
    ERROR_EVENT = "error-event"  # an error inside a stream that began well
    TOO_MANY = "too-many"  # 429
    BROKEN = "broken"  # 500
    STALL = "stall"  # nothing more comes
    SPLIT = "split"  # three bytes at a time: events and characters cut anywhere
    PER_REQUEST = "per-request"  # continuous_usage_stats ignored
    NO_USAGE = "no-usage"  # stream_options ignored altogether


Schedule = Callable[[str, int, int], list[Step]]


@dataclass(frozen=True)
class Acceptance:
    """How likely the target accepts a draft, by a text in the prompt. The first match counts."""

    by_text: Mapping[str, float] = field(default_factory=dict)
    otherwise: float = 0.52

    def of(self, prompt: str) -> float:
        """The probability that a draft for ``prompt`` is accepted, 0 to 1."""
        return next((rate for text, rate in self.by_text.items() if text in prompt), self.otherwise)


def speculative(decoding: Decoding, acceptance: Acceptance, seed: int = 0) -> Schedule:
    """A schedule for ``Golden``. The n-th request of a prompt always gets the same steps."""

    def schedule(prompt: str, number: int, tokens: int) -> list[Step]:
        return list(decoding.steps(tokens, acceptance.of(prompt), (seed, prompt, number)))

    return schedule


class Golden:
    """One endpoint, served inside ``async with``.

    It counts as ``engine`` does. ``drafts`` is that of ``counted.page``.
    """

    def __init__(
        self,
        schedule: Schedule,
        model: str = "Qwen/Qwen3-32B",
        *,
        engine: Engine = Engine.V1,
        drafts: int = 0,
    ) -> None:
        self.model = model
        self.fault: Fault | None = None
        self.healthy = True
        self.sent: list[Sent] = []
        self._schedule = schedule
        self._engine, self._drafts = engine, drafts
        self._prompts: Counter[str] = Counter()
        self._running = 0
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    @property
    def url(self) -> str:
        """Base URL as OpenAI clients want it."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self, port: int = 0) -> None:
        """Serves on loopback; port 0 takes a free port. Raises OSError."""
        app = web.Application(client_max_size=2**26)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completion),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.get("/record", self._record),
            ]
        )
        # Do not wait for answers that are still being sent.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()

    async def stop(self) -> None:
        """Drops all connections, like a server that dies."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Golden:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=True)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=False)

    async def _answer(self, request: web.Request, chat: bool) -> web.StreamResponse:
        received = time.monotonic()
        body = json.loads(await request.read())
        refusal = self._refusal(request, body)
        if refusal is not None:
            return refusal
        prompt = _prompt(body, chat)
        name = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        sent = Sent(name, received, prompt)
        self.sent.append(sent)
        steps = self._steps(body, prompt)
        answer = wire.Answer(
            id=("chatcmpl-" if chat else "cmpl-") + name,
            model=self.model,
            created=int(time.time()),
            chat=chat,
            prompt_tokens=len(prompt.split()),
        )
        self._running += 1
        try:
            if body.get("stream"):
                return await self._stream(request, body, answer, sent, steps)
            return await self._whole(answer, sent, steps)
        finally:
            self._running -= 1

    def _steps(self, body: dict[str, Any], prompt: str) -> list[Step]:
        number = self._prompts[prompt]
        self._prompts[prompt] += 1
        tokens = body.get("max_tokens") or body.get("max_completion_tokens") or 16
        return self._schedule(prompt, number, int(tokens))

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        fault = self._fault_of(request)
        if fault is Fault.TOO_MANY:
            text = wire.error("Too many requests", "rate_limit_error", 429)
            return _json(text, 429, {"Retry-After": "1"})
        if fault is Fault.BROKEN:
            return _json(
                wire.error("EngineCore encountered an issue", "InternalServerError", 500), 500
            )
        if body.get("model") != self.model:
            missing = f"The model `{body.get('model')}` does not exist."
            return _json(wire.error(missing, "NotFoundError", 404), 404)
        return None

    def _fault_of(self, request: web.Request) -> Fault | None:
        asked = request.headers.get(FAULT_HEADER)
        return Fault(asked) if asked else self.fault

    async def _whole(self, answer: wire.Answer, sent: Sent, steps: list[Step]) -> web.Response:
        await _until(sent.received + steps[-1].at)
        sent.chunks += [(sent.received + step.at, step.tokens) for step in steps]
        sent.whole = True
        return _json(answer.whole(wire.words(0, sent.tokens), sent.tokens), 200)

    async def _stream(
        self,
        request: web.Request,
        body: dict[str, Any],
        answer: wire.Answer,
        sent: Sent,
        steps: list[Step],
    ) -> web.StreamResponse:
        fault = self._fault_of(request)
        options = body.get("stream_options") or {}
        usage = bool(options.get("include_usage")) and fault is not Fault.NO_USAGE
        continuous = usage and bool(options.get("continuous_usage_stats"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        out = _Writer(request, response, fault, at=len(steps) // 2)
        async for event in self._events(
            answer, sent, steps, continuous and fault is not Fault.PER_REQUEST
        ):
            if not await out.write(event):
                return response
        if usage:
            await out.write(answer.usage_only(sent.tokens))
        sent.whole = True
        await out.write(wire.DONE)
        await response.write_eof()
        return response

    async def _events(
        self, answer: wire.Answer, sent: Sent, steps: list[Step], usage: bool
    ) -> AsyncIterator[bytes]:
        total = 0
        for index, step in enumerate(steps):
            text = wire.words(total, step.tokens)
            total += step.tokens
            event = answer.chunk(text, index == len(steps) - 1, total, usage)
            # Relative to the arrival: a late step must not delay all that follow.
            await _until(sent.received + step.at)
            if index == 0 and answer.chat:
                yield answer.role(usage)
            sent.chunks.append((time.monotonic(), step.tokens))
            yield event

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "object": "list",
                "data": [{"id": self.model, "object": "model", "owned_by": "vllm"}],
            }
        )

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def _record(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(sent) for sent in self.sent])

    async def _metrics(self, request: web.Request) -> web.Response:
        page = counted.page(self._engine, self.model, self.sent, self._running, self._drafts)
        return web.Response(text=page)


class _Writer:
    """Writes a stream's events, and commits ``fault`` before event number ``at``."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, fault: Fault | None, at: int
    ) -> None:
        self._request = request
        self._response = response
        self._fault = fault
        self._left = at

    async def write(self, event: bytes) -> bool:
        """Returns False when the stream ends here."""
        self._left -= 1
        if self._left == -1 and not await self._go_wrong():
            return False
        if self._fault is not Fault.SPLIT:
            await self._response.write(event)
            return True
        for start in range(0, len(event), 3):
            await self._response.write(event[start : start + 3])
            await asyncio.sleep(0)
        return True

    async def _go_wrong(self) -> bool:
        if self._fault is Fault.MALFORMED:
            await self._response.write(b'data: {"choices": [{"delta"\n\n')
        elif self._fault is Fault.ERROR_EVENT:
            error = wire.error("out of memory", "InternalServerError", 500)
            await self._response.write(b"data: " + error + b"\n\n" + wire.DONE)
        elif self._fault is Fault.RESET and self._request.transport is not None:
            self._request.transport.abort()
        elif self._fault is Fault.STALL:
            await asyncio.sleep(3600)
        return self._fault not in (Fault.RESET, Fault.TRUNCATED, Fault.ERROR_EVENT)


def _prompt(body: dict[str, Any], chat: bool) -> str:
    if not chat:
        return str(body["prompt"])
    return "\n".join(str(message.get("content", "")) for message in body["messages"]).strip()


def _json(body: bytes, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


async def _until(deadline: float) -> None:
    delay = deadline - time.monotonic()
    if delay > 0:
        await asyncio.sleep(delay)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serves one golden endpoint until it is ended.")
    parser.add_argument(
        "--engine",
        type=Engine,
        choices=tuple(Engine),
        default=Engine.V1,
        help="whose counters /metrics shows",
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="Qwen/Qwen3-32B")
    parser.add_argument("--window", type=int, default=1, help="k; 1: plain decoding")
    parser.add_argument("--speed", type=float, default=1.0, help="how much faster than real")
    parser.add_argument("--token-seconds", type=float, default=Decoding.token_seconds)
    parser.add_argument("--draft-cost", type=float, default=Decoding.draft_cost)
    parser.add_argument("--prefill-seconds", type=float, default=Decoding.prefill_seconds)
    parser.add_argument(
        "--acceptance",
        default="{}",
        type=json.loads,
        help='JSON: what a prompt contains -> acceptance, e.g. {"counting": 0.97}',
    )
    parser.add_argument("--otherwise", type=float, default=Acceptance.otherwise)
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    decoding = Decoding(
        window=arguments.window,
        draft_cost=arguments.draft_cost,
        token_seconds=arguments.token_seconds,
        prefill_seconds=arguments.prefill_seconds,
        speed=arguments.speed,
    )
    acceptance = Acceptance(arguments.acceptance, arguments.otherwise)
    schedule = speculative(decoding, acceptance)
    endpoint = Golden(schedule, arguments.model, engine=arguments.engine)
    await endpoint.start(arguments.port)
    print(endpoint.url, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await endpoint.stop()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(_arguments()))
