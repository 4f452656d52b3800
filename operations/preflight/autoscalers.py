"""Asks an existing cluster what starts and ends nodes in it besides the commands here."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubernetes.client import AppsV1Api

from operations.account import Deployment
from operations.cluster import NoCluster, connected, kubernetes_errors
from operations.preflight.check import Check, Finding, ok, warning

_DISCOVERY: Final = re.compile(r"node-group-auto-discovery[= ]asg:tag=([^\s\"']+)")
"""Option of Cluster Autoscaler: it scales the groups that have all of these tags."""


def autoscalers(deployment: Deployment) -> Iterator[Finding]:
    """Whether any would start our nodes unasked, or end one with a measurement on it.

    Cluster Autoscaler starts nodes for pods that wait, as compile Jobs and services here do, and
    again for those whose nodes have ended, up to a group's largest size. A guard makes that 0
    (docs/decisions/0027); before the first one, and after a run that ended its nodes itself, it is
    above.
    """
    if deployment.experiment.aws.cluster is None:
        return
    try:
        with connected(deployment) as api, kubernetes_errors():
            listed = AppsV1Api(api).list_deployment_for_all_namespaces(_request_timeout=5).items
    except NoCluster:
        text = "not known whether one starts our nodes, before a deploy gives access"
        yield warning(text, "set aws.administrator_role, which sees it")
        return
    problems = list[Finding]()
    for each in listed:
        words, name = _command(each), f"{each.metadata.namespace}/{each.metadata.name}"
        if "cluster-autoscaler" in words and _discovers_ours(words, deployment.cluster_name):
            text = f"Cluster Autoscaler ({name}) may start nodes of ours for pods that wait: until "
            text += "the first make deploy has closed their groups, and after a run until the guard"
            remedy = "tag its groups, and give it --node-group-auto-discovery=asg:tag=YOUR-TAG"
            problems.append(warning(text, remedy))
        elif "karpenter" in words:
            text = f"Karpenter ({name}) may end a spot or expired node, and the measurement on it"
            remedy = "have a NodePool of on-demand nodes without terminationGracePeriod"
            problems.append(warning(text, remedy))
    yield from problems or [ok("none starts or ends nodes of the experiment")]


def _command(controller: Any) -> str:
    """Images and command lines of its containers."""
    containers = controller.spec.template.spec.containers
    parts = ([each.image, *(each.command or []), *(each.args or [])] for each in containers)
    return " ".join(word for part in parts for word in part if word)


def _discovers_ours(command: str, cluster: str) -> bool:
    """Whether its tags are all among those that EKS gives to a managed group."""
    ours = {"eks:cluster-name", "eks:nodegroup-name", "k8s.io/cluster-autoscaler/enabled"}
    ours |= {f"k8s.io/cluster-autoscaler/{cluster}", f"kubernetes.io/cluster/{cluster}"}
    return any(
        {tag.partition("=")[0] for tag in tags.split(",")} <= ours
        for tags in _DISCOVERY.findall(command)
    )


CHECKS: Final[Mapping[str, Check]] = {
    "autoscalers": autoscalers,
}
