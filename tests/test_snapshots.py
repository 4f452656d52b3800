"""A person reviews every snapshot."""

from itertools import chain

from tests.synthesis import ROOT

FOLDERS = ("tests", "packages/spectap/tests")


def test_files_are_small_and_lines_are_short() -> None:
    files = (ROOT.glob(f"{folder}/**/__snapshots__/**/*") for folder in FOLDERS)
    paths = [path for path in chain.from_iterable(files) if path.is_file()]
    assert len(paths) > 40
    for path in paths:
        assert path.stat().st_size <= 40_000, path
        assert max(map(len, path.read_text().splitlines())) <= 300, path
