"""What a stack has of another stands in its template, so that a change of the one changes both.

CloudFormation resolves ``Fn::GetStackOutput`` when it makes or changes what has it (Template
Reference), and a stack whose template is the same is not changed. So each such reference comes with
a digest of what, changed, would give the output another value, and of no more: where the text of a
``ClusterName`` changes, CloudFormation plans another node group (aws/aws-cdk#38829).
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk

REPLACING: Final[Mapping[str, Collection[str]]] = {
    "AWS::EKS::Cluster": (
        *("AccessConfig", "BootstrapSelfManagedAddons", "EncryptionConfig"),
        *("KubernetesNetworkConfig", "Name", "OutpostConfig", "RoleArn"),
    ),
    "AWS::IAM::Role": ("Path", "RoleName"),
    "AWS::Lambda::Function": ("FunctionName", "PackageType", "TenancyConfig"),
}
"""Properties that CloudFormation changes by another resource. A test compares them with cfn-lint's
copy of the resource registry. Of a type that is not here, each property counts."""


class Synthesizer(cdk.DefaultStackSynthesizer):
    """Writes a template whose references to outputs of earlier stacks say what these rest on."""

    def reusable_bind(self, stack: cdk.Stack) -> cdk.IBoundStackSynthesizer:
        """This one, for a copy would not be of this class. So each stack has its own."""
        self.bind(stack)
        return self

    def _synthesize_template(
        self, session: cdk.ISynthesisSession, *arguments: Any, **options: Any
    ) -> cdk.FileAssetSource:
        source = super()._synthesize_template(session, *arguments, **options)
        file = Path(session.assembly.outdir, str(source.file_name))
        template = _marked(json.loads(file.read_text(encoding="utf-8")), file.parent)
        text = json.dumps(template, indent=1, ensure_ascii=False)  # as the CDK writes it
        file.write_text(text, encoding="utf-8")
        return cdk.FileAssetSource(
            source_hash=hashlib.sha256(text.encode()).hexdigest(),
            file_name=source.file_name,
            packaging=source.packaging,
            deploy_time=source.deploy_time,
            display_name=source.display_name,
        )


def qualifier(stack: cdk.Stack) -> str:
    """Of the CDK's bootstrap, which is in the names of its bucket, registry and roles."""
    return str(stack.synthesizer.bootstrap_qualifier)


def _marked(value: Any, assembly: Path) -> Any:
    match value:
        case {"Fn::GetStackOutput": reference}:
            file = assembly / f"{reference['StackName']}.template.json"
            other = json.loads(file.read_text(encoding="utf-8"))
            output = other["Outputs"][reference["OutputName"]]["Value"]
            # The delimiter of one piece: it is in the text of the property, and not in its value.
            return {"Fn::Join": [_digest(other["Resources"], output), [value]]}
        case dict():
            return {key: _marked(item, assembly) for key, item in value.items()}
        case list():
            return [_marked(item, assembly) for item in value]
    return value


def _digest(resources: Mapping[str, Any], output: Any) -> str:
    """Of the resources that ``output`` refers to, and those refer to: what replaces them."""
    reached: dict[str, Any] = {}
    pending = [output]
    while pending:
        # In a Ref, an Fn::GetAtt or an Fn::Sub.
        for name in {*re.findall(r"\w+", json.dumps(pending.pop()))} & resources.keys() - reached:
            properties = resources[name].get("Properties", {})
            counted = properties.keys() & REPLACING.get(resources[name]["Type"], properties)
            reached[name] = {key: properties[key] for key in counted}
            pending.append(reached[name])
    return hashlib.sha256(json.dumps(reached, sort_keys=True).encode()).hexdigest()[:8]
