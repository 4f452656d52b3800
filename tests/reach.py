"""Which connections the charts mean to allow, and which their policies do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from charts.names import NAMESPACE, VLLM_PORT, Component
from tests.network_policies import Manifest, Network, Pod

CREDENTIALS: Final = "169.254.170.23"
"""The EKS Pod Identity agent."""
METADATA: Final = "169.254.169.254"
"""The instance metadata service."""
INTERNET: Final = "198.51.100.1"
"""Somebody out there: S3, CloudWatch and the Hub have no addresses that a policy could name."""
API_SERVER: Final = "172.20.0.1"
"""ClusterIP of the Kubernetes API. HTTPS is open to it, too; no pod has a token for it."""

_PORTS: Final = frozenset({22, 53, 80, 443, VLLM_PORT})
_CLIENTS: Final = (Component.BENCHMARK, Component.QUALITY)


class Connection(NamedTuple):
    """From a pod, by its name, to an address."""

    source: str
    address: str
    port: int
    protocol: str = "TCP"


def surroundings() -> list[Manifest]:
    """What else a cluster holds: DNS as EKS installs it, the API, and pods that are not meant."""
    dns = {"k8s-app": "kube-dns"}
    ports = [{"port": 53, "targetPort": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    client = {"component": str(Component.BENCHMARK)}
    return [
        *({"kind": "Namespace", "metadata": {"name": name}} for name in ("kube-system", "default")),
        _service("kube-system", "kube-dns", "172.20.0.10", ports, dns),
        _service("default", "kubernetes", API_SERVER, [{"port": 443}], {}),
        _pod("kube-system", "coredns", "10.0.2.1", dns),
        _pod("kube-system", "metrics-server", "10.0.2.2", {"k8s-app": "metrics-server"}),
        _pod("default", "stranger", "10.0.2.3", {}),
        _pod("default", "disguised", "10.0.2.4", client),
        _pod(NAMESPACE, "unlabelled", "10.0.2.5", {}),
    ]


def allowed(network: Network) -> set[Connection]:
    """Every connection that the policies let through, out of all that are worth a try.

    Of those that begin outside the namespace only what they reach within it counts.
    """
    ours = [pod.address for pod in network.pods if pod.namespace == NAMESPACE]
    services = [service["spec"]["clusterIP"] for service in network.services]
    all_ = [*(pod.address for pod in network.pods), *services, CREDENTIALS, METADATA, INTERNET]
    return {
        Connection(source.name, address, port, protocol)
        for source in network.pods
        for address in (all_ if source.namespace == NAMESPACE else ours)
        for port in _ports(network)
        for protocol in ("TCP", "UDP")
        if address not in (source.address, "None")
        and network.may_open(source, address, port, protocol)
    }


def intended(network: Network) -> set[Connection]:
    """What the charts mean to allow: names, credentials and HTTPS to all, vLLM to its clients."""
    ours = [pod for pod in network.pods if pod.namespace == NAMESPACE]
    return {target for source in ours for target in _targets(network, source)}


def _targets(network: Network, source: Pod) -> Iterator[Connection]:
    foreign = [pod.address for pod in network.pods if pod.namespace != NAMESPACE]
    for address in (CREDENTIALS, METADATA, INTERNET, API_SERVER, *foreign):
        yield Connection(source.name, address, 443)
    yield Connection(source.name, CREDENTIALS, 80)
    for address in _labelled(network, "k8s-app", "kube-dns"):
        yield Connection(source.name, address, 53, "TCP")
        yield Connection(source.name, address, 53, "UDP")
    if source.labels.get("component") in _CLIENTS:
        for address in _labelled(network, "component", Component.VLLM):
            yield Connection(source.name, address, VLLM_PORT)


def _labelled(network: Network, label: str, value: str) -> Iterator[str]:
    """Addresses of the pods and Services that are labelled so."""
    yield from (pod.address for pod in network.pods if pod.labels.get(label) == value)
    for service in network.services:
        if service["metadata"].get("labels", {}).get(label) == value:
            yield service["spec"]["clusterIP"]


def _ports(network: Network) -> set[int]:
    """Those that policies name, with their neighbours, and some that they should not."""
    named = {
        bound
        for policy in network.policies
        for rule in (*policy["spec"].get("ingress", []), *policy["spec"].get("egress", []))
        for port in rule.get("ports", [])
        for bound in (port["port"], port.get("endPort", port["port"]))
    }
    return {*_PORTS, *(port + step for port in named for step in (-1, 0, 1))}


def _pod(namespace: str, name: str, address: str, labels: dict[str, str]) -> Manifest:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{}]},
        "status": {"podIP": address, "phase": "Running"},
    }


def _service(
    namespace: str, name: str, address: str, ports: list[Manifest], labels: dict[str, str]
) -> Manifest:
    return {
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"selector": labels, "clusterIP": address, "ports": ports},
    }
