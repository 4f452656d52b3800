"""The part of the prompts that servers had in their caches, by their usage or their counters."""

from collections import defaultdict
from collections.abc import Iterable

from spectap.endpoint.counters import Count
from spectap.names import WARM_UP
from spectap.record import Record


def shares(records: Iterable[Record], counts: Iterable[Count]) -> dict[str, dict[str, float]]:
    """Shares of the prompts' tokens by test case and variant, where a server says any.

    A request's usage is believed before the server's counters, which have others' requests, too.
    """
    by_usage: dict[tuple[str, str], list[int]] = {}
    by_counters: dict[tuple[str, str], list[int]] = {}
    for record in records:
        if record.round > WARM_UP and record.prompt_tokens and record.cached_tokens is not None:
            sums = by_usage.setdefault((record.case, record.variant), [0, 0])
            sums[0] += record.cached_tokens
            sums[1] += record.prompt_tokens
    for count in counts:
        hits, queries = count.counters.cache_hits, count.counters.cache_queries
        if hits is not None and queries and count.obstacle is None:
            sums = by_counters.setdefault((count.case, count.variant), [0, 0])
            sums[0] += hits
            sums[1] += queries
    cases = defaultdict[str, dict[str, float]](dict)
    for (case, variant), (cached, tokens) in {**by_counters, **by_usage}.items():
        cases[case][variant] = min(1.0, cached / tokens)
    return dict(cases)
