"""May this pod open that connection? Judged as the VPC CNI's network policies are enforced.

Kubernetes leaves open whether a policy sees a Service's ClusterIP or the pod behind it. Here an
agent on the node sees a packet before kube-proxy turns the one into the other, so a controller must
have told it the ClusterIP as well. Each rule below names where it was read:

- controller: aws/amazon-network-policy-controller-k8s v1.1.7, ``pkg/resolvers/endpoints.go`` and
  ``pkg/k8s/{pod,service}_utils.go``;
- agent: aws/aws-network-policy-agent c8619c0 (2026-08-21),
  ``pkg/fwruleprocessor/fw_rule_processor.go`` and ``pkg/ebpf/c/tc.v4egress.bpf.c``.

What the charts do not use is refused with NotImplementedError, never guessed.
"""

from __future__ import annotations

import copy
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Manifest = dict[str, Any]
Ports = list[dict[str, Any]]

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The API server gives it to every namespace."""


@dataclass(frozen=True)
class Pod:
    """A pod with an address."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    address: str
    ports: tuple[tuple[str, int, str], ...]
    """Name, number and protocol of each container port."""

    def number(self, port: int | str, protocol: str) -> int | None:
        """A port of this pod by number or name; None for a name it does not have.

        Controller, ``LookupContainerPortAndName``: a number needs no declaration.
        """
        if isinstance(port, int):
            return port
        return next((n for name, n, p in self.ports if (name, p) == (port, protocol)), None)


class Network:
    """Pods, Services, policies and namespaces as the API server holds them."""

    def __init__(self, objects: Iterable[Manifest]) -> None:
        by_kind: dict[str, list[Manifest]] = {}
        for manifest in objects:
            by_kind.setdefault(manifest["kind"], []).append(manifest)
        self.pods = [_pod(manifest) for manifest in by_kind.get("Pod", []) if _ready(manifest)]
        self.services = by_kind.get("Service", [])
        self.policies = by_kind.get("NetworkPolicy", [])
        self._all_pods = [_pod(manifest) for manifest in by_kind.get("Pod", [])]
        self._namespaces = {
            manifest["metadata"]["name"]: {
                NAME_LABEL: manifest["metadata"]["name"],
                **manifest["metadata"].get("labels", {}),
            }
            for manifest in by_kind.get("Namespace", [])
        }
        if unknown := {pod.namespace for pod in self.pods} - self._namespaces.keys():
            raise ValueError(f"pods of namespaces that are not there: {', '.join(unknown)}")

    def may_open(self, source: Pod, address: str, port: int, protocol: str = "TCP") -> bool:
        """Whether ``source`` reaches ``port`` at a pod's address, a ClusterIP or any other."""
        if not self._leaves(source, address, port, protocol):
            return False
        service = next((s for s in self.services if s["spec"].get("clusterIP") == address), None)
        if service is None:
            behind = [(pod, port) for pod in self.pods if pod.address == address]
        elif not service["spec"].get("selector"):
            # Its endpoints are somebody's handiwork, not pods: as good as an address outside.
            behind = []
        elif not (behind := [*self._behind(service, port, protocol)]):
            return False
        return all(self._enters(source, pod, number, protocol) for pod, number in behind)

    def _leaves(self, source: Pod, address: str, port: int, protocol: str) -> bool:
        """The agent at the source sees the address that was called, ClusterIP or not."""
        selecting = [*self._selecting(source, "Egress")]
        # Agent: a pod that no policy selects is in its default-allow state.
        return not selecting or any(
            _matches(ports, port, protocol) and _covers(block, address)
            for policy in selecting
            for rule in policy["spec"].get("egress", [])
            for block, ports in self._egress(policy, rule)
        )

    def _enters(self, source: Pod, pod: Pod, port: int, protocol: str) -> bool:
        """The agent at the destination sees the pods' own addresses."""
        selecting = [*self._selecting(pod, "Ingress")]
        return not selecting or any(
            _matches(ports, port, protocol) and _covers(block, source.address)
            for policy in selecting
            for rule in policy["spec"].get("ingress", [])
            for block, ports in self._ingress(policy, rule)
        )

    def _selecting(self, pod: Pod, direction: str) -> Iterator[Manifest]:
        """Policies that isolate ``pod`` in ``direction``: those of its namespace that select it.

        Controller, ``computePodSelectorEndpoints``. Their rules add up: agent,
        ``ComputeMapEntriesFromEndpointRules``, gives a narrower block the ports of a wider one.
        """
        for policy in self.policies:
            if (
                policy["metadata"]["namespace"] == pod.namespace
                and direction in _types(policy["spec"])
                and _selects(policy["spec"].get("podSelector"), pod.labels)
            ):
                yield policy

    def _ingress(self, policy: Manifest, rule: Manifest) -> Iterator[tuple[str, Ports]]:
        """Controller, ``computeIngressEndpoints``: blocks of addresses, each with its ports.

        A named port is that of the pods the policy selects.
        """
        named = [port for port in rule.get("ports", []) if isinstance(port.get("port"), str)]
        if named:
            raise NotImplementedError(f"named port {named[0]} in an ingress rule")
        ports = rule.get("ports", [])
        if not rule.get("from"):
            yield "0.0.0.0/0", ports
        for peer in rule.get("from") or []:
            if "ipBlock" in peer:
                yield _block(peer), ports
            else:
                yield from ((pod.address, ports) for pod in self._peers(policy, peer))

    def _egress(self, policy: Manifest, rule: Manifest) -> Iterator[tuple[str, Ports]]:
        """Controller, ``computeEgressEndpoints``: blocks of addresses, each with its ports."""
        rule_ports: Ports = rule.get("ports", [])
        by_number = _by_number(rule_ports)
        for peer in rule.get("to") or [{"ipBlock": {"cidr": "0.0.0.0/0"}}]:
            if "ipBlock" in peer:
                # A block has no containers to look a name up in.
                if by_number or not rule_ports:
                    yield _block(peer), by_number
                continue
            for pod in self._peers(policy, peer):
                ports = [{**p, "port": n} for p in rule_ports if (n := _number(pod, p)) is not None]
                if ports or not rule_ports:
                    yield pod.address, ports
            yield from self._cluster_ips(policy, peer, rule_ports)

    def _cluster_ips(
        self, policy: Manifest, peer: Manifest, rule_ports: Ports
    ) -> Iterator[tuple[str, Ports]]:
        """Controller, ``getMatchingServiceClusterIPs``.

        A Service counts if the peer's podSelector matches its *selector*, taken for labels. What
        labels the Service's pods have does not matter. A headless one has no address to add.
        """
        for service in self.services:
            spec = service["spec"]
            if spec.get("clusterIP", "None") == "None":
                continue
            if service["metadata"]["namespace"] not in self._peer_namespaces(policy, peer):
                continue
            if not _selects(peer.get("podSelector"), spec.get("selector", {})):
                continue
            ports = [
                {**port, "port": number}
                for port in rule_ports
                if (number := self._listen_port(service, port, rule_ports)) is not None
            ]
            if ports or not rule_ports:
                yield spec["clusterIP"], ports

    def _listen_port(self, service: Manifest, port: Manifest, rule_ports: Ports) -> int | None:
        """Controller, ``getMatchingServicePort``: the port of the Service that leads to ``port``.

        The policy names the pods' port; the packet still carries the Service's.
        """
        protocol = port.get("protocol", "TCP")
        candidates = [p for p in service["spec"]["ports"] if p.get("protocol", "TCP") == protocol]
        for candidate in candidates:
            if _target(candidate) == port.get("port"):
                return int(candidate["port"])
        backends = [*_selected(service, self._all_pods)]
        for pod in backends:
            for candidate in candidates:
                number = pod.number(_target(candidate), protocol)
                if number is None or number != _number(pod, port):
                    continue
                numbers = {pod.number(_target(candidate), protocol) for pod in backends}
                bypassed = isinstance(port["port"], int) and not all(
                    n is None or _matches(_by_number(rule_ports), n, protocol) for n in numbers
                )
                # Controller, ``hasTargetPortBypass``: a name can be another port on another pod,
                # which a policy that goes by numbers does not allow.
                return None if bypassed else int(candidate["port"])
        return None

    def _behind(self, service: Manifest, port: int, protocol: str) -> Iterator[tuple[Pod, int]]:
        """Where kube-proxy may send what is addressed to ``port`` of ``service``."""
        for candidate in service["spec"]["ports"]:
            if (candidate["port"], candidate.get("protocol", "TCP")) == (port, protocol):
                for pod in _selected(service, self.pods):
                    number = pod.number(_target(candidate), protocol)
                    if number is not None:
                        yield pod, number

    def _peers(self, policy: Manifest, peer: Manifest) -> Iterator[Pod]:
        for pod in self.pods:
            if pod.namespace in self._peer_namespaces(policy, peer) and _selects(
                peer.get("podSelector"), pod.labels
            ):
                yield pod

    def _peer_namespaces(self, policy: Manifest, peer: Manifest) -> set[str]:
        """Controller, ``resolvePeerNamespaces``: the policy's own, unless the peer selects some."""
        if "namespaceSelector" not in peer:
            return {policy["metadata"]["namespace"]}
        selector = peer["namespaceSelector"]
        return {name for name, labels in self._namespaces.items() if _selects(selector, labels)}


def _pod(manifest: Manifest) -> Pod:
    return Pod(
        name=manifest["metadata"]["name"],
        namespace=manifest["metadata"]["namespace"],
        labels=manifest["metadata"].get("labels", {}),
        address=manifest.get("status", {}).get("podIP", ""),
        ports=tuple(
            (port.get("name", ""), port["containerPort"], port.get("protocol", "TCP"))
            for container in manifest["spec"]["containers"]
            for port in container.get("ports", [])
        ),
    )


def _ready(manifest: Manifest) -> bool:
    """Controller, ``IsPodNetworkReady``: an address, and not ended."""
    if manifest["spec"].get("hostNetwork"):
        raise NotImplementedError("a pod on the network of its node, which no policy selects")
    status = manifest.get("status", {})
    return bool(status.get("podIP")) and status.get("phase") not in ("Succeeded", "Failed")


def _target(port: Manifest) -> int | str:
    """Which port of the pods a Service's port leads to; by default the same."""
    target: int | str = port["targetPort"] if "targetPort" in port else port["port"]
    return target


def _selected(service: Manifest, pods: Iterable[Pod]) -> Iterator[Pod]:
    namespace, selector = service["metadata"]["namespace"], service["spec"].get("selector")
    for pod in pods:
        if selector and pod.namespace == namespace and selector.items() <= pod.labels.items():
            yield pod


def _types(spec: Manifest) -> list[str]:
    """By default, as the API server fills it in: ingress, and egress if there are rules for it."""
    types: list[str] = spec.get("policyTypes") or ["Ingress", *["Egress"] * ("egress" in spec)]
    return types


def _by_number(ports: Ports) -> Ports:
    return [port for port in ports if not isinstance(port.get("port"), str)]


def _number(pod: Pod, port: Manifest) -> int | None:
    """The number of a policy's ``port`` on ``pod``."""
    if "port" not in port:
        raise NotImplementedError("a policy port without a number")
    return pod.number(port["port"], port.get("protocol", "TCP"))


def _block(peer: Manifest) -> str:
    if "except" in peer["ipBlock"]:
        raise NotImplementedError("a block with exceptions")
    return str(peer["ipBlock"]["cidr"])


def _selects(selector: Manifest | None, labels: Mapping[str, str]) -> bool:
    """An empty selector, or none, selects everything."""
    if selector and "matchExpressions" in selector:
        raise NotImplementedError("a selector with expressions")
    required: Mapping[str, str] = (selector or {}).get("matchLabels") or {}
    return required.items() <= labels.items()


def _covers(block: str, address: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(block)


def _matches(ports: Ports, port: int, protocol: str) -> bool:
    """Agent, ``evaluateNamespacePolicyByLookUp``: no ports are all ports."""
    return not ports or any(
        p.get("protocol", "TCP") == protocol
        and (port == p["port"] or p["port"] < port <= (p.get("endPort") or 0))
        for p in ports
    )


def as_deployed(manifests: Iterable[Manifest]) -> list[Manifest]:
    """``manifests`` as a cluster would hold them: pods made, addresses given."""
    held = copy.deepcopy([pod for manifest in manifests for pod in _made_from(manifest)])
    for number, item in enumerate(held, start=1):
        if item["kind"] == "Pod":
            item["status"] = {"podIP": f"10.0.0.{number}", "phase": "Running"}
        elif item["kind"] == "Service":
            item["spec"].setdefault("clusterIP", f"172.20.0.{number + 100}")
    return held


def _made_from(manifest: Manifest) -> Iterator[Manifest]:
    """An object, or the pod that its controller makes of it."""
    template = manifest.get("spec", {}).get("template")
    if template is None:
        yield manifest
        return
    identity = {key: manifest["metadata"][key] for key in ("name", "namespace")}
    yield {
        "kind": "Pod",
        "metadata": {**template["metadata"], **identity},
        "spec": template["spec"],
    }
