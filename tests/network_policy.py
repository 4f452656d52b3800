"""Which connections the network policies of a namespace allow, as data."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, Final, NamedTuple

from charts.names import VLLM_PORT, Component

Manifest = dict[str, Any]

DNS: Final = "kubernetes.io/metadata.name=kube-system k8s-app=kube-dns"
CREDENTIALS: Final = "169.254.170.23/32"
"""The EKS Pod Identity agent."""


class Rule(NamedTuple):
    """One connection: Egress to, or Ingress from, a peer."""

    direction: str
    peer: str
    """A block of addresses, or labels of the peer's namespace, if it is another, and its pods."""
    port: int
    protocol: str = "TCP"


def intended(component: str | None) -> set[Rule]:
    """What the charts mean to allow: names, credentials and HTTPS to all, vLLM to its clients."""
    rules = {
        Rule("Egress", DNS, 53),
        Rule("Egress", DNS, 53, "UDP"),
        Rule("Egress", "0.0.0.0/0", 443),
        Rule("Egress", CREDENTIALS, 80),
    }
    if component == Component.BENCHMARK:
        rules.add(Rule("Egress", f"component={Component.VLLM}", VLLM_PORT))
    if component == Component.VLLM:
        rules.add(Rule("Ingress", f"component={Component.BENCHMARK}", VLLM_PORT))
    return rules


def allowed(policies: Iterable[Manifest], labels: Mapping[str, str]) -> set[Rule]:
    """All that the policies let a pod with these labels do, and nothing else is allowed.

    A form that the charts do not use is an error, as is a direction that no policy isolates.
    """
    rules, isolated = set[Rule](), set[str]()
    for policy in policies:
        spec = policy["spec"]
        if not _labels(spec["podSelector"]).items() <= labels.items():
            continue
        isolated |= {*spec["policyTypes"]}
        for direction, side in (("Egress", "to"), ("Ingress", "from")):
            for rule in spec.get(direction.lower(), []):
                assert direction in spec["policyTypes"], policy["metadata"]["name"]
                assert rule.keys() == {side, "ports"}
                rules |= {
                    Rule(direction, _address(peer), **port)
                    for peer, port in product(rule[side], rule["ports"])
                }
    assert isolated == {"Ingress", "Egress"}
    return rules


def _address(peer: Manifest) -> str:
    if "ipBlock" in peer:
        assert peer["ipBlock"].keys() == {"cidr"}
        return str(peer["ipBlock"]["cidr"])
    labels = _labels(peer.get("namespaceSelector", {})) | _labels(peer["podSelector"])
    return " ".join(f"{key}={value}" for key, value in labels.items())


def _labels(selector: Manifest) -> dict[str, str]:
    assert selector.keys() <= {"matchLabels"}
    labels: dict[str, str] = selector.get("matchLabels", {})
    return labels
