"""What stages print of what others sent."""

import io

import pytest

from operations.console import Console, print_table

HOSTILE = "a\x1b[2Jb\nx"
HARMLESS = "a\ufffd[2Jb\ufffdx"


def test_a_stage_shows_what_others_sent_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    Console(1, stream).say(HOSTILE)
    with Console(1, stream).stage("results") as stage:
        stage.result = HOSTILE
    said, _, result = stream.getvalue().splitlines()
    assert said == f"      {HARMLESS}"
    assert result.startswith(f"      {HARMLESS}, ")
    print_table([("run", HOSTILE, "x")])
    assert capsys.readouterr().out == f"run  {HARMLESS}  x\n"
