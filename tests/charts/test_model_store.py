from __future__ import annotations

from tests.synthesis import ACCOUNT, Synthesised


def test_volume_is_the_bucket_s_models_read_only(each: Synthesised) -> None:
    (volume,) = each.objects("PersistentVolume")
    spec, region = volume["spec"], each.experiment.aws.region
    assert spec["csi"]["driver"] == "s3.csi.aws.com"
    assert spec["csi"]["volumeAttributes"] == {
        "bucketName": f"{each.experiment.name}-models-{ACCOUNT}-{region}",
        # Each pod mounts with its own role.
        "authenticationSource": "pod",
    }
    assert {"read-only", "allow-other", f"region {region}", "prefix models/"} <= set(
        spec["mountOptions"]
    )
    assert spec["accessModes"] == ["ReadOnlyMany"]


def test_volume_and_claim_are_bound_to_each_other_statically(synthesised: Synthesised) -> None:
    (volume,) = synthesised.objects("PersistentVolume")
    (claim,) = synthesised.objects("PersistentVolumeClaim")
    # None of a volume is an empty one; none of a claim is the default class.
    assert "storageClassName" not in volume["spec"]
    assert claim["spec"]["storageClassName"] == ""
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["claimRef"] == {
        "name": claim["metadata"]["name"],
        "namespace": claim["metadata"]["namespace"],
    }


def test_bucket_and_region_reach_pods_by_reference(synthesised: Synthesised) -> None:
    config = synthesised.object("ConfigMap", "model-store")["data"]
    assert config == {"BUCKET": f"article-models-{ACCOUNT}-us-east-2", "AWS_REGION": "us-east-2"}
