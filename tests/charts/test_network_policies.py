"""Who reaches whom."""

from __future__ import annotations

import copy

import pytest

from charts.names import VLLM_PORT, Component
from tests.reach import Rule, allowed, intended
from tests.synthesis import Synthesised


def test_pods_reach_what_they_need_and_nothing_else(each: Synthesised) -> None:
    policies = [*each.objects("NetworkPolicy")]
    pods = [*each.objects("Pod"), *each.objects("Job"), *each.objects("Deployment")]
    templates = [o if o["kind"] == "Pod" else o["spec"]["template"] for o in pods]
    assert len(templates) >= 4
    for labels in ({}, *(template["metadata"]["labels"] for template in templates)):
        assert allowed(policies, labels) == intended(labels.get("component"))


def test_clients_reach_the_services_by_their_cluster_ip(synthesised: Synthesised) -> None:
    """The VPC CNI lets a pod reach a ClusterIP only if the policy's peer selects what the Service
    names in its own selector, and only at the port that the policy names
    (amazon-network-policy-controller-k8s v1.1.7, ``pkg/resolvers/endpoints.go``)."""
    for service in synthesised.objects("Service"):
        spec = service["spec"]
        assert spec["selector"]["component"] == Component.VLLM
        assert [(p["port"], p["targetPort"]) for p in spec["ports"]] == [(VLLM_PORT, VLLM_PORT)]
        assert "clusterIP" not in spec


def test_a_policy_that_is_missing_too_wide_or_of_no_direction_is_seen(
    synthesised: Synthesised,
) -> None:
    policies = {p["metadata"]["name"]: p for p in synthesised.objects("NetworkPolicy")}
    without = [policy for name, policy in policies.items() if name != "default-deny"]
    with pytest.raises(AssertionError):
        allowed(without, {})
    without = [policy for name, policy in policies.items() if name != "allow-dns"]
    assert intended(None) > allowed(without, {})
    wide = copy.deepcopy(policies["allow-aws"])
    wide["spec"]["egress"][0]["ports"][0]["port"] = 22
    more = allowed([*policies.values(), wide], {}) - intended(None)
    assert more == {Rule("Egress", "0.0.0.0/0", 22)}
