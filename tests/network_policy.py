"""Which connections the network policies of a namespace allow, as data."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

Manifest = dict[str, Any]


def allowed(policies: Iterable[Manifest], labels: Mapping[str, str]) -> list[str]:
    """All that the policies let a pod with these labels do, and nothing else is allowed.

    Of each connection the direction, the peer and the port. A peer is a block of addresses, or
    labels of its namespace, if it is another, and of its pods.
    A form that the charts do not use is an error, as is a direction that no policy isolates.
    """
    rules, isolated = set[str](), set[str]()
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
                    f"{direction} {_address(peer)}: {port.get('protocol', 'TCP')} {port['port']}"
                    for peer, port in product(rule[side], rule["ports"])
                }
    assert isolated == {"Ingress", "Egress"}
    return sorted(rules)


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
