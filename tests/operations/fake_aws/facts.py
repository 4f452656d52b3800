"""What an account just answers: who asks, quotas, capacity, versions, and objects in buckets."""

import datetime
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.response import StreamingBody

from stacks.addons import VERSIONS
from tests.experiment.files import REGION
from tests.operations.fake_aws.service import Answer, refused

ACCOUNT: Final = "123456789012"
_VCPUS: Final = {"trn2.48xlarge": 192, "trn1.32xlarge": 128, "m7i.xlarge": 4}


@dataclass
class Facts:
    """An account that was granted what one Trainium node needs. Operations as boto3 spells them."""

    quotas: dict[str, float] = field(default_factory=lambda: {"L-2C3B7624": 192, "L-1216C47A": 512})
    """What was granted, by code: vCPUs of Trn and of standard instances."""
    reservations: list[Answer] = field(default_factory=list)
    cluster_versions: dict[str, str] = field(default_factory=lambda: {"1.35": "2027-03-27"})
    """The day on which the standard support of each Kubernetes version ends."""
    addons: dict[str, list[str]] = field(
        default_factory=lambda: {name: [version] for name, version in VERSIONS.items()}
    )
    offerings: dict[str, list[str]] = field(default_factory=dict)
    """The zones of an instance type, where they are not all."""
    instances: list[Answer] = field(default_factory=list)
    bootstrap: str | None = "30"
    qualifier: str = "hnb659fds"
    """Of the bootstrap."""
    clusters: dict[str, Answer] = field(default_factory=dict)
    subnets: list[Answer] = field(default_factory=list)
    route_tables: list[Answer] = field(default_factory=list)
    vpc_lacks: set[str] = field(default_factory=set)
    installed: dict[str, Answer] = field(default_factory=dict)
    """The add-ons of a cluster that exists."""
    identities: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Namespace and service account of each Pod Identity association of a cluster that exists."""
    activities: list[Answer] = field(default_factory=list)
    """Of Auto Scaling, from the newest on."""
    scaled: list[Answer] = field(default_factory=list)
    """The instances of Auto Scaling groups."""

    def get_caller_identity(self) -> Answer:
        return {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/person"}

    def assume_role(self, *, RoleArn: str, RoleSessionName: str) -> Answer:
        keys = {"AccessKeyId": "ASIA" + 12 * "A", "SecretAccessKey": "none", "SessionToken": "any"}
        return {"Credentials": keys}

    def get_parameter(self, *, Name: str) -> Answer:
        if self.bootstrap is None or Name != f"/cdk-bootstrap/{self.qualifier}/version":
            raise refused("ParameterNotFound", Name)
        return {"Parameter": {"Name": Name, "Value": self.bootstrap}}

    def get_service_quota(self, *, ServiceCode: str, QuotaCode: str) -> Answer:
        if QuotaCode not in self.quotas:
            raise refused("NoSuchResourceException", f"No quota {QuotaCode} was applied")
        return {"Quota": {"QuotaCode": QuotaCode, "Value": float(self.quotas[QuotaCode])}}

    def get_aws_default_service_quota(self, *, ServiceCode: str, QuotaCode: str) -> Answer:
        return {"Quota": {"QuotaCode": QuotaCode, "Value": 0.0}}

    def describe_instance_type_offerings(self, *, LocationType: str, Filters: Any) -> Answer:
        ((name,),) = (each["Values"] for each in Filters)
        zones = self.offerings.get(name, [f"{REGION}{letter}" for letter in "abc"])
        return {"InstanceTypeOfferings": [{"Location": zone} for zone in zones]}

    def describe_instance_types(self, *, InstanceTypes: list[str]) -> Answer:
        vcpus = ((name, {"DefaultVCpus": _VCPUS[name]}) for name in InstanceTypes)
        return {"InstanceTypes": [{"InstanceType": t, "VCpuInfo": info} for t, info in vcpus]}

    def describe_instances(self, *, Filters: Any) -> Answer:
        return {"Reservations": [{"Instances": self.instances}]}

    def describe_capacity_reservations(self, *, CapacityReservationIds: list[str]) -> Answer:
        known = {each["CapacityReservationId"]: each for each in self.reservations}
        if any(id not in known for id in CapacityReservationIds):
            raise refused("InvalidCapacityReservationId.NotFound", "was not found")
        return {"CapacityReservations": [known[id] for id in CapacityReservationIds]}

    def describe_cluster_versions(self, *, clusterVersions: list[str]) -> Answer:
        ends = {v: self.cluster_versions[v] for v in clusterVersions if v in self.cluster_versions}
        versions = [
            {
                "clusterVersion": version,
                "endOfStandardSupportDate": datetime.datetime.fromisoformat(f"{end}T00:00:00Z"),
                "versionStatus": "STANDARD_SUPPORT",
            }
            for version, end in ends.items()
        ]
        return {"clusterVersions": versions}

    def describe_addon_versions(self, *, addonName: str, kubernetesVersion: str) -> Answer:
        versions = [{"addonVersion": version} for version in self.addons.get(addonName, [])]
        return {"addons": [{"addonName": addonName, "addonVersions": versions}]}

    def describe_cluster(self, *, name: str) -> Answer:
        if name not in self.clusters:
            raise refused("ResourceNotFoundException", f"No cluster found for name: {name}.")
        return {"cluster": self.clusters[name]}

    def describe_vpc_attribute(self, *, VpcId: str, Attribute: str) -> Answer:
        name = Attribute[0].upper() + Attribute[1:]
        return {name: {"Value": Attribute not in self.vpc_lacks}}

    def describe_subnets(self, *, Filters: Any) -> Answer:
        return {"Subnets": self.subnets}

    def describe_route_tables(self, *, Filters: Any) -> Answer:
        return {"RouteTables": self.route_tables}

    def list_addons(self, *, clusterName: str) -> Answer:
        return {"addons": [*self.installed]}

    def describe_addon(self, *, clusterName: str, addonName: str) -> Answer:
        return {"addon": {"addonName": addonName, **self.installed[addonName]}}

    def list_pod_identity_associations(
        self, *, clusterName: str, namespace: str | None = None, serviceAccount: str | None = None
    ) -> Answer:
        if clusterName not in self.clusters:
            raise refused("ResourceNotFoundException", "No cluster found")
        listed = [
            {"associationId": id, "namespace": space, "serviceAccount": account}
            for id, (space, account) in self.identities.items()
            if namespace in (None, space) and serviceAccount in (None, account)
        ]
        return {"associations": listed}

    def describe_images(self, *, repositoryName: str, registryId: str, imageIds: Any) -> Answer:
        (image,) = imageIds
        if f"{repositoryName}:{image.get('imageTag')}" != "bench:1":
            raise refused("ImageNotFoundException", "not found")
        return {"imageDetails": [{}]}

    def describe_scaling_activities(self, *, AutoScalingGroupName: str, **_: Any) -> Answer:
        return {"Activities": self.activities}

    def describe_log_groups(self, *, logGroupNamePrefix: str) -> Answer:
        return {"logGroups": []}


class Store:
    def __init__(self, now: Callable[[], datetime.datetime]) -> None:
        self.buckets: dict[str, dict[str, tuple[bytes, datetime.datetime]]] = {}
        self._now = now

    def put(self, bucket: str, key: str, body: str = "") -> None:
        self.buckets.setdefault(bucket, {})[key] = (body.encode(), self._now())

    def head_object(self, *, Bucket: str, Key: str) -> Answer:
        return {"ContentLength": len(self._object(Bucket, Key, "404"))}

    def get_object(self, *, Bucket: str, Key: str) -> Answer:
        body = self._object(Bucket, Key, "NoSuchKey")
        return {"ContentLength": len(body), "Body": StreamingBody(io.BytesIO(body), len(body))}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> Answer:
        self._bucket(Bucket)[Key] = (Body, self._now())
        return {}

    def list_objects_v2(self, *, Bucket: str, Prefix: str) -> Answer:
        listed = [
            {"Key": key, "Size": len(body), "LastModified": when}
            for key, (body, when) in sorted(self._bucket(Bucket).items())
            if key.startswith(Prefix)
        ]
        return {"Contents": listed}

    def list_object_versions(self, *, Bucket: str) -> Answer:
        versions = [
            {"Key": key, "Size": len(body), "VersionId": "1"}
            for key, (body, _) in self._bucket(Bucket).items()
        ]
        return {"Versions": versions}

    def delete_objects(self, *, Bucket: str, Delete: Any) -> Answer:
        for each in Delete["Objects"]:
            del self._bucket(Bucket)[each["Key"]]
        return {}

    def delete_bucket(self, *, Bucket: str) -> Answer:
        if self._bucket(Bucket):
            raise refused("BucketNotEmpty", "The bucket you tried to delete is not empty")
        del self.buckets[Bucket]
        return {}

    def _bucket(self, name: str, code: str = "NoSuchBucket") -> dict[str, Any]:
        if name not in self.buckets:
            raise refused(code, "The specified bucket does not exist")
        return self.buckets[name]

    def _object(self, bucket: str, key: str, code: str) -> bytes:
        if key not in self._bucket(bucket, code):
            raise refused(code, "The specified key does not exist")
        return self.buckets[bucket][key][0]
