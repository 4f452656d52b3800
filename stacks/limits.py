"""Limits of size of CloudFormation, Lambda and kubectl, checked before a deploy."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

TEMPLATE: Final = 1_000_000
"""Bytes of a template: "Template may not exceed 1000000 bytes in size"."""
EVENT: Final = 1 << 20
"""Bytes of an asynchronous invocation of Lambda, by which CloudFormation hands a manifest over
(aws/aws-cdk#19165): at an update the new one and the old one."""
ANNOTATIONS: Final = 256 << 10
"""Bytes of an object's annotations (Kubernetes, ``TotalAnnotationSizeLimitB``), of which one is the
whole object, as ``kubectl apply`` notes it. So none reaches the 1 MiB of a ConfigMap."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which ``kubectl apply`` notes an object."""
MANIFESTS: Final = "Custom::AWSCDK-EKS-KubernetesResource"
"""Type of a template's resource that applies objects."""
_REMEDY: Final = "take test cases, variants or published figures out, or make two experiments of it"


def exceeded(stack: str, content: bytes) -> Iterator[str]:
    """A line for each limit that ``content``, the template of ``stack``, does not keep."""
    yield from _over(stack, "its template", len(content), TEMPLATE)
    for resource in json.loads(content).get("Resources", {}).values():
        if resource["Type"] != MANIFESTS:
            continue
        objects = json.loads(_text(resource["Properties"]["Manifest"]))
        size = 2 * len(json.dumps(resource["Properties"]))
        yield from _over(stack, f"{_name(objects[0])}, old and new,", size, EVENT)
        for applied in objects:
            yield from _over(stack, _name(applied), annotations(applied), ANNOTATIONS)


def annotations(applied: Mapping[str, Any]) -> int:
    """Bytes of the annotations of an object once it is applied.

    kubectl writes it as Go does: compact, in UTF-8, with ``<``, ``>`` and ``&`` in six characters.
    """
    text = json.dumps(applied, separators=(",", ":"), ensure_ascii=False) + "\n"
    noted = len(text.encode()) + 5 * sum(map(text.count, "<>&"))
    given = applied["metadata"].get("annotations", {})
    return (
        noted
        + len(LAST_APPLIED)
        + sum(len(f"{key}{value}".encode()) for key, value in given.items())
    )


def _over(stack: str, subject: str, size: int, limit: int) -> Iterator[str]:
    if size > limit:
        yield (
            f"{stack}: {subject} has {size:,} bytes, {size - limit:,} more than the {limit:,} "
            f"that a deploy takes: {_REMEDY}"
        )


def _name(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _text(value: Any) -> str:
    """A manifest, with a name in place of each reference."""
    if isinstance(value, str):
        return value
    return "".join(part if isinstance(part, str) else "x" * 12 for part in value["Fn::Join"][1])
