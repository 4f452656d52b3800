"""The golden endpoint: an OpenAI-compatible server that records what it sent, and when.

Its answers follow a schedule, so measurements can be checked against a truth of another source.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from spectap.golden import answers, counted
from spectap.golden.counted import Sent
from spectap.golden.schedule import Decoding, Step
from spectap.names import Engine
from spectap.protocol.text import estimated_tokens

MAX_MODEL_LEN: Final = 40_960
"""The context of Qwen3-32B, in tokens."""

_TOKENS_OF_A_NAME: Final = 4

Schedule = Callable[[str, int, int], list[Step]]
"""The steps of an answer by its prompt, how often that came before, and its tokens."""


@dataclass(frozen=True)
class Acceptance:
    """The probability that a draft is accepted, by a text in the prompt. The first match counts."""

    by_text: Mapping[str, float] = field(default_factory=dict)
    otherwise: float = 0.52

    def of(self, prompt: str) -> float:
        return next((rate for text, rate in self.by_text.items() if text in prompt), self.otherwise)


def speculative(decoding: Decoding, acceptance: Acceptance) -> Schedule:
    """A schedule in which the n-th request of a prompt always gets the same steps."""

    def schedule(prompt: str, number: int, tokens: int) -> list[Step]:
        return list(decoding.steps(tokens, acceptance.of(prompt), (0, prompt, number)))

    return schedule


class GoldenEndpoint:
    """One endpoint, served inside ``async with``.

    Its schedule is that of a sequence alone. With more in flight, a step takes ``slowdown`` times
    as long. Requests beyond ``batch`` sequences wait. Its counters are those of ``engine``, with
    ``drafts`` as in ``counted.page``. With an ``api_key``, clients must send it.
    """

    def __init__(
        self,
        schedule: Schedule,
        model: str = "Qwen/Qwen3-32B",
        *,
        engine: Engine = Engine.V1,
        drafts: int = 0,
        batch: int | None = None,
        slowdown: Callable[[float], float] = lambda in_flight: 1.0,
        max_model_len: int = MAX_MODEL_LEN,
        api_key: str | None = None,
    ) -> None:
        self.model = model
        self._api_key = api_key
        self.refuses = False
        """Whether every request is refused as one too many."""
        self.healthy = True
        self.sent: list[Sent] = []
        self._schedule, self._slowdown = schedule, slowdown
        self._engine, self._drafts = engine, drafts
        self._running = self._waiting = 0
        self._seats = asyncio.Semaphore(batch or 2**20)
        self._max_model_len = max_model_len
        self._prompts: Counter[str] = Counter()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self, port: int = 0) -> None:
        """Serves on loopback; port 0 takes a free port. Raises OSError."""
        app = web.Application(client_max_size=2**26, middlewares=[self._authenticated])
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._answer),
                web.post("/v1/completions", self._answer),
                web.get("/v1/models", self._models),
                web.post("/tokenize", self._tokenize),
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.get("/record", self._record),
            ]
        )
        # Do not wait for answers that are still being sent.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()

    @web.middleware
    async def _authenticated(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Asks for the key below ``/v1`` alone, as vLLM does."""
        authorization = request.headers.get("Authorization")
        if (
            self._api_key
            and request.path.startswith("/v1")
            and authorization != f"Bearer {self._api_key}"
        ):
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> GoldenEndpoint:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        chat = request.path.endswith("/chat/completions")
        received = time.monotonic()
        body = json.loads(await request.read())
        if (refusal := self._refusal(body)) is not None:
            return refusal
        prompt = answers.prompt_of(body)
        name = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        steps = self._schedule(prompt, self._prompts[prompt], answers.length_of(body))
        self._prompts[prompt] += 1
        sent = Sent(name, received, prompt)
        self.sent.append(sent)
        answer = answers.Answer(
            id=("chatcmpl-" if chat else "cmpl-") + name,
            model=self.model,
            created=int(time.time()),
            chat=chat,
            prompt_tokens=estimated_tokens(prompt),
            reply=answers.reply(body, sum(step.tokens for step in steps)),
        )
        if body.get("stream"):
            return await self._stream(request, body, answer, sent, steps)
        async with self._seat():
            async for step, due in self._due(steps):
                sent.chunks.append((due, step.tokens))
                sent.beyond = step.beyond
        sent.whole = True
        return web.Response(body=answer.unstreamed(), content_type="application/json")

    def _refusal(self, body: dict[str, Any]) -> web.Response | None:
        if self.refuses:
            return _refused("Too many requests", "rate_limit_error", 429)
        if body.get("model") != self.model:
            return _no_model(body)
        prompt, answer = estimated_tokens(answers.prompt_of(body)), answers.length_of(body)
        if prompt + answer > self._max_model_len:
            # The words are those of 0.9.1; later ones say the same otherwise, or cut the answer.
            return _refused(
                f"This model's maximum context length is {self._max_model_len} tokens. However, "
                f"you requested {prompt + answer} tokens ({prompt} in the messages, {answer} in "
                "the completion). Please reduce the length of the messages or completion.",
                "BadRequestError",
                400,
            )
        return None

    async def _stream(
        self,
        request: web.Request,
        body: dict[str, Any],
        answer: answers.Answer,
        sent: Sent,
        steps: list[Step],
    ) -> web.StreamResponse:
        options = body.get("stream_options") or {}
        usage = bool(options.get("include_usage"))
        continuous = usage and bool(options.get("continuous_usage_stats"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        began, reply = False, answer.reply
        async with self._seat():
            async for step, _ in self._due(steps):
                start, end = sent.tokens, sent.tokens + step.tokens
                if not sent.chunks and answer.chat:
                    await response.write(answer.role(continuous))
                sent.chunks.append((time.monotonic(), step.tokens))
                sent.beyond = step.beyond
                last = end == len(reply.tokens)
                # vLLM's parsers of tool calls say nothing until they have read the name.
                if reply.tool is not None and end < _TOKENS_OF_A_NAME and not last:
                    continue
                text = "".join(reply.tokens[start if began else 0 : end])
                await response.write(answer.chunk(text, last, end, continuous, first=not began))
                began = True
        if usage:
            await response.write(answer.usage_only(sent.tokens))
        sent.whole = True
        await response.write(answers.DONE)
        await response.write_eof()
        return response

    @contextlib.asynccontextmanager
    async def _seat(self) -> AsyncIterator[None]:
        """A place in the batch for as long as the context lasts; first come, first served."""
        self._waiting += 1
        try:
            await self._seats.acquire()
        finally:
            self._waiting -= 1
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._seats.release()

    async def _due(self, steps: list[Step]) -> AsyncIterator[tuple[Step, float]]:
        """Yields each step when it is due, with that time.

        A late step does not delay the next ones. Each is due one step time after the one before was
        due, and the step time depends on how many are in flight.
        """
        due = time.monotonic()
        before, pace = 0.0, 1.0
        for step in steps:
            due += (step.at - before) * pace
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            yield step, due
            before, pace = step.at, self._slowdown(self._running)

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("model", self.model) != self.model:
            return _no_model(body)
        count = estimated_tokens(answers.prompt_of(body))
        limits = {"count": count, "max_model_len": self._max_model_len}
        return web.json_response(limits | {"tokens": list(range(count)), "token_strs": None})

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": self.model, "object": "model", "owned_by": "vllm"}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def _record(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(sent) for sent in self.sent])

    async def _metrics(self, request: web.Request) -> web.Response:
        state = self.sent, self._running, self._waiting, self._drafts
        return web.Response(text=counted.page(self._engine, self.model, *state))


def _no_model(body: Mapping[str, Any]) -> web.Response:
    return _refused(f"The model `{body.get('model')}` does not exist.", "NotFoundError", 404)


def _refused(message: str, kind: str, status: int) -> web.Response:
    body = answers.error(message, kind, status)
    return web.Response(body=body, status=status, content_type="application/json")
