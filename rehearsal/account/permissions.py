"""What a role may do, judged by the policies that the embedded IAM holds for it.

As IAM judges a role of the same account without a permissions boundary: a Deny wins, otherwise an
Allow is needed. A statement with an element that is not understood here is an error, not a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from rehearsal.aws.client import Aws
from rehearsal.errors import RehearsalError

_OF_A_POLICY: Final = {"Sid", "Effect", "Action", "Resource", "Condition"}
_OF_A_TRUST: Final = {"Sid", "Effect", "Action", "Principal", "Condition"}
_NO_TAGS: Final[Mapping[str, str]] = {}


Statement = Mapping[str, Any]


def may(
    aws: Aws, role: str, action: str, resource: str, tags: Mapping[str, str] = _NO_TAGS
) -> bool:
    """Whether the role with this ARN may do ``action`` to ``resource``, which has ``tags``.

    Raises RehearsalError.
    """
    return allows(statements(aws, role), action, resource, tags)


def allows(
    policy: Iterable[Statement], action: str, resource: str, tags: Mapping[str, str] = _NO_TAGS
) -> bool:
    """Whether statements allow it. Raises RehearsalError."""
    context = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
    found = {
        statement["Effect"]
        for statement in policy
        if _one_of(action.lower(), [each.lower() for each in _listed(statement["Action"])])
        and _one_of(resource, _listed(statement["Resource"]))
        and _holds(statement.get("Condition", {}), context)
    }
    return found == {"Allow"}


def statements(aws: Aws, role: str) -> list[Statement]:
    """Those of all policies of the role, its own and others'. Raises RehearsalError."""
    iam, name = aws.client("iam"), _name(role)
    documents = [
        iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]
    ]
    for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        arn = policy["PolicyArn"]
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        found = iam.get_policy_version(PolicyArn=arn, VersionId=version)
        documents.append(found["PolicyVersion"]["Document"])
    return [
        _understood(statement, _OF_A_POLICY)
        for document in documents
        for statement in _listed(document["Statement"])
    ]


def may_be_assumed(aws: Aws, role: str, service: str, context: Mapping[str, str]) -> bool:
    """Whether the service may act under the role, for what ``context`` says (``aws:SourceArn``...).

    Raises RehearsalError.
    """
    found = aws.client("iam").get_role(RoleName=_name(role))["Role"]
    return any(
        service in _listed(_understood(statement, _OF_A_TRUST)["Principal"].get("Service", []))
        and statement["Effect"] == "Allow"
        and "sts:AssumeRole" in _listed(statement["Action"])
        and _holds(statement.get("Condition", {}), context)
        for statement in _listed(found["AssumeRolePolicyDocument"]["Statement"])
    )


def _holds(condition: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    if unknown := condition.keys() - {"StringEquals"}:
        raise RehearsalError(f"cannot judge a condition with {', '.join(sorted(unknown))}")
    return all(
        context.get(key) in _listed(value)
        for key, value in condition.get("StringEquals", {}).items()
    )


def _understood(statement: Statement, elements: set[str]) -> Statement:
    if unknown := statement.keys() - elements:
        raise RehearsalError(f"cannot judge a statement with {', '.join(sorted(unknown))}")
    return statement


def _one_of(value: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _listed(value: Any) -> list[Any]:
    """In policies, a list of one may stand without its brackets."""
    return value if isinstance(value, list) else [value]


def _name(role: str) -> str:
    return role.rpartition("/")[2]
