"""The control plane's programs are of the cluster's version, and are built once."""

import io
import os
from pathlib import Path

from stacks.cluster import KUBERNETES_VERSION
from tests.control_plane.programs import PROGRAMS, kubernetes_version, programs

# Stands in for go: counts its builds, links five programs.
GO = """#!/bin/sh
test "$1" = -C || exit 9
case $3 in
  env) echo "$VERSION"; echo linux; echo amd64 ;;
  build)
    echo built >> "$COUNT"
    while test "$1" != -o; do shift; done
    mkdir -p "$2"
    for name in server kube-apiserver kube-controller-manager kube-scheduler kubectl; do
      echo > "$2$name"
    done ;;
esac
"""


def test_version_is_the_clusters() -> None:
    assert kubernetes_version().rpartition(".")[0] == KUBERNETES_VERSION


def test_builds_once_outside_the_tree_and_again_with_another_go(tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    with_go = {
        "PATH": f"{go.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "VERSION": "go1.26.8",
        "COUNT": str(tmp_path / "count"),
    }
    first, second = io.StringIO(), io.StringIO()
    folder = programs(with_go, first)
    assert programs(with_go, second) == folder
    assert folder.is_relative_to(tmp_path / "home" / ".cache")
    assert {path.name for path in folder.iterdir()} == set(PROGRAMS)
    assert Path(with_go["COUNT"]).read_text() == "built\n"
    assert f"building Kubernetes {kubernetes_version()}" in first.getvalue()
    assert second.getvalue() == ""
    assert programs(with_go | {"VERSION": "go1.27.0"}, io.StringIO()) != folder
