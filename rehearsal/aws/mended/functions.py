"""Custom resources: the CDK's own handler applies manifests with the real kubectl.

The code that runs is that of the deployed function, unpacked from what the CDK CLI uploaded. It
finds a kubectl and, in place of the AWS CLI, a script that hands it the administrator's kubeconfig.
Helm charts and all other custom resources are only written down.
"""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from moto.awslambda.models import LambdaFunction
from moto.awslambda.utils import get_backend
from moto.cloudformation import parsing
from moto.cloudformation.parsing import get_model_map

from rehearsal.aws.mended.base import Resource
from rehearsal.aws.mended.clusters import KUBECONFIG

KUBECTL: Final = "REHEARSAL_KUBECTL"
"""Environment variable of the server: path of the kubectl to apply manifests with."""
TIMEOUT_SECONDS: Final = 900.0
"""The longest that a function of AWS can run."""

# aws eks update-kubeconfig --name NAME --kubeconfig FILE
_AWS: Final = '#!/bin/sh\nexec cp -- "$' + KUBECONFIG + '" "$6"\n'
_RUN: Final = "import index, json, sys; index.handler(json.load(sys.stdin), None)"
# Where the CDK's framework function finds the function that it wraps.
_WRAPPED: Final = "USER_ON_EVENT_FUNCTION_ARN"


class FunctionError(Exception):
    """The function ended with an error: the last line that it wrote."""


def mend() -> None:
    """Adds the type. moto would start a container for every other custom resource."""
    get_model_map()[KubernetesResource.type] = KubernetesResource  # type: ignore[assignment]
    parsing.resource_class_from_type = _known(  # type: ignore[assignment]
        parsing.resource_class_from_type
    )


class Recorded(Resource):
    """A resource that is only written down."""


class KubernetesResource(Resource):
    """Manifests, applied. Without a cluster's kubeconfig they are only written down."""

    type = "Custom::AWSCDK-EKS-KubernetesResource"

    def make(self) -> None:
        """Applies them."""
        self._ask("Create")

    def change(self, earlier: Mapping[str, Any]) -> None:
        """Applies them and prunes what is no longer among them."""
        self._ask("Update")

    def remove(self) -> None:
        """Deletes them."""
        self._ask("Delete")

    def _ask(self, request: str) -> None:
        if not {KUBECONFIG, KUBECTL} <= os.environ.keys():
            return
        functions = get_backend(self.where.account, self.where.region)
        framework = functions.get_function(self.told["ServiceToken"])
        handler = functions.get_function(framework.environment_vars[_WRAPPED])
        event = {
            "RequestType": request,
            "ResourceType": self.type,
            "ResourceProperties": _in_strings(self.told),
        }
        _run(handler, event)


def _in_strings(told: Any) -> Any:
    """Properties as a custom resource gets them: every scalar is a string (CloudFormation User
    Guide, "Custom resource request objects"; aws-cdk issue 1037)."""
    if isinstance(told, Mapping):
        return {name: _in_strings(value) for name, value in told.items()}
    if isinstance(told, list):
        return [_in_strings(one) for one in told]
    return str(told).lower() if isinstance(told, bool) else str(told)


def _run(function: LambdaFunction, event: Mapping[str, Any]) -> None:
    """Raises FunctionError."""
    with tempfile.TemporaryDirectory(prefix="function-") as folder:
        code, tools, out = (Path(folder, name) for name in ("code", "tools", "out"))
        for made in (tools, out):
            made.mkdir()
        zipfile.ZipFile(io.BytesIO(function.code_bytes)).extractall(code)
        (tools / "aws").write_text(_AWS)
        (tools / "aws").chmod(0o700)
        kubectl = Path(os.environ[KUBECTL])
        environment = {
            KUBECONFIG: os.environ[KUBECONFIG],
            "PATH": f"{tools}:{kubectl.parent}:/usr/bin:/bin",
            "PYTHONPATH": str(code),
            "TEST_OUTDIR": str(out),
            # kubectl keeps there what it has learnt of the API.
            "HOME": str(Path(os.environ[KUBECONFIG]).parent),
        }
        done = subprocess.run(
            [sys.executable, "-c", _RUN],
            env=environment,
            input=json.dumps(event),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
    if done.returncode:
        raise FunctionError(done.stderr.strip().rpartition("\n")[2])


def _known(find: Callable[[str], Any]) -> Callable[[str], Any]:
    @functools.wraps(find)
    def resource_class_from_type(resource_type: str) -> Any:
        if resource_type.startswith("Custom::"):
            return get_model_map().get(resource_type, Recorded)
        return find(resource_type)

    return resource_class_from_type
