from __future__ import annotations

from tests.synthesis import Synthesised


def test_is_not_started_by_default(synthesised: Synthesised) -> None:
    assert synthesised.object("Job", "qwen-lmeval")["spec"]["suspend"] is True


def test_evaluates_both_services_and_keeps_the_results(synthesised: Synthesised) -> None:
    pod = synthesised.object("Job", "qwen-lmeval")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:5] == ["Qwen/Qwen3-32B", "50", "4", "512", "results/quality/"]
    labels = [argument.partition("=")[0] for argument in container["args"][5:]]
    assert labels == ["Base", "SD"]
    assert pod["serviceAccountName"] == "quality"
