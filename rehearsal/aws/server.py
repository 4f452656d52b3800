"""The embedded AWS: moto's server, with what this project needs of AWS and moto lacks.

``python -m rehearsal.aws.server`` serves on loopback until it is ended. Its first line is its URL.

Four bugs and gaps of moto 5.2.5 are mended; ``tests/rehearsal/aws/test_server.py`` shows that moto
still has them:

- ListMetrics names a metric of several dimensions once for each value, in quadratic time.
- CloudFormation passes the tags of a KMS key on under names that moto's own KMS does not know, and
  the stack ends half made.
- CloudFormation ignores subscriptions to an SNS topic.
- CloudFormation cannot import buckets that an earlier stack left behind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from moto.cloudformation import parsing
from moto.cloudformation.parsing import get_model_map
from moto.cloudformation.responses import CloudFormationResponse
from moto.cloudwatch.models import CloudWatchBackend, MetricDatumBase
from moto.kms.models import Key
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends
from moto.utilities.utils import get_partition
from werkzeug.serving import make_server

from rehearsal.aws.calls import Calls


def main() -> None:
    """Serves until the process is ended."""
    mend()
    application = Calls(DomainDispatcherApplication(create_backend_app))
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler
    )
    # By this name, because moto recognises the URL of a template in its own S3 by it.
    print(f"http://localhost:{server.port}", flush=True)
    server.serve_forever()


def mend() -> None:
    """Puts the substitutes into moto, in this process. mypy forbids it, hence the comments."""
    Key.create_from_cloudformation_json = _with_names_of_kms(  # type: ignore[method-assign]
        Key.create_from_cloudformation_json
    )
    CloudWatchBackend.get_filtered_metrics = _distinct_metrics  # type: ignore[method-assign]
    get_model_map()["AWS::SNS::Subscription"] = _Subscription  # type: ignore[assignment]
    CloudFormationResponse.create_change_set = _noting_imports(  # type: ignore[assignment,method-assign]
        CloudFormationResponse.create_change_set
    )
    parsing.parse_and_create_resource = _taking_back(parsing.parse_and_create_resource)


def _distinct_metrics(
    self: CloudWatchBackend, metric_name: str, namespace: str, dimensions: list[dict[str, str]]
) -> list[MetricDatumBase]:
    distinct = {
        (datum.namespace, datum.name, tuple((d.name, d.value) for d in datum.dimensions)): datum
        for datum in self.get_all_metrics()
    }
    return [
        datum for datum in distinct.values() if datum.filter(namespace, metric_name, dimensions)
    ]


def _with_names_of_kms(create: Callable[..., Key]) -> Callable[..., Key]:
    @functools.wraps(create)
    def create_key(name: str, resource: dict[str, Any], *args: Any, **kwargs: Any) -> Key:
        tags = resource["Properties"].get("Tags", [])
        renamed = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tags]
        properties = resource["Properties"] | {"Tags": renamed}
        return create(name, resource | {"Properties": properties}, *args, **kwargs)

    return create_key


_importing: Final[set[str]] = set()
"""Names of stacks whose change set asks for ImportExistingResources."""


def _noting_imports(
    create: Callable[[CloudFormationResponse], Any],
) -> Callable[[CloudFormationResponse], Any]:
    @functools.wraps(create)
    def create_change_set(self: CloudFormationResponse) -> Any:
        asked = self._get_bool_param("ImportExistingResources", False)
        (_importing.add if asked else _importing.discard)(self._get_param("StackName"))
        return create(self)

    return create_change_set


def _taking_back(create: Callable[..., Any]) -> Callable[..., Any]:
    """Imports a bucket if asked to, if its deletion policy is Retain and its name is literal.

    AWS CloudFormation User Guide, "Import resources automatically".
    """

    @functools.wraps(create)
    def create_or_take_back(
        logical_id: str, resource: dict[str, Any], stack: Any, account_id: str, region_name: str
    ) -> Any:
        name = resource.get("Properties", {}).get("BucketName")
        found: Any = None
        if (
            resource["Type"] == "AWS::S3::Bucket"
            and stack.stack_id.split("/")[1] in _importing
            and resource.get("DeletionPolicy") == "Retain"
            and isinstance(name, str)
        ):
            found = s3_backends[account_id][get_partition(region_name)].buckets.get(name)
        if found is None:
            return create(logical_id, resource, stack, account_id, region_name)
        found.cf_resource_type, found.logical_resource_id = resource["Type"], logical_id
        return found

    return create_or_take_back


class _Subscription:
    """A subscription made by CloudFormation. It has the methods that moto calls, and no others."""

    def __init__(self, arn: str) -> None:
        self.physical_resource_id = arn

    @classmethod
    def create_from_cloudformation_json(
        cls, name: str, resource: dict[str, Any], account: str, region: str, **kwargs: Any
    ) -> _Subscription:
        """Subscribes in moto's own SNS."""
        told = resource["Properties"]
        sns = sns_backends[account][region]
        return cls(sns.subscribe(told["TopicArn"], told["Endpoint"], told["Protocol"]).arn)

    def is_created(self) -> bool:
        """Whether the stack may go on."""
        return True


if __name__ == "__main__":
    main()
