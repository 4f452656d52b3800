"""Accepts findings of checkov and kube-score on manifests, each with its reason.

The reasons stand in annotations of the object, in the scanners' own form (checkov 3.3.30,
``checkov/kubernetes/kubernetes_utils.py``; kube-score v1.20.0, ``scorecard/scorecard.go``). Not in
those of a pod template, where another reason would be another pod.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cdk8s_plus_35 import k8s


class Accepted(NamedTuple):
    """A finding that stays."""

    reason: str
    """Without an equals sign, at which checkov splits."""
    checkov: tuple[str, ...] = ()
    kube_score: tuple[str, ...] = ()


NO_CPU_LIMIT: Final = Accepted(
    "A CPU limit would throttle what is measured, and compilers that may use all idle cores",
    # kube-score has one check for CPU and memory. It is told to leave CPU limits out.
    checkov=("CKV_K8S_11",),
)
PULLED_ONCE: Final = Accepted(
    "A container that starts again must be what it was, also while the registry is away; "
    "the images are public or the account's own",
    checkov=("CKV_K8S_15",),
    kube_score=("container-image-pull-policy",),
)
NO_DIGEST: Final = Accepted(
    "Its tag is a hash of what it was built from, or its digest is not known here; "
    "make digests pins it",
    checkov=("CKV_K8S_43",),
)
WRITES_TO_ROOT: Final = Accepted(
    "The Neuron tools write logs and caches next to themselves",
    checkov=("CKV_K8S_22",),
    kube_score=("container-security-context-readonlyrootfilesystem",),
)
ENDS_BY_ITSELF: Final = Accepted(
    "It serves nobody and ends; a probe could only end a run that is under way",
    checkov=("CKV_K8S_8", "CKV_K8S_9"),
)
ONE_ON_ITS_DEVICES: Final = Accepted(
    "It holds devices of its own, which a second pod beside it would wait for",
    kube_score=("deployment-replicas", "deployment-strategy"),
)


def acknowledged(pod: k8s.PodSpec, *findings: Accepted) -> dict[str, str]:
    """Annotations for the object that makes ``pod``.

    Besides ``findings``, they accept what each pod of ours has or what is seen in its containers.
    """
    manifest = k8s.KubePod.manifest(spec=pod)["spec"]
    containers = [*manifest.get("initContainers", []), *manifest["containers"]]
    accepted = [NO_CPU_LIMIT, PULLED_ONCE]
    if any("@" not in container["image"] for container in containers):
        accepted.append(NO_DIGEST)
    if not all(c["securityContext"]["readOnlyRootFilesystem"] for c in containers):
        accepted.append(WRITES_TO_ROOT)
    accepted += findings
    skipped = [f"{rule}={finding.reason}" for finding in accepted for rule in finding.checkov]
    ignored = [rule for finding in accepted for rule in finding.kube_score]
    return {
        **{f"checkov.io/skip{number}": text for number, text in enumerate(skipped, start=1)},
        "kube-score/ignore": ",".join(ignored),
    }
