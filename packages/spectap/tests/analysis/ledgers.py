"""Generated ledgers of every kind, and the summary of one as text."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.simulation import World
from benchmarks.wandering import Apart
from spectap.inputs.config import Config
from spectap.names import CONTROL
from spectap.records.record import CANCELLED, Record, Speculation
from tests import generated_runs as generated
from tests import samples
from tests.generated_runs import ARTICLE, CASES, Line, record
from tests.snapshots import folded

Ledger = tuple[Config, list[Record]]
Change = Callable[[Record], Record | None]

ROUNDS: Final = 4
POINTS: Final[list[dict[str, Any]]] = [
    {"concurrency": 8, "requests": 8},
    {"concurrency": 1, "requests": 2},
    {"rate": 2, "requests": 4},
    {"rate": 1, "requests": 4},
]
SPEED: Final = {"concurrency-1": 2.0, "concurrency-8": 0.8, "rate-1": 1.5, "rate-2": 1.2}
COUNTING: Final = {"name": "counting", "line": "counting ", "structure": "structured"}


def ledger(
    *, change: Change | None = None, top: Mapping[str, Any] | None = None, **options: Any
) -> Ledger:
    """A run of one case; ``change`` is of each record, ``top`` of the configuration."""
    content = generated.config(**{"cases": CASES[:1], "rounds": 4, **options})
    records = map(record, generated.ledger(content))
    changed = [new for each in records if (new := change(each) if change else each) is not None]
    return Config.model_validate({**content, **(top or {})}), changed


def failed(each: Record) -> Record:
    """The same request without an answer."""
    return dataclasses.replace(each, status=503, error="HTTP 503", output_tokens=None, chunks=())


def of_sd(change: Callable[[Record], Record | None], case: str = "repetition") -> Change:
    """Changes the requests of SD in one case."""
    return lambda each: change(each) if (each.case, each.variant) == (case, "SD") else each


def loads(
    points: Sequence[Mapping[str, Any]] = POINTS, *, late: float = 0.0, **changes: Any
) -> Ledger:
    """A baseline and a variant with a batch of four each, at several loads of both kinds."""
    named = samples.variants(Base="http://127.0.0.1:1/v1", SD="http://127.0.0.1:2/v1")
    values: dict[str, Any] = {
        "load": samples.load(points=points, rounds=ROUNDS),
        "variants": [{**each, "batch": 4} for each in named],
        "test_cases": [COUNTING],
    }
    config = samples.config(**(values | changes))
    return config, [r for case in config.test_cases for r in at_loads(late, case.name)]


def at_loads(late: float = 0.0, case: str = "counting") -> Iterator[Record]:
    """Every request at each of ``POINTS``; 8 tokens each, 1 % slower from round to round."""
    clock = 1_800_000_000.0
    for round_ in range(1, ROUNDS + 1):
        for point in samples.config(load=samples.load(points=POINTS)).load.points:
            clock += 100
            for variant in ("Base", "SD"):
                speed = SPEED[point.name] if variant == "SD" else 1.0
                took = (1 + 0.01 * (round_ + (variant == "SD" and round_ % 2))) / speed
                for number in range(point.requests):
                    wave = number // (point.concurrency or 8)
                    due = clock + number / point.rate if point.rate else None
                    yield samples.record(
                        variant=variant,
                        case=case,
                        load=point.name,
                        round=round_,
                        request=f"{point.name}-{variant}-{round_}-{number}",
                        sent=due + late if due else clock + wave * (took + 0.1),
                        due=due,
                        chunks=((0.1 / speed, 1), (0.1 / speed + took, 7)),
                        speculation=Speculation(drafts=7, accepted=6),
                        end=0.1 / speed + took,
                    )


def _repeated() -> Ledger:
    """A turn was cut off, failed and measured a third time; unknown names are in it, too."""
    config, records = ledger()
    turn = [r for r in records if (r.case, r.round) == ("repetition", 1)]
    again = [
        dataclasses.replace(r, attempt=2, error="reset" if r.request[-1] == "0" else None)
        for r in turn
        if r.variant == "SD"
    ]
    cut_off = [dataclasses.replace(r, attempt=1, error=CANCELLED) for r in again[:2]]
    measured = [dataclasses.replace(r, attempt=3) if r in turn else r for r in records]
    last = records[-1]
    unknown = dataclasses.replace(last, case="else"), dataclasses.replace(last, load="else")
    return config, [*cut_off, *again, *measured, *unknown]


def _prompts(*cases: str, points: Sequence[Mapping[str, Any]] = POINTS) -> Ledger:
    """Sets of prompts, whose names come again in each round."""
    sets = [{"name": name, "prompts": {"set": "humaneval"}} for name in cases]
    config, records = loads(points, test_cases=sets)
    return config, [dataclasses.replace(r, prompt=r.request.rsplit("-", 1)[1]) for r in records]


def _endless() -> Ledger:
    """SD's answers to one prompt in three run on, at a load with a price and at one without."""
    config, records = _prompts("counting", points=POINTS[:2])
    named = [r for r in records if not r.load.startswith("rate")]
    return config, [
        dataclasses.replace(r, output_tokens=32, end=4 * r.end)
        if r.variant == "SD" and r.prompt < "3"
        else r
        for r in named
    ]


ISOLATED: Final = Apart("steady", World("any", speedups=(1.3, 1.3)), variants=3)
WITHOUT: Final = {"without": "async scheduling"}
MATCHED: Final = ARTICLE[0] | WITHOUT | {"name": "Base-matched"}
RANGE: Final[Line] = generated.config()["load"] | {"rounds": {"at_least": 4, "at_most": 9}}


def _slower(each: Record) -> Record:
    chunks = tuple((1.5 * time, tokens) for time, tokens in each.chunks)
    return dataclasses.replace(each, chunks=chunks, end=1.5 * each.end)


LEDGERS: Final[Mapping[str, Callable[[], Ledger]]] = {
    "article": lambda: ledger(cases=CASES),
    "rehearsal with objectives": lambda: ledger(
        top={
            "stand_in": "golden endpoints",
            "objectives": {"ttft_p90_ms": 230, "tpot_p90_ms": 30, "e2e_p90_ms": 4670},
        }
    ),
    "two windows, no price": lambda: ledger(variants=generated.TWO_WINDOWS, top={"cost": None}),
    "two baselines, one not measured": lambda: ledger(
        cases=CASES[:2],
        variants=generated.TWO_BASELINES,
        change=lambda r: None if r.variant == "Base-b8" and r.case != "counting" else r,
    ),
    "a baseline alone": lambda: ledger(variants=ARTICLE[:1]),
    "a matched baseline": lambda: ledger(
        cases=CASES[:2],
        variants=[ARTICLE[0], ARTICLE[1] | WITHOUT, MATCHED],
        change=lambda r: _slower(r) if r.variant == "Base-matched" else r,
    ),
    "no matched baseline": lambda: ledger(variants=[ARTICLE[0], ARTICLE[1] | WITHOUT]),
    "all failed": lambda: ledger(change=of_sd(failed)),
    "some failed": lambda: ledger(change=of_sd(lambda r: failed(r) if r.request[-1] == "0" else r)),
    "a round failed": lambda: ledger(change=of_sd(lambda r: failed(r) if r.round == 2 else r)),
    "unfinished": lambda: ledger(change=of_sd(lambda r: None if r.round > 2 else r)),
    "nothing recorded": lambda: ledger(change=lambda r: None),
    "a variant missing": lambda: ledger(change=lambda r: None if r.variant == "SD" else r),
    "two rounds": lambda: ledger(rounds=2),
    "measured again, and strangers": _repeated,
    "tokens are not counted": lambda: ledger(
        change=of_sd(
            lambda r: dataclasses.replace(
                r, per_chunk=False, chunks=tuple((t, 0) for t, _ in r.chunks)
            )
        )
    ),
    "tools": lambda: ledger(change=of_sd(lambda r: dataclasses.replace(r, tools=True))),
    "speculation is off": lambda: ledger(
        change=of_sd(
            lambda r: dataclasses.replace(
                r, chunks=tuple((t, 1) for t, _ in r.chunks), speculation=None
            )
        )
    ),
    "not streamed": lambda: ledger(
        change=lambda r: dataclasses.replace(r, stream=False, per_chunk=False, chunks=())
    ),
    "longer answers, one in four stalls": lambda: ledger(
        change=of_sd(
            lambda r: dataclasses.replace(
                r, output_tokens=150, end=r.end * (30 if r.request[-1] == "1" else 1)
            )
        )
    ),
    "a range": lambda: ledger(cases=CASES[::2], rounds=9, top={"load": RANGE}),
    "a range that ended early": lambda: ledger(
        cases=CASES[::2],
        rounds=9,
        top={"load": RANGE},
        change=lambda r: None if r.round > 5 else r,
    ),
    "loads": lambda: loads(objectives={"tpot_p90_ms": 140}),
    "loads, late": lambda: loads(late=0.3),
    "loads that the configuration does not name": lambda: loads(POINTS[:2]),
    "prompts": lambda: _prompts("counting", "other"),
    "answers that do not end": _endless,
    "isolated": lambda: (ISOLATED.configuration(), ISOLATED.records(0)),
    "isolated, no controls": lambda: (
        ISOLATED.configuration(),
        [r for r in ISOLATED.records(0) if r.round != CONTROL],
    ),
}


def text(part: Any) -> str:
    """All figures of a dataclass to six digits, and all sentences: a line for each part."""
    content = dataclasses.asdict(part)
    content.pop("version", None)
    return folded("\n".join(_lines(content, "")))


def _lines(part: Any, path: str) -> Iterator[str]:
    items = [*part.items()] if isinstance(part, dict) else [*enumerate(part)]
    flat = [f"{name} {_value(value)}" for name, value in items if value and _flat(value)]
    if flat:
        yield f"{path}: {', '.join(flat)}"
    for name, value in items:
        if not _flat(value):
            yield from _lines(value, f"{path}/{name}")


def _flat(value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) == {"point", "low", "high"}
    return not isinstance(value, (list, tuple)) or not any(map(_composed, value))


def _composed(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) or (isinstance(value, str) and " " in value)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{} ({}-{})".format(*map(_value, value.values()))
    if isinstance(value, (list, tuple)):
        return " ".join(map(_value, value))
    return f"{value:.6g}" if isinstance(value, float) else str(getattr(value, "value", value))
