from __future__ import annotations

from typing import Any

import pytest

from charts.names import Component
from tests.synthesis import Synthesised

DNS, AGENT, SERVER = 53, 80, 8000


def test_enforces_pod_security_restricted(synthesised: Synthesised) -> None:
    (namespace,) = synthesised.objects("Namespace")
    labels = namespace["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_denies_what_is_not_allowed(synthesised: Synthesised) -> None:
    spec = synthesised.object("NetworkPolicy", "default-deny")["spec"]
    assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@pytest.mark.parametrize("client", [Component.BENCHMARK, Component.QUALITY])
def test_clients_reach_vllm_and_nobody_else_does(
    client: Component, synthesised: Synthesised
) -> None:
    assert SERVER in _ports(synthesised, client, "egress")
    rules = _rules(synthesised, Component.VLLM, "ingress")
    (rule,) = rules
    allowed = {peer["podSelector"]["matchLabels"]["component"] for peer in rule["from"]}
    assert allowed == {Component.BENCHMARK, Component.QUALITY}
    assert rule["ports"] == [{"port": SERVER, "protocol": "TCP"}]


@pytest.mark.parametrize("component", list(Component))
def test_every_pod_gets_names_credentials_and_aws(
    component: Component, synthesised: Synthesised
) -> None:
    ports = _ports(synthesised, component, "egress")
    assert {DNS, AGENT, 443} <= ports


@pytest.mark.parametrize("component", [Component.PREPARE, Component.VLLM])
def test_what_is_no_client_reaches_no_service(
    component: Component, synthesised: Synthesised
) -> None:
    assert _ports(synthesised, component, "egress") == {DNS, AGENT, 443}


@pytest.mark.parametrize("component", [Component.PREPARE, Component.BENCHMARK, Component.QUALITY])
def test_nothing_enters_a_pod_that_does_not_serve(
    component: Component, synthesised: Synthesised
) -> None:
    assert _rules(synthesised, component, "ingress") == []


def test_the_credentials_port_opens_to_the_agent_alone(synthesised: Synthesised) -> None:
    rules = _rules(synthesised, Component.VLLM, "egress")
    (agent,) = (r for r in rules if {"port": AGENT, "protocol": "TCP"} in r["ports"])
    assert agent["to"] == [{"ipBlock": {"cidr": "169.254.170.23/32"}}]


def _rules(synthesised: Synthesised, component: Component, direction: str) -> list[dict[str, Any]]:
    """The rules of all policies that select pods of ``component``."""
    return [
        rule
        for policy in synthesised.objects("NetworkPolicy")
        for rule in policy["spec"].get(direction, [])
        if policy["spec"]["podSelector"].get("matchLabels", {"component": component})
        == {"component": component}
    ]


def _ports(synthesised: Synthesised, component: Component, direction: str) -> set[int]:
    return {
        port["port"] for rule in _rules(synthesised, component, direction) for port in rule["ports"]
    }
