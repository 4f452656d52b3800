"""A small CloudFormation, as the CDK CLI speaks to it: it keeps templates, and makes no resource.

Like the real one it takes a moment, refuses to change what is the same, keeps what a template says
to retain, and refuses to make that again unless it is asked to take it back. Values of outputs are
made up. It serves HTTP on loopback (AWS CloudFormation API Reference, 2010-05-15).
"""

import contextlib
import functools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from xml.sax.saxutils import escape

from botocore import xform_name
from ruamel.yaml import YAML
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

MOMENT: Final = 0.3
"""Seconds that a change set, a change or a deletion takes."""
SAME: Final = (
    "The submitted information didn't contain changes. "
    "Submit different information to create a change set."
)
_NAMES: Final = {"AWS::S3::Bucket": "BucketName", "AWS::Logs::LogGroup": "LogGroupName"}
"""Which property names a resource, of those that are retained."""
_XMLNS: Final = "http://cloudformation.amazonaws.com/doc/2010-05-15/"

Fields = dict[str, Any]


class Refused(Exception):
    """The code and the words of an error."""


@dataclass
class Stack:
    name: str
    id: str
    status: str = "REVIEW_IN_PROGRESS"
    body: str = "{}"
    tags: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    events: list[Fields] = field(default_factory=list)
    change_sets: dict[str, Fields] = field(default_factory=dict)
    done_at: float = 0

    @property
    def template(self) -> Fields:
        return _parsed(self.body)

    def go(self, status: str) -> None:
        self.status, now = status, time.time()
        self.done_at = now + MOMENT
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime(now))
        event = {"EventId": f"{self.id}/{len(self.events)}", "Timestamp": moment}
        event |= {"LogicalResourceId": self.name, "PhysicalResourceId": self.id}
        event |= {"ResourceType": "AWS::CloudFormation::Stack", "ResourceStatus": status}
        self.events.insert(0, {**event, "StackId": self.id, "StackName": self.name})


class CloudFormation:
    """The stacks of one account, and its operations by the names of the API."""

    def __init__(
        self,
        account: str,
        read: Callable[[str, str], bytes],
        made: Callable[[str, Stack], None],
    ) -> None:
        """``read`` gets an object by bucket and key; ``made`` learns of a change."""
        self.account, self._read, self._made = account, read, made
        self.stacks: dict[tuple[str, str], Stack] = {}
        """By region and name."""
        self.retained: set[str] = set()
        """Names of what deleted stacks have left behind."""
        self.changed: list[str] = []
        """Stacks in the order in which changes of them were carried out."""
        self._lock = threading.RLock()

    @property
    def standing(self) -> dict[str, str]:
        """The templates of the stacks of all regions, by name."""
        stacks = self.stacks.values()
        return {each.name: each.body for each in stacks if each.status != "DELETE_COMPLETE"}

    def describe_stacks(self, region: str, request: Fields) -> Fields:
        stack = self._stack(region, request["StackName"])
        outputs = [{"OutputKey": k, "OutputValue": v} for k, v in stack.outputs.items()]
        described: Fields = {"StackName": stack.name, "StackId": stack.id}
        described |= {"StackStatus": stack.status, "Outputs": outputs}
        described |= {"CreationTime": "2026-01-01T00:00:00Z"}
        tags = [{"Key": k, "Value": v} for k, v in stack.tags.items()]
        return {"Stacks": [{**described, "Parameters": [], "Tags": tags}]}

    def get_template(self, region: str, request: Fields) -> Fields:
        return {"TemplateBody": self._stack(region, request["StackName"]).body}

    def describe_stack_events(self, region: str, request: Fields) -> Fields:
        return {"StackEvents": self._stack(region, request["StackName"]).events}

    def create_change_set(self, region: str, request: Fields) -> Fields:
        name = request["StackName"]
        try:
            stack = self._stack(region, name)
        except Refused:
            arn = f"arn:aws:cloudformation:{region}:{self.account}:stack/{name}/{time.time_ns()}"
            self.stacks[region, name] = stack = Stack(name, arn)
        body = request.get("TemplateBody") or self._fetch(request["TemplateURL"])
        after = Stack(name, stack.id, body=body, tags=_pairs(request, "Tags", "Key", "Value"))
        same = (stack.template, stack.tags) == (after.template, after.tags)
        reason = SAME if same else ""
        if stack.status == "REVIEW_IN_PROGRESS":
            taken = self.retained & {*_retained(after.template)}
            # It takes back what has a name without a function in it.
            if request.get("ImportExistingResources") == "true":
                taken = {name for name in taken if not name.startswith('"')}
            reason = f"already exists: {', '.join(taken)}" if taken else reason
        arn = stack.id.replace(":stack/", f":changeSet/{request['ChangeSetName']}/")
        described = {"ChangeSetName": request["ChangeSetName"], "ChangeSetId": arn}
        described |= {"StackId": stack.id, "StackName": name, "Changes": []}
        described |= {"Status": "CREATE_PENDING", "CreationTime": "2026-01-01T00:00:00Z"}
        change_set = {"described": described, "after": after, "reason": reason}
        stack.change_sets[request["ChangeSetName"]] = change_set
        return {"Id": arn, "StackId": stack.id}

    def describe_change_set(self, region: str, request: Fields) -> Fields:
        described: Fields = self._change_set(region, request)["described"]
        answer = dict(described)
        reason = self._change_set(region, request)["reason"]
        described |= {"Status": "FAILED" if reason else "CREATE_COMPLETE", "StatusReason": reason}
        described["ExecutionStatus"] = "UNAVAILABLE" if reason else "AVAILABLE"
        return answer

    def execute_change_set(self, region: str, request: Fields) -> Fields:
        stack = self._stack(region, request["StackName"])
        after = self._change_set(region, request)["after"]
        stack.change_sets.clear()
        stack.body, stack.tags = after.body, after.tags
        values = {k: v["Value"] for k, v in after.template.get("Outputs", {}).items()}
        made_up = {k: f"{stack.name}-{k}" for k, v in values.items() if not isinstance(v, str)}
        stack.outputs = values | made_up
        verb = "CREATE" if stack.status == "REVIEW_IN_PROGRESS" else "UPDATE"
        stack.go(f"{verb}_IN_PROGRESS")
        self.changed.append(stack.name)
        self._made(region, stack)
        return {}

    def delete_change_set(self, region: str, request: Fields) -> Fields:
        change_sets = self._stack(region, request["StackName"]).change_sets
        change_sets.pop(_name(request["ChangeSetName"]), None)
        return {}

    def delete_stack(self, region: str, request: Fields) -> Fields:
        stack = self._stack(region, request["StackName"])
        self.retained |= set(_retained(stack.template))
        stack.go("DELETE_IN_PROGRESS")
        return {}

    def _stack(self, region: str, name: str) -> Stack:
        """By its name or id, as it is by now."""
        key = region, _name(name)
        if stack := self.stacks.get(key):
            if stack.status.endswith("_IN_PROGRESS") and 0 < stack.done_at < time.time():
                stack.go(stack.status.replace("_IN_PROGRESS", "_COMPLETE"))
            # A deleted one is known by its id alone.
            if stack.status != "DELETE_COMPLETE" or name != stack.name:
                return stack
        raise Refused("ValidationError", f"Stack with id {name} does not exist")

    def _change_set(self, region: str, request: Fields) -> Fields:
        change_sets = self._stack(region, request["StackName"]).change_sets
        if (name := _name(request["ChangeSetName"])) not in change_sets:
            raise Refused("ChangeSetNotFound", f"{name} does not exist")
        change_set: Fields = change_sets[name]
        return change_set

    def _fetch(self, url: str) -> str:
        bucket = next(part for part in re.split(r"[/.]", url) if part.startswith("cdk-"))
        return self._read(bucket, url.rpartition("/")[2]).decode()

    def _answer(self, http: Request) -> Response:
        region = http.headers["Authorization"].split("/")[2]
        request, action = http.form.to_dict(), http.form["Action"]
        try:
            with self._lock:
                result = _xml(getattr(self, xform_name(action))(region, request))
        except Refused as error:
            code, message = error.args
            inner = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
            text = f'<ErrorResponse xmlns="{_XMLNS}">{inner}</ErrorResponse>'
            return Response(text, 400, mimetype="text/xml")
        result = f"<{action}Result>{result}</{action}Result>"
        text = f'<{action}Response xmlns="{_XMLNS}">{result}</{action}Response>'
        return Response(text, mimetype="text/xml")

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        application = Request.application(self._answer)
        server = make_server("127.0.0.1", 0, application, threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.port}"
        server.shutdown()
        thread.join()


@functools.cache
def _parsed(body: str) -> Fields:
    # The bootstrap's is YAML, as which JSON takes a hundred times as long to read.
    parsed: Fields = json.loads(body) if body.startswith("{") else YAML(typ="safe").load(body)
    return parsed


def _name(name_or_arn: str) -> str:
    return name_or_arn.split("/")[1] if name_or_arn.startswith("arn:") else name_or_arn


def _xml(value: Any) -> str:
    match value:
        case dict():
            return "".join(f"<{key}>{_xml(item)}</{key}>" for key, item in value.items())
        case list():
            return "".join(f"<member>{_xml(item)}</member>" for item in value)
    return escape(str(value))


def _pairs(request: Fields, name: str, key: str, value: str) -> dict[str, Any]:
    """``Tags.member.1.Key`` and its like."""
    prefixes = [k.removesuffix(f".{key}") for k in request if re.match(rf"{name}\..*\.{key}$", k)]
    return {request[f"{prefix}.{key}"]: request.get(f"{prefix}.{value}") for prefix in prefixes}


def _retained(template: Fields) -> Iterator[str]:
    """The names of what outlives its stack; of one with a function in it, its text."""
    for resource in template.get("Resources", {}).values():
        if resource.get("DeletionPolicy", "").startswith("Retain") and resource["Type"] in _NAMES:
            yield json.dumps(resource["Properties"].get(_NAMES[resource["Type"]]))
