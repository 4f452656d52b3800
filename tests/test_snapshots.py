"""A person reviews every snapshot."""

from tests.synthesis import ROOT


def test_files_are_small_and_lines_are_short() -> None:
    paths = [path for path in ROOT.glob("tests/**/__snapshots__/**/*") if path.is_file()]
    assert len(paths) > 40
    for path in paths:
        assert path.stat().st_size <= 40_000, path
        assert max(map(len, path.read_text().splitlines())) <= 300, path
