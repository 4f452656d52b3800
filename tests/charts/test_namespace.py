from __future__ import annotations

from tests.synthesis import Synthesised


def test_enforces_pod_security_restricted(synthesised: Synthesised) -> None:
    (namespace,) = synthesised.objects("Namespace")
    labels = namespace["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_denies_what_is_not_allowed(synthesised: Synthesised) -> None:
    spec = synthesised.object("NetworkPolicy", "default-deny")["spec"]
    assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
