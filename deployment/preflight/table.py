"""All checks of the preflight: what each asks, what it says of an answer, and what to do then."""

from __future__ import annotations

from typing import Final

from deployment.cluster import ADDRESS_VARIABLE
from deployment.preflight import account, capacity, software
from deployment.preflight.check import Check, ok, refused, warning

NOBODY_IS_TOLD: Final = "alerts.emails is empty: no alarm reaches anybody"

_ANOTHER_NAME: Final = "give the experiment another name"
_BOOTSTRAP: Final = "make bootstrap EXPERIMENT={file}"
_DOCKER: Final = "start it, or set benchmark.image to a ready one"
_PRICE: Final = "read the price of {purchase} in {region}"
_KUBERNETES: Final = "set KUBERNETES_VERSION in stacks/cluster.py (docs/decisions/0003)"
_FORWARD: Final = (
    f'forward a port (docs/runbook.md, "Reach a private API") and set {ADDRESS_VARIABLE}'
)
_SILENT: Final = "the cluster exists, and a deploy needs no more, but make experiment does: {error}"
_BLOCK: Final = "buy another, and set capacity.reservation_id"
_INCREASE: Final = (
    "aws service-quotas request-service-quota-increase --region {region} --service-code {service} "
    "--quota-code {code} --desired-value {wanted} (AWS takes hours or days to answer)"
)
_QUOTA: Final = {
    "ok": ok("{needed} needed, {used} in use by others, {allowed} allowed ({quota})"),
    "short": refused(
        "{needed} needed, {used} in use by others, {allowed} allowed ({quota})", _INCREASE
    ),
    "exists": ok("the stack {stack} has what it needs"),
    "reserved": ok("none is needed with a {purchase}"),
    "turns": warning(
        "room for {room} of {compiles} compile nodes ({quota}): compiles take turns", _INCREASE
    ),
}

CHECKS: Final = (
    Check("credentials", account.credentials, {"ok": ok("account {account}, {arn}")}),
    Check(
        "bootstrap",
        account.bootstrap,
        {
            "ok": ok("version {version}"),
            "missing": refused("the region is not prepared for the CDK", _BOOTSTRAP),
            "old": refused("version {version}; the stacks need {needed}", _BOOTSTRAP),
        },
    ),
    Check("quota, Trainium vCPUs", account.trainium_quota, _QUOTA),
    Check("quota, CPU nodes' vCPUs", account.cpu_quota, _QUOTA),
    Check("quotas", account.one_more, _QUOTA),
    Check(
        "zones",
        capacity.zones,
        {
            "ok": ok("{zones}"),
            "wrong": refused("{wrong}", "set aws.availability_zones; this account has {usable}"),
        },
    ),
    Check(
        "instance types",
        capacity.offerings,
        {
            "ok": ok("offered in {having}"),
            "elsewhere": refused(
                "not offered in {asked}",
                "{region} has it in {having}: set aws.availability_zones and "
                "capacity.availability_zone",
            ),
            "nowhere": refused(
                "not offered in {asked}",
                "{region} has it in no zone: set aws.region to one that does",
            ),
        },
    ),
    Check(
        "capacity",
        capacity.reservation,
        {
            "ok": ok("{state}, {hours} hours left until EKS takes the nodes away"),
            "endless": ok("{state}, without an end"),
            "missing": refused(
                "there is none in this account and {region}",
                "set capacity.reservation_id: aws ec2 describe-capacity-reservations "
                "--region {region}",
            ),
            "other": refused("{differences}", "set {fields}, or another capacity.reservation_id"),
            "over": refused("{state}", _BLOCK),
            "too late": refused(
                "ends at {end}, and EKS takes its nodes away 40 minutes before", _BLOCK
            ),
            "used up": refused(
                "{free} of {of} instances are free, {wanted} are wanted (capacity.nodes)",
                "end the instances that use it, or set capacity.nodes",
            ),
            "coming": warning("{state}{begin}", "nodes come when it is active; start them then"),
            "short": warning(
                "{state}, {hours} hours left until EKS takes the nodes away",
                "what takes longer is cut off, and the guard leaves them {limit} hours; "
                "measure less, or buy a longer one",
            ),
        },
    ),
    Check(
        "stacks",
        account.stacks,
        {
            "ok": ok("{existing} of {of} exist; nobody else has their names"),
            "somebody else's": refused(
                "is not tagged Experiment = {name}: somebody else's", _ANOTHER_NAME
            ),
            "made anew": warning(
                "is {status}: its creation failed",
                "a deploy deletes it and makes it anew; why it failed: {events}",
            ),
            "half-way": refused("is {status}", "cdk rollback {stack}, then deploy; {events}"),
            "not deleted": refused(
                "is {status}", "make destroy EXPERIMENT={file}; what is in the way: {events}"
            ),
            "being deleted": refused(
                "is {status}", "wait until the destroy has ended, then begin again"
            ),
            "changing": refused("is {status}", "wait until it is done, as make experiment does"),
        },
    ),
    Check(
        "cluster",
        account.cluster,
        {
            "free": ok("the name {name} is free"),
            "ok": ok("{name} exists, {status}"),
            "somebody else's": refused(
                "there is a cluster {name} that is not tagged Experiment = {name}", _ANOTHER_NAME
            ),
        },
    ),
    Check(
        "bucket",
        account.bucket,
        {
            "free": ok("the name {bucket} is free"),
            "ok": ok("{bucket} exists"),
            "retained": ok("{bucket} stayed of an earlier deploy; the next one takes it back"),
            "unseen": warning(
                "not known: these credentials may not call s3:ListBucket on {bucket}",
                "allow s3:ListBucket, which only reads",
            ),
            "somebody else's": refused("{bucket} belongs to another account", _ANOTHER_NAME),
        },
    ),
    Check(
        "image",
        software.image,
        {
            "ok": ok("{image} exists"),
            "missing": refused(
                "{image} does not exist",
                "push it, or leave benchmark.image out: then Docker builds it",
            ),
            "elsewhere": warning(
                "{image}: not looked up, since it is not in ECR", "docker manifest inspect {image}"
            ),
            "docker": ok("will be built by {docker} {version}"),
            "no docker": refused("{docker}: {problem}; it builds the benchmark's image", _DOCKER),
            "hardly needed": warning(
                "{docker}: {problem}; needed only if spectap/ changed since the last deploy",
                _DOCKER,
            ),
        },
    ),
    Check(
        "Kubernetes API",
        software.kubernetes_api,
        {
            "ok": ok("answers, Kubernetes {version}"),
            "forwarded": ok(f"no cluster yet; {ADDRESS_VARIABLE} says where it will answer"),
            "admitted": ok("no cluster yet; will admit this machine, {address}"),
            "private": warning(
                "no cluster yet; its API will answer only in its VPC (aws.api_access is empty)",
                f"{_FORWARD}; or set aws.api_access: [{{block}}]",
            ),
            "no address": warning(
                "not known whether this machine is in aws.api_access, {blocks}",
                "{service} says your address, but did not answer",
            ),
            "outside": warning(
                "no cluster yet; will not admit this machine: {address} is not in {blocks}",
                f"add {{address}}/32 to aws.api_access; or {_FORWARD}",
            ),
            "silent": warning(
                _SILENT,
                f"add your address to aws.api_access and deploy {{name}}-cluster; or {_FORWARD}",
            ),
            "silent, private": warning(_SILENT, _FORWARD),
        },
    ),
    Check(
        "Kubernetes",
        software.kubernetes,
        {
            "ok": ok("{version}, in standard support until {end}"),
            "old": warning(
                "{version} left standard support on {end}: an hour of the cluster costs more",
                _KUBERNETES,
            ),
            "missing": refused("EKS does not offer {version}", _KUBERNETES),
        },
    ),
    Check(
        "add-ons",
        software.addons,
        {
            "ok": ok("all {number} pinned versions are offered"),
            "missing": refused(
                "not offered: {missing}",
                "make addons EXPERIMENT={file} lists what is; set stacks/addons.py",
            ),
        },
    ),
)
"""Those that ask the account."""

LOCAL_CHECKS: Final = (
    Check(
        "CDK CLI",
        software.cdk,
        {
            "ok": ok("{path}"),
            "missing": refused("no cdk on the PATH", "call it by make, which brings it"),
        },
    ),
    Check(
        "AWS CLI",
        software.aws,
        {
            "ok": ok("found"),
            "not needed": ok("no {missing}, which is not needed"),
            "missing": warning(
                "no {missing} on the PATH: there is no way to a private API",
                'install them (docs/runbook.md, "Reach a private API"), or set aws.api_access',
            ),
        },
    ),
    Check(
        "price",
        software.price,
        {
            "ok": ok("{price}"),
            "other": warning("{price}, is that of {price_of}", f"{_PRICE}, and set capacity.price"),
            "old": warning(
                "{price}, {days} days ago", f"{_PRICE} again, and set capacity.price with its as_of"
            ),
        },
    ),
    Check(
        "gated models",
        software.gated_models,
        {
            "ok": ok("none: the download needs no token"),
            "gated": warning(
                "{models}: the download fails without a token of the Hub",
                'accept the licence, and give the cluster a token: docs/runbook.md, "Gated models"',
            ),
        },
    ),
    Check(
        "alarms",
        software.alarms,
        {
            "ok": ok("go to {emails}, once each has confirmed the subscription"),
            "nobody": warning(NOBODY_IS_TOLD, "name an address there"),
        },
    ),
)
"""Those that ask this machine and the file, so that they need no account."""
