"""The model bucket inside the cluster: a read-only volume of checkpoints, and its name."""

from __future__ import annotations

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.names import MODEL_STORE_CONFIG, MODELS_CLAIM, MODELS_PREFIX, NAMESPACE
from charts.pods import USER_ID
from charts.scope import cluster_scoped
from experiment.schema import Experiment


class ModelStoreChart(Chart):
    """A static volume on the bucket's ``models/``, mounted with the identity of the pod.

    Compiled graphs are fetched onto local disks instead: Mountpoint can neither rename nor append,
    and a service reads all shards at once.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, experiment: Experiment, bucket: str
    ) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        volume = f"{experiment.name}-models"
        k8s.KubeConfigMap(
            self,
            "Config",
            metadata=k8s.ObjectMeta(name=MODEL_STORE_CONFIG),
            data={"BUCKET": bucket, "AWS_REGION": experiment.aws.region},
        )
        persistent_volume = k8s.KubePersistentVolume(
            self,
            "Volume",
            metadata=k8s.ObjectMeta(name=volume),
            spec=k8s.PersistentVolumeSpec(
                capacity={"storage": k8s.Quantity.from_string("1200Gi")},
                access_modes=["ReadOnlyMany"],
                persistent_volume_reclaim_policy="Retain",
                # Without a storage class: the API drops an empty one, so kubectl would set it again
                # with every apply.
                claim_ref=k8s.ObjectReference(name=MODELS_CLAIM, namespace=NAMESPACE),
                mount_options=[
                    "read-only",
                    "allow-other",
                    f"uid={USER_ID}",
                    f"gid={USER_ID}",
                    f"region {experiment.aws.region}",
                    f"prefix {MODELS_PREFIX}",
                    # With a pod's identity Mountpoint cannot read the instance metadata, and
                    # assumes 10 Gbps.
                    "maximum-throughput-gbps 100",
                ],
                csi=k8s.CsiPersistentVolumeSource(
                    driver="s3.csi.aws.com",
                    volume_handle=volume,
                    volume_attributes={"bucketName": bucket, "authenticationSource": "pod"},
                ),
            ),
        )
        cluster_scoped(persistent_volume)
        k8s.KubePersistentVolumeClaim(
            self,
            "Claim",
            metadata=k8s.ObjectMeta(name=MODELS_CLAIM),
            spec=k8s.PersistentVolumeClaimSpec(
                access_modes=["ReadOnlyMany"],
                # Empty, not absent: absent would ask for the default storage class.
                storage_class_name="",
                volume_name=volume,
                resources=k8s.VolumeResourceRequirements(
                    requests={"storage": k8s.Quantity.from_string("1200Gi")}
                ),
            ),
        )
