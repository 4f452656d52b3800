"""Who reaches whom, judged as the VPC CNI does: charts as they are, and broken on purpose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from charts.names import VLLM_PORT
from tests.network_policies import Manifest, Network, Pod, as_deployed
from tests.reach import allowed, intended, surroundings
from tests.synthesis import Synthesised


def test_pods_reach_what_they_need_and_nothing_else(each: Synthesised) -> None:
    network = deployed(manifests(each))
    assert len(network.pods) >= 9
    assert allowed(network) == intended(network)


def of(objects: list[Manifest], kind: str, name: str) -> Any:
    (manifest,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return manifest


def service_spec(objects: list[Manifest]) -> Any:
    return of(objects, "Service", "qwen-vllm")["spec"]


def rules(objects: list[Manifest], name: str, direction: str = "egress") -> Any:
    return of(objects, "NetworkPolicy", name)["spec"][direction]


def clients(objects: list[Manifest]) -> Any:
    return rules(objects, "allow-clients-to-vllm", "ingress")[0]


def without(name: str) -> Callable[[list[Manifest]], None]:
    return lambda objects: objects.remove(of(objects, "NetworkPolicy", name))


CUT_OFF: dict[str, Callable[[list[Manifest]], object]] = {
    # The Services as they once were: the policies select pods by a label they did not name.
    "no component": lambda o: service_spec(o)["selector"].pop("component"),
    "headless": lambda o: service_spec(o).update(clusterIP="None"),
    "target port": lambda o: service_spec(o)["ports"][0].update(targetPort=VLLM_PORT + 1),
    "no pod": lambda o: service_spec(o)["selector"].update(app="vllm"),
    "no quality": lambda o: clients(o)["from"].pop(1),
    "no dns": without("allow-dns"),
    "no aws": without("allow-aws"),
    "no benchmark": without("allow-benchmark-to-vllm"),
}
TOO_OPEN: dict[str, Callable[[list[Manifest]], object]] = {
    "any port": lambda o: [rule.pop("ports") for rule in rules(o, "allow-aws")],
    "another port": lambda o: rules(o, "allow-aws")[0]["ports"].append(
        {"port": 8080, "protocol": "TCP"}
    ),
    "a range of ports": lambda o: rules(o, "allow-aws")[0]["ports"][0].update(endPort=7000),
    "kube-system": lambda o: rules(o, "allow-dns")[0]["to"][0].pop("podSelector"),
    "everybody": lambda o: clients(o).pop("from"),
    "the cluster": lambda o: clients(o).update({"from": [{"namespaceSelector": {}}]}),
    "any namespace": lambda o: clients(o)["from"][0].update(namespaceSelector={}),
    "no default": without("default-deny"),
}


@pytest.mark.parametrize("name", [*CUT_OFF, *TOO_OPEN])
def test_broken_charts_are_caught(name: str, synthesised: Synthesised) -> None:
    broken = copy.deepcopy(manifests(synthesised))
    (CUT_OFF | TOO_OPEN)[name](broken)
    network = deployed(broken)
    if name in CUT_OFF:
        assert intended(network) - allowed(network)
    else:
        assert allowed(network) - intended(network)


# The rules themselves, on the smallest network that shows each.


def pod(name: str, address: str, *ports: tuple[str, int], phase: str = "Running") -> Manifest:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ours", "labels": {"app": name}},
        "spec": {"containers": [{"ports": [{"name": n, "containerPort": p} for n, p in ports]}]},
        "status": {"podIP": address, "phase": phase},
    }


def service(port: int, target: int | str) -> Manifest:
    return {
        "kind": "Service",
        "metadata": {"name": "server", "namespace": "ours"},
        "spec": {
            "clusterIP": "172.20.0.1",
            "selector": {"app": "server"},
            "ports": [{"port": port, "targetPort": target}],
        },
    }


def egress(**peer: Any) -> Manifest:
    peer = peer or {"podSelector": {"matchLabels": {"app": "server"}}}
    return {
        "kind": "NetworkPolicy",
        "metadata": {"name": "egress", "namespace": "ours"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "client"}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [peer], "ports": [{"port": 8000, "protocol": "TCP"}]}],
        },
    }


OURS: Manifest = {"kind": "Namespace", "metadata": {"name": "ours"}}
THEIRS: Manifest = {"kind": "Namespace", "metadata": {"name": "theirs"}}
CLIENT = pod("client", "10.0.0.1")
SERVER = pod("server", "10.0.0.2", ("http", 8000))


def client(network: Network) -> Pod:
    return next(pod for pod in network.pods if pod.name == "client")


def test_the_policy_names_the_pods_port_and_the_packet_carries_the_services() -> None:
    network = Network([OURS, CLIENT, SERVER, service(80, 8000), egress()])
    assert network.may_open(client(network), "172.20.0.1", 80)
    assert not network.may_open(client(network), "172.20.0.1", 8000)
    assert network.may_open(client(network), "10.0.0.2", 8000)
    assert not network.may_open(client(network), "10.0.0.2", 80)


def test_a_named_port_of_a_service_is_that_of_its_pods() -> None:
    network = Network([OURS, CLIENT, SERVER, service(80, "http"), egress()])
    assert network.may_open(client(network), "172.20.0.1", 80)


def test_a_name_that_is_another_port_on_another_pod_opens_nothing() -> None:
    server = pod("server", "10.0.0.3", ("http", 22))
    network = Network([OURS, CLIENT, SERVER, server, service(80, "http"), egress()])
    assert not network.may_open(client(network), "172.20.0.1", 80)


def test_a_block_of_addresses_does_not_reach_a_service_by_its_pods() -> None:
    by_block = egress(ipBlock={"cidr": "10.0.0.0/24"})
    network = Network([OURS, CLIENT, SERVER, service(8000, 8000), by_block])
    assert network.may_open(client(network), "10.0.0.2", 8000)
    assert not network.may_open(client(network), "172.20.0.1", 8000)


def test_a_pod_that_has_ended_is_nobody() -> None:
    ended = pod("server", "10.0.0.2", ("http", 8000), phase="Succeeded")
    network = Network([OURS, CLIENT, ended, service(8000, 8000), egress()])
    assert not network.may_open(client(network), "10.0.0.2", 8000)
    assert not network.may_open(client(network), "172.20.0.1", 8000)


def test_a_pod_that_no_policy_selects_is_free() -> None:
    network = Network([OURS, CLIENT, SERVER, service(8000, 8000)])
    assert network.may_open(client(network), "172.20.0.1", 8000)
    assert network.may_open(client(network), "198.51.100.1", 22)


def test_a_service_of_another_namespace_is_another_service() -> None:
    theirs = service(8000, 8000)
    theirs["metadata"] = {"name": "server", "namespace": "theirs"}
    server = pod("server", "10.0.0.9", ("http", 8000))
    server["metadata"] = server["metadata"] | {"namespace": "theirs"}
    network = Network([OURS, THEIRS, CLIENT, server, theirs, egress()])
    assert not network.may_open(client(network), "172.20.0.1", 8000)
    assert not network.may_open(client(network), "10.0.0.9", 8000)


def test_a_named_port_is_looked_up_in_pods_and_not_in_a_block() -> None:
    named = egress()
    named["spec"]["egress"][0]["ports"] = [{"port": "http"}]
    network = Network([OURS, CLIENT, SERVER, service(80, 8000), named])
    assert network.may_open(client(network), "10.0.0.2", 8000)
    assert network.may_open(client(network), "172.20.0.1", 80)
    by_block = egress(ipBlock={"cidr": "10.0.0.0/24"})
    by_block["spec"]["egress"][0]["ports"] = [{"port": "http"}]
    network = Network([OURS, CLIENT, SERVER, by_block])
    assert not network.may_open(client(network), "10.0.0.2", 8000)


def test_a_range_of_ports_ends_where_it_says() -> None:
    ranged = egress()
    ranged["spec"]["egress"][0]["ports"][0]["endPort"] = 8002
    network = Network([OURS, CLIENT, SERVER, ranged])
    reached = [
        port for port in range(7999, 8005) if network.may_open(client(network), "10.0.0.2", port)
    ]
    assert reached == [8000, 8001, 8002]


def test_a_policy_without_types_isolates_as_the_api_server_says() -> None:
    untyped = egress()
    del untyped["spec"]["policyTypes"]
    network = Network([OURS, CLIENT, SERVER, untyped])
    assert network.may_open(client(network), "10.0.0.2", 8000)
    assert not network.may_open(client(network), "10.0.0.2", 22)


def test_pods_of_a_namespace_that_is_not_there_are_an_error() -> None:
    with pytest.raises(ValueError, match="namespaces that are not there: ours"):
        Network([CLIENT])


def deployed(objects: list[Manifest]) -> Network:
    return Network([*as_deployed(objects), *surroundings()])


def manifests(synthesised: Synthesised) -> list[Manifest]:
    return [manifest for chart in synthesised.manifests.values() for manifest in chart]
