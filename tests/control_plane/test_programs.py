"""Finding or building the control plane's programs, and what is said if that cannot be."""

import io
import os
from pathlib import Path

import pytest

from stacks.cluster import KUBERNETES_VERSION
from tests.control_plane.__main__ import main
from tests.control_plane.programs import (
    PROGRAMS,
    ControlPlaneError,
    NoPrograms,
    kubernetes_version,
    programs,
)

# Stands in for go: counts its builds, compiles two packages, links five programs.
GO = """#!/bin/sh
test "$1" = env && { echo "$VERSION"; exit; }
test "$1" = -C || exit 9
case $3 in
  env) echo "$VERSION"; echo linux; echo amd64 ;;
  list) echo one; echo two ;;
  build)
    echo built >> "$COUNT"
    echo one >&2
    test -z "$BROKEN" || { echo "go: $BROKEN" >&2; exit 1; }
    echo two >&2
    while test "$1" != -o; do shift; done
    mkdir -p "$2"
    for name in server kube-apiserver kube-controller-manager kube-scheduler kubectl; do
      echo > "$2$name"
    done ;;
esac
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def with_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose go is the stand-in; it builds in no time."""
    monkeypatch.setattr("tests.control_plane.programs._POLL_SECONDS", 0.01)
    script(tmp_path / "bin" / "go", GO)
    return {
        "PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "VERSION": "go1.26.8",
        "COUNT": str(tmp_path / "count"),
    }


def test_version_is_the_clusters() -> None:
    assert kubernetes_version().rpartition(".")[0] == KUBERNETES_VERSION


def test_builds_once_outside_the_tree_and_again_with_another_go(
    with_go: dict[str, str], tmp_path: Path
) -> None:
    first, second = io.StringIO(), io.StringIO()
    folder = programs(with_go, first)
    assert programs(with_go, second) == folder
    assert folder.is_relative_to(tmp_path / "home" / ".cache")
    assert {path.name for path in folder.iterdir()} == set(PROGRAMS)
    assert Path(with_go["COUNT"]).read_text() == "built\n"
    assert f"building Kubernetes {kubernetes_version()}" in first.getvalue()
    assert second.getvalue() == ""
    assert programs(with_go | {"VERSION": "go1.27.0"}, io.StringIO()) != folder


def test_a_failed_build_says_why_and_is_not_reused(with_go: dict[str, str]) -> None:
    with pytest.raises(ControlPlaneError, match=r"^go build: no space left; see .*\.log$"):
        programs(with_go | {"BROKEN": "no space left"}, io.StringIO())
    assert programs(with_go, io.StringIO()).exists()
    assert Path(with_go["COUNT"]).read_text() == "built\n" * 2


def test_ready_programs_are_taken_if_they_are_of_the_version(tmp_path: Path) -> None:
    environment = {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}
    for version in ("v1.34.2", f"v{KUBERNETES_VERSION}.99"):
        for name in PROGRAMS:
            script(tmp_path / "assets" / name, f"#!/bin/sh\necho Kubernetes {version}\n")
        if version == "v1.34.2":
            words = rf"v1\.34\.2; must be v{KUBERNETES_VERSION}$"
            with pytest.raises(ControlPlaneError, match=words):
                programs(environment)
    assert programs(environment) == tmp_path / "assets"


def test_without_go_there_is_none_and_preparing_says_only_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests say why they are skipped."""
    monkeypatch.setattr("tests.control_plane.programs.INSTALLED", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(NoPrograms, match="neither Go to build it with, nor KUBEBUILDER_ASSETS"):
        programs(os.environ)
    assert main() == 0
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nowhere")
    assert main() == 1
    words = "control plane: KUBEBUILDER_ASSETS=/nowhere: has no "
    assert capsys.readouterr().err.startswith(words)
