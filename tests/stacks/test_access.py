"""What each pod may do, and could if someone else ran in it (docs/security.md); and who reads
a user's own file of prompts."""

import hashlib
import json
from collections import defaultdict
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from charts.names import stopper_arn
from experiment import load
from tests.experiment.files import REGION, edited
from tests.matrix import FIRST_START, SWEEP, THREE_VARIANTS, VANILLA
from tests.snapshots import TemplateSnapshot, readable
from tests.stacks.templates import resolved, statements
from tests.synthesis import ACCOUNT, Of, Synthesised, containers, synthesise


def settings(synthesised: Synthesised) -> dict[str, Any]:
    """What the pod that measures is told."""
    maps = (config_map["data"] for config_map in synthesised.objects("ConfigMap"))
    (config,) = (json.loads(data["config.json"]) for data in maps if "config.json" in data)
    return dict(config)


@pytest.mark.parametrize(
    "name",
    [FIRST_START, SWEEP, THREE_VARIANTS, VANILLA],
    ids=["first start", "sweep", "key", "jobs"],
)
def test_who_may_what(name: str, of_matrix: Of, snapshot: SnapshotAssertion) -> None:
    """Of shapes that the article, whose whole template is a snapshot, does not have.

    A service that compiles at its first start fills the cache. In a sweep and in jobs one role
    fetches, serves and measures. The key is read by those who serve and those who ask.
    """
    synthesised, rights = of_matrix(name), defaultdict[str, list[Any]](list)
    for account, statement in statements(synthesised):
        rights[account].append(readable(statement))
    # It is made by Secrets Manager: no template has it.
    keys = [key["Properties"] for _, key in synthesised.resources("AWS::SecretsManager::Secret")]
    assert {"rights": rights, "keys": readable(keys)} == snapshot(extension_class=TemplateSnapshot)
    roles = {account.lower() for account in rights}
    assert {o["metadata"]["name"] for o in synthesised.objects("ServiceAccount")} == roles
    identities = synthesised.resources("AWS::EKS::PodIdentityAssociation")
    assert {each["Properties"]["ServiceAccount"] for _, each in identities} == roles


POD_IDENTITY = "pods.eks.amazonaws.com"
POD_TAGS = ("kubernetes-namespace", "kubernetes-service-account")


def test_a_role_of_pods_has_no_rights_but_these_and_has_them_in_time(each: Synthesised) -> None:
    resources = each.template("serving")["Resources"]
    for logical_id, role in resources.items():
        if role["Type"] == "AWS::IAM::Role":
            assert POD_IDENTITY in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])
            assert not {"ManagedPolicyArns", "Policies"} & set(role["Properties"]), logical_id
    for _, identity in each.resources("AWS::EKS::PodIdentityAssociation"):
        role, _ = identity["Properties"]["RoleArn"]["Fn::GetAtt"]
        # Before any pod: the objects wait for the association.
        (policy,) = (n for n in resources if n.startswith(role[:-8]) and "Policy" in n)
        assert policy in identity["DependsOn"]


def test_a_role_is_for_the_pods_of_one_service_account_of_this_cluster(each: Synthesised) -> None:
    """EKS sets the tags itself, so no other cluster and no other pod can take the role."""
    name = each.experiment.name
    service_accounts = {
        (identity["Properties"]["Namespace"], identity["Properties"]["ServiceAccount"])
        for _, identity in each.resources("AWS::EKS::PodIdentityAssociation")
    }
    addons = {("kube-system", "aws-node"), ("amazon-cloudwatch", "cloudwatch-agent")}
    trusted = set()
    for _, role in each.resources("AWS::IAM::Role"):
        for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
            if statement["Principal"] == {"Service": POD_IDENTITY}:
                tags = statement["Condition"]["StringEquals"]
                cluster, *account = (
                    tags[f"aws:RequestTag/{tag}"] for tag in ("eks-cluster-arn", *POD_TAGS)
                )
                assert json.dumps(cluster).endswith(f':cluster/{name}"]]}}')
                trusted.add(tuple(account))
    assert trusted == service_accounts | addons


def test_what_measures_is_told_of_the_stopper(each: Synthesised) -> None:
    assert each.experiment.capacity.stops_after_run
    ((_, machine),) = each.resources("AWS::StepFunctions::StateMachine")
    name = f"stateMachine:{machine['Properties']['StateMachineName']}"
    (allowed,) = (s["Resource"] for _, s in statements(each) if s.get("Sid") == "StopNodes")
    for arn in (resolved(allowed, ACCOUNT), settings(each)["stopper"]):
        assert arn == stopper_arn(each.experiment, ACCOUNT)
        assert arn.endswith(name)


def test_nothing_outside_the_cluster_can_reach_a_pod(each: Synthesised) -> None:
    for service in each.objects("Service"):
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP"
        assert not {"externalIPs", "loadBalancerIP"} & set(service["spec"])
    assert not [*each.objects("Ingress"), *each.objects("Gateway")]
    for name, pod in each.pods():
        for container in containers(pod):
            assert not any("hostPort" in port for port in container.get("ports", [])), name


SECRET = "Überaus geheim"
BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"


@pytest.fixture(scope="module")
def with_file(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """An experiment with a test case of a file, and lines of which one says the same."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.jsonl").write_text(json.dumps({"prompt": SECRET}, ensure_ascii=False) + "\n")
    cases = {
        "benchmark.test_cases.2.line": f"{SECRET} ${{AWS::Region}}",
        "benchmark.test_cases.3": {"name": "own", "file": "own.jsonl"},
    }
    (folder / "mine.yaml").write_text(edited(cases), encoding="utf-8")
    return synthesise(load(folder / "mine.yaml"), folder)


def digest(with_file: Synthesised) -> str:
    return with_file.experiment.prompt_files["own.jsonl"].digest


def test_a_deploy_uploads_file_and_lines_under_their_digests(with_file: Synthesised) -> None:
    (path,) = with_file.directory.glob("*-serving.assets.json")
    for key in (digest(with_file), settings(with_file)["lines"]):
        asset = json.loads(path.read_text())["files"][key]
        (destination,) = asset["destinations"].values()
        assert destination["objectKey"] == key
        assert destination["bucketName"].startswith("cdk-hnb659fds-assets-")
        content = (with_file.directory / asset["source"]["path"]).read_bytes()
        assert b"geheim" in content
        assert hashlib.sha256(content).hexdigest() == key


def test_templates_and_manifests_have_the_digest_and_no_prompt(with_file: Synthesised) -> None:
    config = settings(with_file)
    assert config["prompts_bucket"] == BUCKET
    source = config["test_cases"][3]["prompts"]
    assert (source["file"], source["digest"]) == ("own.jsonl", digest(with_file))
    dist = with_file.directory.parent / "dist"
    for path in (*with_file.directory.glob("*.template.json"), *dist.iterdir()):
        text = path.read_text(encoding="utf-8")
        assert "geheim" not in text
        assert "binaryData" not in text


def test_only_what_measures_may_read_it(with_file: Synthesised) -> None:
    """And S3 may decrypt it, by whatever key the bootstrap's bucket has, and nothing else."""
    of_file = [
        (name, statement)
        for name, statement in statements(with_file)
        if digest(with_file) in json.dumps(statement)
    ]
    (_, read), (_, decrypt) = of_file
    assert {name for name, _ in of_file} == {"Benchmark"}
    assert (read["Action"], decrypt["Action"]) == ("s3:GetObject", "kms:Decrypt")
    lines = settings(with_file)["lines"]
    assert [key in json.dumps(read["Resource"]) for key in (digest(with_file), lines)] == [True] * 2
    assert len(read["Resource"]) == 2
    context = decrypt["Condition"]["StringEquals"]
    assert context.keys() == {"kms:EncryptionContext:aws:s3:arn", "kms:ViaService"}
    bucket, *objects = context["kms:EncryptionContext:aws:s3:arn"]
    assert objects == read["Resource"]
    assert digest(with_file) not in json.dumps(bucket)
