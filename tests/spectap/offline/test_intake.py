"""Generations become requests of the ledger and checked answers, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spectap.offline import intake
from spectap.offline.left import Left

from spectap.config import Config
from spectap.errors import JournalError
from spectap.ledger import read_ledger
from spectap.prompt import Form, Prompt
from spectap.sweep import part
from tests.spectap.offline import jobs
from tests.spectap.offline.jobs import Line
from tests.spectap.offline.runs import STARTED, lines, write


@pytest.fixture
def config() -> Config:
    return part.of(Config.model_validate(jobs.settings()), "vanilla")


@pytest.fixture
def generated(config: Config) -> list[Line]:
    return lines(config, "vanilla", STARTED)


def test_a_kill_between_an_answer_and_its_request_leaves_each_once(
    config: Config, generated: list[Line], tmp_path: Path
) -> None:
    whole, killed = tmp_path / "run", tmp_path / "killed" / "run"
    for folder in (whole, killed):
        write(folder, generated)
        intake.take(config, folder, {})
    ledger, answers = killed / "ledger.jsonl", killed / "answers.jsonl"
    kept = ledger.read_bytes().splitlines(keepends=True)[:5]
    ledger.write_bytes(b"".join(kept))
    # Two prompts before it are in the warm-up and the control, which are not checked.
    answers.write_bytes(b"".join(answers.read_bytes().splitlines(keepends=True)[:4]))
    intake.take(config, killed, {})
    for name in ("ledger.jsonl", "answers.jsonl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


def test_a_torn_last_line_is_taken_when_it_is_whole(
    config: Config, generated: list[Line], tmp_path: Path
) -> None:
    write(tmp_path, generated[:3])
    with (tmp_path / "generations.jsonl").open("a", encoding="utf-8") as file:
        line = json.dumps(generated[3])
        file.write(line[:50])
        file.flush()
        assert len(intake.take(config, tmp_path, {})) == 3
        file.write(line[50:] + "\n")
        file.flush()
        assert len(intake.take(config, tmp_path, {})) == 4


def test_a_line_of_another_kind_is_named(config: Config, tmp_path: Path) -> None:
    write(tmp_path, [{"case": "counting"}])
    with pytest.raises(JournalError, match=r"generations\.jsonl:1: load: Field required"):
        intake.take(config, tmp_path, {})


def test_answers_to_prompts_with_a_form_are_checked(
    config: Config, generated: list[Line], tmp_path: Path
) -> None:
    wanted = Prompt(
        name="as-json", messages=({"role": "user", "content": "give JSON"},), form=Form.JSON
    )
    first, second = ({**line, "prompt": wanted.name, "finish": "stop"} for line in generated[2:4])
    write(tmp_path, [{**first, "text": '{"a": 1}'}, {**second, "text": "a is one"}])
    intake.take(config, tmp_path, {first["case"]: (wanted,)})
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_bytes().splitlines()]
    assert [(one["form"], one["valid"]) for one in answers] == [("JSON", True), ("JSON", False)]
    assert [one.prompt for one in read_ledger(tmp_path / "ledger.jsonl")] == ["as-json"] * 2


@pytest.mark.parametrize("fails", [1, -1])
def test_a_control_that_failed_is_done_again(
    config: Config, generated: list[Line], tmp_path: Path, fails: int
) -> None:
    """The first or the last of the two."""
    generated[fails] = jobs.failed(generated[fails], "RuntimeError: gone")
    write(tmp_path, generated)
    left = Left(config, intake.take(config, tmp_path, {}))
    assert not left.complete
    assert [part.turn.round for part in left.parts] == [0, -1]
    assert [*left.failures] == ["control load: two have to succeed, one of them after all turns"]
