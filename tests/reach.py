"""Which connections the charts mean to allow, and which their policies do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from charts.names import NAMESPACE, VLLM_PORT, Component
from tests.network_policies import Network, Pod

CREDENTIALS: Final = "169.254.170.23"
"""The EKS Pod Identity agent."""
METADATA: Final = "169.254.169.254"
"""The instance metadata service."""
INTERNET: Final = "198.51.100.1"
"""Somebody out there: S3, CloudWatch and the Hub have no addresses that a policy could name."""

_PORTS: Final = (22, 53, 80, 443, VLLM_PORT)
_CLIENTS: Final = (Component.BENCHMARK, Component.QUALITY)


class Connection(NamedTuple):
    """From a pod, by its name, to an address."""

    source: str
    address: str
    port: int
    protocol: str = "TCP"


def allowed(network: Network) -> set[Connection]:
    """Every connection that the policies let through, out of all that are worth a try.

    Tried from the experiment's pods, from one of its namespace without their labels, and from a
    pod of another namespace, which matters only for what it reaches of the experiment's.
    """
    stranger = Pod("stranger", "default", {}, "10.0.1.2", ())
    ours = [pod.address for pod in network.pods if pod.namespace == NAMESPACE]
    services = [service["spec"]["clusterIP"] for service in network.services]
    all_ = [*(pod.address for pod in network.pods), *services, CREDENTIALS, METADATA, INTERNET]
    tries = [*((source, all_) for source in _sources(network)), (stranger, ours)]
    return {
        Connection(source.name, address, port, protocol)
        for source, addresses in tries
        for address in addresses
        for port in _PORTS
        for protocol in ("TCP", "UDP")
        if address not in (source.address, "None")
        and network.may_open(source, address, port, protocol)
    }


def meant(network: Network) -> set[Connection]:
    """What the charts mean to allow: names, credentials and HTTPS to all, vLLM to its clients."""
    return {target for source in _sources(network) for target in _targets(network, source)}


def _sources(network: Network) -> list[Pod]:
    unlabelled = Pod("unlabelled", NAMESPACE, {}, "10.0.1.1", ())
    return [*(pod for pod in network.pods if pod.namespace == NAMESPACE), unlabelled]


def _targets(network: Network, source: Pod) -> Iterator[Connection]:
    foreign = [pod.address for pod in network.pods if pod.namespace != NAMESPACE]
    for address in (CREDENTIALS, METADATA, INTERNET, *foreign):
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
