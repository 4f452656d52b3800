"""What moto 5.2.5 has wrong or lacks, put right in the process of the embedded AWS.

A module a service. ``tests/rehearsal/aws/`` shows that moto still needs each of them. mypy forbids
to replace a method or to add to moto's map what is none of its models: hence ``type: ignore``.
"""

from __future__ import annotations

from rehearsal.aws.mended import (
    change_sets,
    clusters,
    functions,
    imports,
    keys,
    machines,
    metrics,
    networks,
    parameters,
    passwords,
    placement,
    references,
    schedules,
    sizes,
    topics,
    updates,
)


def mend() -> None:
    """Puts all substitutes into moto, in this process."""
    for service in (
        change_sets,
        clusters,
        functions,
        imports,
        keys,
        machines,
        metrics,
        networks,
        parameters,
        placement,
        references,
        schedules,
        passwords,
        sizes,
        topics,
        updates,
    ):
        service.mend()
