"""EKS's list of what it was asked to change in a node group, which moto does not keep.

An update is accepted first, and carried out when it is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.eks import urls
from moto.eks.exceptions import ResourceNotFoundException
from moto.eks.models import EKSBackend
from moto.eks.responses import EKSResponse

_updates: Final[dict[tuple[str, str], dict[str, dict[str, Any]]]] = {}
"""By cluster and node group, and then by their ids."""


def mend() -> None:
    """Adds two operations, and puts a substitute into moto. mypy forbids it, hence the comments."""
    EKSBackend.update_nodegroup_config = _noting(EKSBackend.update_nodegroup_config)  # type: ignore[method-assign]
    EKSResponse.list_updates = _list_updates  # type: ignore[attr-defined]
    EKSResponse.describe_update = _describe_update  # type: ignore[attr-defined]
    updates = "{0}/clusters/(?P<name>[^/]+)/updates"
    for path in (f"{updates}$", f"{updates}/(?P<updateId>[^/]+)$"):
        urls.url_paths[path] = urls.response.dispatch


def _noting(update: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(update)
    def update_nodegroup_config(
        self: EKSBackend, cluster_name: str, nodegroup_name: str, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        answer = update(self, cluster_name, nodegroup_name, *args, **kwargs)
        sizes = kwargs.get("scaling_config") or {}
        noted = answer | {
            "status": "InProgress",
            "params": [{"type": f"{k[0].upper()}{k[1:]}", "value": str(sizes[k])} for k in sizes],
        }
        _updates.setdefault((cluster_name, nodegroup_name), {})[noted["id"]] = noted
        return noted

    return update_nodegroup_config


def _of_group(response: EKSResponse) -> dict[str, dict[str, Any]]:
    cluster, group = response._get_param("name"), response._get_param("nodegroupName")
    response.eks_backend.describe_nodegroup(cluster, group)  # refuses one that is not there
    return _updates.get((cluster, group), {})


def _list_updates(self: EKSResponse) -> ActionResult:
    return ActionResult({"updateIds": [*_of_group(self)]})


def _describe_update(self: EKSResponse) -> ActionResult:
    update = _of_group(self).get(self._get_param("updateId"))
    if update is None:
        raise ResourceNotFoundException(message="No update found.")
    update["status"] = "Successful"
    return ActionResult({"update": update})
