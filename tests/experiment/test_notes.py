"""What may surprise the user of a valid experiment: every note is in a snapshot."""

from typing import Any, Final

from syrupy.assertion import SnapshotAssertion

from experiment.loader import parse
from experiment.notes import notes
from tests.experiment.files import edited, of_file
from tests.snapshots import TextSnapshot, filled

BLOCK: Final = {
    "capacity.purchase": "capacity-block",
    "capacity.reservation_id": "cr-0123456789abcdef0",
}
UNSEEN: Final[dict[str, Any]] = {
    "runtime": "vllm-0.16-nxdi",
    "speculation.mode": "eagle3",
    "models": {
        "target": {"id": "meta-llama/Llama-3.3-70B-Instruct", "revision": "6" * 40},
        "draft": {
            "id": "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3",
            "revision": "4" * 40,
        },
    },
}
ALONE: Final = {"benchmark.load": [{"concurrency": 1}], "published": []}
SETS: Final = {"benchmark.test_cases": [{"name": "humaneval", "set": "humaneval"}]}
SHORT: Final = {"benchmark.mean_output_tokens": 256}
EXPERIMENTS: Final[dict[str, dict[str, Any]]] = {
    "article": {},
    "capacity block": BLOCK,
    "no price": BLOCK
    | {
        "aws.region": "ap-south-2",
        "aws.availability_zones": ["ap-south-2a", "ap-south-2b"],
        "capacity.availability_zone": "ap-south-2b",
    },
    "spot": {"capacity.purchase": "spot"},
    "short answers": SHORT,
    "short answers of a thinking model": SETS | SHORT,
    "no thinking": SETS | {"benchmark.chat_template_kwargs": {"enable_thinking": False}},
    "two rounds": {"benchmark.rounds": 2},
    "another commit": {"models.draft.revision": "7" * 40},
    "unseen head": UNSEEN,
    "unseen head, newer runtime": UNSEEN | {"runtime": "vllm-neuron"},
    **{name: of_file(name) for name in ("eagle3", "eagle3-nxdi", "eagle3-qwen3", "medusa")},
    "dflash": of_file("dflash"),
    "dflash, one at a time": of_file("dflash") | ALONE,
}


def test_what_may_surprise_is_noted(snapshot: SnapshotAssertion) -> None:
    """Of all but the article in what they differ from it."""
    article, lines = [*notes(parse(edited({}), "mine.yaml"))], list[str]()
    for name, changes in EXPERIMENTS.items():
        noted = [*notes(parse(edited(changes), "mine.yaml"))]
        signed = [f"+ {note}" for note in noted if note not in article or not changes]
        signed += [f"- {note}" for note in article if note not in noted]
        lines += [name, *map(filled, signed)]
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)
