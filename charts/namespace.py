"""The experiment's namespace: Pod Security, network policies, service accounts."""

from __future__ import annotations

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.names import NAMESPACE, VLLM_PORT, Component, service_accounts
from charts.scope import cluster_scoped
from experiment.schema import Experiment

POD_SECURITY = {
    f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
}

POD_IDENTITY_AGENT = "169.254.170.23/32"
"""Where pods get their AWS credentials, on port 80 of the node. Network policies apply to it."""


class NamespaceChart(Chart):
    """A namespace with a list of allowed connections. All others are denied."""

    def __init__(self, scope: Construct, construct_id: str, *, experiment: Experiment) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        cluster_scoped(
            k8s.KubeNamespace(
                self, "Namespace", metadata=k8s.ObjectMeta(name=NAMESPACE, labels=POD_SECURITY)
            )
        )
        for account in service_accounts(experiment):
            k8s.KubeServiceAccount(
                self,
                account,
                metadata=k8s.ObjectMeta(name=account),
                # Credentials come from EKS Pod Identity; no pod here talks to the API server.
                automount_service_account_token=False,
            )
        self._policy("default-deny", {}, types=["Ingress", "Egress"])
        self._policy("allow-dns", {}, types=["Egress"], egress=[_dns()])
        self._policy("allow-aws", {}, types=["Egress"], egress=[_https(), _pod_identity()])
        # An index of a sweep asks its own vLLM, on loopback, which no policy touches.
        if not experiment.apart:
            self._between_clients_and_services()

    def _between_clients_and_services(self) -> None:
        self._policy(
            "allow-clients-to-vllm",
            {"component": Component.VLLM},
            types=["Ingress"],
            ingress=[k8s.NetworkPolicyIngressRule(from_=_clients(), ports=[_tcp(VLLM_PORT)])],
        )
        for client in (Component.BENCHMARK, Component.QUALITY):
            self._policy(
                f"allow-{client}-to-vllm",
                {"component": client},
                types=["Egress"],
                egress=[
                    k8s.NetworkPolicyEgressRule(
                        to=[_pods({"component": Component.VLLM})], ports=[_tcp(VLLM_PORT)]
                    )
                ],
            )

    def _policy(
        self,
        name: str,
        pods: dict[str, str],
        *,
        types: list[str],
        ingress: list[k8s.NetworkPolicyIngressRule] | None = None,
        egress: list[k8s.NetworkPolicyEgressRule] | None = None,
    ) -> None:
        k8s.KubeNetworkPolicy(
            self,
            name,
            metadata=k8s.ObjectMeta(name=name),
            spec=k8s.NetworkPolicySpec(
                pod_selector=k8s.LabelSelector(match_labels=pods or None),
                policy_types=types,
                ingress=ingress,
                egress=egress,
            ),
        )


def _pods(labels: dict[str, str]) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(pod_selector=k8s.LabelSelector(match_labels=labels))


def _clients() -> list[k8s.NetworkPolicyPeer]:
    return [_pods({"component": client}) for client in (Component.BENCHMARK, Component.QUALITY)]


def _tcp(port: int) -> k8s.NetworkPolicyPort:
    return k8s.NetworkPolicyPort(protocol="TCP", port=k8s.IntOrString.from_number(port))


def _dns() -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(
        to=[
            k8s.NetworkPolicyPeer(
                namespace_selector=k8s.LabelSelector(
                    match_labels={"kubernetes.io/metadata.name": "kube-system"}
                ),
                pod_selector=k8s.LabelSelector(match_labels={"k8s-app": "kube-dns"}),
            )
        ],
        ports=[
            k8s.NetworkPolicyPort(protocol=protocol, port=k8s.IntOrString.from_number(53))
            for protocol in ("UDP", "TCP")
        ],
    )


def _https() -> k8s.NetworkPolicyEgressRule:
    """S3, CloudWatch and the Hugging Face Hub have no fixed addresses that a policy could name."""
    return k8s.NetworkPolicyEgressRule(
        to=[k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr="0.0.0.0/0"))], ports=[_tcp(443)]
    )


def _pod_identity() -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(
        to=[k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=POD_IDENTITY_AGENT))], ports=[_tcp(80)]
    )
