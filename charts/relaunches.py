"""Rights of the benchmark's account to launch the services again."""

from collections.abc import Iterator
from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s

from charts.names import ServiceAccount, namespace
from charts.namespace import CLUSTER_SCOPED
from experiment.schema import Experiment
from experiment.variants import variants

_MAY_CHANGE: Final = {
    # The API server writes both with each change.
    ".metadata": ["generation", "managedFields"],
    ".spec": ["template"],
    ".spec.template": ["metadata"],
    ".spec.template.metadata": ["annotations"],
    # As ``charts/scripts/relaunch.py`` patches it.
    ".spec.template.metadata.annotations": ["kubectl.kubernetes.io/restartedAt"],
}
"""Keys of each part of a Deployment that a restart may change or that have a row here."""


def allow_relaunches(chart: Chart, experiment: Experiment, name: str) -> None:
    """Lets the benchmark read the Deployments of the services and restart them, and nothing else.

    Whoever patches a Deployment could give its pods another image or account, and so any role of
    the namespace. RBAC knows no fields; an admission policy does. It comes before the right.
    """
    space = namespace(experiment)
    _restarts_only(
        chart, f"{space}-relaunches", f"system:serviceaccount:{space}:{ServiceAccount.BENCHMARK}"
    )
    services = [variant.service for variant in variants(experiment)]
    k8s.KubeRole(
        chart,
        "Role",
        metadata=k8s.ObjectMeta(name=name),
        rules=[
            k8s.PolicyRule(
                api_groups=["apps"],
                resources=["deployments"],
                resource_names=services,
                verbs=["get", "patch"],
            )
        ],
    )
    account = k8s.Subject(kind="ServiceAccount", name=ServiceAccount.BENCHMARK, namespace=space)
    k8s.KubeRoleBinding(
        chart,
        "RoleBinding",
        metadata=k8s.ObjectMeta(name=name),
        role_ref=k8s.RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=name),
        subjects=[account],
    )


def _restarts_only(chart: Chart, name: str, user: str) -> None:
    """Refuses ``user`` every change of a Deployment but another time of its restart."""
    deployments = k8s.NamedRuleWithOperations(
        api_groups=["apps"],
        api_versions=["*"],
        operations=["*"],
        # With scale and status, which RBAC does not give either.
        resources=["deployments", "deployments/*"],
    )
    policy = k8s.KubeValidatingAdmissionPolicy(
        chart,
        "RestartsOnly",
        metadata=k8s.ObjectMeta(name=name),
        spec=k8s.ValidatingAdmissionPolicySpec(
            failure_policy="Fail",
            match_constraints=k8s.MatchResources(resource_rules=[deployments]),
            match_conditions=[
                k8s.MatchCondition(
                    name="is-the-benchmark", expression=f"request.userInfo.username == '{user}'"
                )
            ],
            validations=[
                k8s.Validation(
                    expression=expression,
                    message=f"{user} may restart a Deployment, and change nothing else of it",
                    reason="Forbidden",
                )
                for expression in _expressions()
            ],
        ),
    )
    binding = k8s.KubeValidatingAdmissionPolicyBinding(
        chart,
        "RestartsOnlyBinding",
        metadata=k8s.ObjectMeta(name=name),
        spec=k8s.ValidatingAdmissionPolicyBindingSpec(
            policy_name=name, validation_actions=["Deny"]
        ),
    )
    policy.add_json_patch(CLUSTER_SCOPED)
    binding.add_json_patch(CLUSTER_SCOPED)


def _expressions() -> Iterator[str]:
    """In CEL, which must all hold. One that cannot be evaluated refuses, too."""
    yield "request.operation == 'UPDATE' && request.?subResource.orValue('') == ''"
    for path, free in _MAY_CHANGE.items():
        # The keys of what has a type cannot be listed.
        after, before = f"dyn(object){path}", f"dyn(oldObject){path}"
        same = f"(k in {before} && {after}[k] == {before}[k])"
        yield (
            f"{after}.all(k, k in {free} || {same}) && {before}.all(k, k in {free} || k in {after})"
        )
