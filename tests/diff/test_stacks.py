"""What is said of stacks that came, went, stayed and changed, on a terminal and in a comment."""

from __future__ import annotations

import re
from typing import Any

import pytest

from scripts.diff.output import Difference, markdown, plain
from scripts.diff.section import Section
from scripts.diff.stacks import compare, unfold
from tests.diff.assemblies import Stacks, assembly

ASSET = "0" * 64
NEW_ASSET = "1" * 64
TOPIC = {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "one"}}}
OPEN = {"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
STATEMENT = {
    "Effect": "Allow",
    "Action": "sts:AssumeRole",
    "Principal": {"Service": "lambda.amazonaws.com"},
}
ACCESS = {
    "Group": {
        "Type": "AWS::EC2::SecurityGroup",
        "Properties": {"GroupDescription": "g", "SecurityGroupIngress": [OPEN]},
    },
    "Role": {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": {"Statement": [STATEMENT]}},
    },
}


def function(asset: str) -> dict[str, Any]:
    code = {"S3Bucket": "assets", "S3Key": f"{asset}.zip"}
    return {"Function": {"Type": "AWS::Lambda::Function", "Properties": {"Code": code}}}


def queue(name: str) -> dict[str, Any]:
    return {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}}


def of(sections: list[Section], **its: Any) -> Difference:
    """A difference of these sections."""
    return Difference(
        **{"title": "title", "remarks": [], "words": [], "fields": [], "sections": sections} | its
    )


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Section]:
    """Stacks that came, went, stayed and changed."""
    scratch = tmp_path_factory.mktemp("assemblies")
    before: Stacks = {"same": TOPIC, "old": TOPIC, "code": function(ASSET), "risky": queue("one")}
    after: Stacks = {"same": TOPIC, "new": TOPIC, "code": function(NEW_ASSET)}
    after["risky"] = queue("two") | ACCESS
    base = assembly(scratch / "base", before, ASSET)
    head = assembly(scratch / "head", after, NEW_ASSET)
    found = compare(base, head, scratch / "cdk", colour=False)
    return {section.title: section for section in found}


@pytest.mark.parametrize(
    ("stack", "counts", "notes"),
    [
        ("same", (0, 0, 0), ()),
        ("new", (1, 0, 0), ("new",)),
        ("old", (0, 0, 1), ("removed",)),
        ("code", (0, 1, 0), ("only the content of assets",)),
        ("risky", (2, 1, 0), ("IAM", "security groups", "replacement")),
    ],
)
def test_stack(
    sections: dict[str, Section], stack: str, counts: tuple[int, int, int], notes: tuple[str, ...]
) -> None:
    section = sections[stack]
    assert (section.added, section.changed, section.removed) == counts
    assert section.notes == notes


def test_new_and_removed_stacks_are_shown_whole(sections: dict[str, Section]) -> None:
    assert sections["new"].text == "Resources\n[+] AWS::SNS::Topic Topic"
    assert sections["old"].text == "Resources\n[-] AWS::SNS::Topic Topic destroy"


def test_comment_warns_of_access(sections: dict[str, Section]) -> None:
    comment = markdown(of(list(sections.values())), 10_000)
    assert "> :warning: **IAM** in risky\n" in comment
    assert "> :warning: **security groups** in risky\n" in comment


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Manifest": '[{"replicas":1}]'}, {"Manifest": [{"replicas": 1}]}),
        ({"args": ['{"top_k": 1}', "--flag"]}, {"args": [{"top_k": 1}, "--flag"]}),
        ("one\ntwo\n", ["one", "two"]),
        ({"Fn::Join": ["", ['["', {"Ref": "Bucket"}, '"]']]}, ["${Bucket}"]),
        ({"Fn::Join": ["", ['["', {"Fn::GetAtt": ["Role", "Arn"]}, '"]']]}, ["${Role.Arn}"]),
        ({"Fn::Join": ["", ["arn:", {"Ref": "A"}]]}, {"Fn::Join": ["", ["arn:", {"Ref": "A"}]]}),
        ("{{resolve:ssm:/name}}", "{{resolve:ssm:/name}}"),
        (7, 7),
    ],
)
def test_unfold(value: object, expected: object) -> None:
    assert unfold(value) == expected


def test_long_comment_is_cut_between_lines() -> None:
    short = Section("short", text="a line")
    long = [Section(name, text="another `line`\n" * 9999) for name in ("first", "second")]
    comment = markdown(of([short, *long]), 20_000)
    assert 19_000 < len(comment) <= 20_000
    assert "\na line\n" in comment
    assert comment.count("<details>") == comment.count("</details>") == 3
    assert comment.count("```diff\n") == comment.count("\n```\n") == 3
    assert comment.count("Cut to fit here") == 2
    assert set(re.findall("^another.*", comment, re.MULTILINE)) == {"another `line`"}


def test_many_and_long_fields_are_cut_in_a_comment() -> None:
    fields = [f"field-{number}: {'x' * 300} -> none" for number in range(50)]
    comment = markdown(of([], fields=fields), 60_000)
    shown = [line for line in comment.splitlines() if line.startswith("- `field-")]
    assert len(shown) == 40
    assert all(len(line) < 220 for line in shown)
    assert "- `and 10 more`" in comment
    assert all(field in plain(of([], fields=fields)) for field in fields)
