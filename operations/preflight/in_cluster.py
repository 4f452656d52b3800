"""Asks an existing cluster who else acts in it: on pods, on nodes, and on Neuron devices."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from kubernetes.client import AdmissionregistrationV1Api, AppsV1Api, ResourceV1Api

from charts.names import NEURON_TAINT, namespace, taint_value
from charts.namespace import DRIVER
from experiment.fields import Origin
from experiment.schema import Experiment
from operations.account import Deployment
from operations.cluster import Api, NoCluster, connected
from operations.preflight.check import Check, Finding, ok, refused, warning
from stacks.constructs.neuron import DRIVER_VERSION
from stacks.trainium import DRIVER_OUTPUT

_TIMEOUT: Final = {"_request_timeout": 5}
_OF_AWS: Final = ("amazon-", "aws-", "eks-", "pod-identity-", "vpc-resource-")
"""How the webhooks of AWS's own controllers begin."""
_DISCOVERY: Final = re.compile(r"node-group-auto-discovery[= ]asg:tag=([^\s\"']+)")
"""Option of Cluster Autoscaler: it scales the groups that have all of these tags."""


_Asks = Callable[[Deployment, Api], Iterator[Finding]]


def _asked(question: str, remedy: str) -> Callable[[_Asks], Check]:
    """A check of an existing cluster, which can be asked once a deploy gives access to it."""

    def decorated(asks: _Asks) -> Check:
        def check(deployment: Deployment) -> Iterator[Finding]:
            if deployment.experiment.aws.cluster is None:
                return
            try:
                with connected(deployment) as api:
                    yield from asks(deployment, api)
            except NoCluster:
                yield warning(f"not known whether {question}, before a deploy gives access", remedy)

        return check

    return decorated


@_asked("a policy engine refuses pods", "kubectl get validatingwebhookconfigurations says")
def webhooks(deployment: Deployment, api: Api) -> Iterator[Finding]:
    """Whether others change or refuse pods."""
    hooks = AdmissionregistrationV1Api(api)
    changing = hooks.list_mutating_webhook_configuration(**_TIMEOUT).items
    refusing = hooks.list_validating_webhook_configuration(**_TIMEOUT).items
    engines = ", ".join(
        each.metadata.name
        for each in (*changing, *refusing)
        if _meets_pods(each) and not each.metadata.name.startswith(_OF_AWS)
    )
    if engines:
        exempt = f"exempt namespace {namespace(deployment.experiment)}"
        yield warning(f"{engines} may change or refuse pods", exempt)
    else:
        yield ok("nobody changes or refuses pods")


def _meets_pods(configuration: Any) -> bool:
    rules = [rule for hook in configuration.webhooks or [] for rule in hook.rules or []]
    return any({"*", "*/*", "pods"}.intersection(rule.resources) for rule in rules)


@_asked("one starts our nodes", "set aws.administrator_role, which sees it")
def autoscalers(deployment: Deployment, api: Api) -> Iterator[Finding]:
    """Whether any would start our nodes unasked, or end one with a measurement on it.

    Cluster Autoscaler starts nodes for pods that wait, as compile Jobs and services here do, and
    again for those whose nodes have ended, up to a group's largest size. A guard makes that 0
    (docs/decisions/0027); before the first one, and after a run that ended its nodes itself, it is
    above.
    """
    listed = AppsV1Api(api).list_deployment_for_all_namespaces(**_TIMEOUT).items
    problems = list[Finding]()
    for each in listed:
        words, name = _command(each), f"{each.metadata.namespace}/{each.metadata.name}"
        if "cluster-autoscaler" in words and _discovers_ours(words, deployment.cluster_name):
            text = f"Cluster Autoscaler ({name}) may start nodes of ours for pods that wait: until "
            text += "the first make deploy has closed their groups, and after a run until the guard"
            remedy = "tag its groups, and give it --node-group-auto-discovery=asg:tag=YOUR-TAG"
            problems.append(warning(text, remedy))
        elif "karpenter" in words:
            text = f"Karpenter ({name}) may end a spot or expired node, and the measurement on it"
            remedy = "have a NodePool of on-demand nodes without terminationGracePeriod"
            problems.append(warning(text, remedy))
    yield from problems or [ok("none starts or ends nodes of the experiment")]


def _command(controller: Any) -> str:
    """Images and command lines of its containers."""
    containers = controller.spec.template.spec.containers
    parts = ([each.image, *(each.command or []), *(each.args or [])] for each in containers)
    return " ".join(word for part in parts for word in part if word)


def _discovers_ours(command: str, cluster: str) -> bool:
    """Whether its tags are all among those that EKS gives to a managed group."""
    ours = {"eks:cluster-name", "eks:nodegroup-name", "k8s.io/cluster-autoscaler/enabled"}
    ours |= {f"k8s.io/cluster-autoscaler/{cluster}", f"kubernetes.io/cluster/{cluster}"}
    return any(
        {tag.partition("=")[0] for tag in tags.split(",")} <= ours
        for tags in _DISCOVERY.findall(command)
    )


@_asked(
    "a Neuron DRA driver is there", "set aws.administrator_role, which sees it; or aws.dra_driver"
)
def devices(deployment: Deployment, api: Api) -> Iterator[Finding]:
    """Whether Neuron's DRA driver, by whom the file says it is made, alone serves our nodes."""
    experiment = deployment.experiment
    daemons = AppsV1Api(api).list_daemon_set_for_all_namespaces(**_TIMEOUT).items
    classes = ResourceV1Api(api).list_device_class(**_TIMEOUT).items
    plugins = [each for each in daemons if "neuron-device-plugin" in each.metadata.name]
    drivers = [each for each in daemons if "neuron-dra-driver" in each.metadata.name]
    is_own = DRIVER_OUTPUT in deployment.outputs("trainium")
    problems = list[Finding]()
    if any(_tolerates(each, experiment) for each in plugins):
        twice = "neuron-device-plugin hands out the devices that the DRA driver hands out, too"
        problems.append(refused(twice, f"take its toleration of {NEURON_TAINT} away"))
    if experiment.aws.dra_driver is Origin.MAKE:
        if drivers and not is_own:
            second = "a Neuron DRA driver is there, and a cluster has room for one"
            problems.append(refused(second, "set aws.dra_driver: there"))
    elif is_own:
        own = "the DRA driver is this experiment's own: a deploy would remove it"
        problems.append(refused(own, "leave aws.dra_driver out"))
    elif not drivers or DRIVER not in {each.metadata.name for each in classes}:
        missing = f"no Neuron DRA driver with device class {DRIVER} is there"
        problems.append(refused(missing, "leave aws.dra_driver out: a deploy makes it"))
    else:
        problems += [finding for each in drivers for finding in _serves(each, experiment)]
    yield from problems or [ok("one DRA driver, and no device plugin on the nodes")]


def _serves(driver: Any, experiment: Experiment) -> Iterator[Finding]:
    image, kind = driver.spec.template.spec.containers[0].image, experiment.capacity.instance_type
    if not (_tolerates(driver, experiment) and _selects(driver, kind)):
        text = f"{driver.metadata.name} does not reach the experiment's nodes"
        yield refused(text, f"let it tolerate {NEURON_TAINT} with any value and select {kind}")
    if f":{DRIVER_VERSION}." not in image.replace(":v", ":"):
        read = f"claims are for version {DRIVER_VERSION}; A19 says how to compare"
        yield warning(f"the DRA driver is {image}", read)


def _tolerates(daemon: Any, experiment: Experiment) -> bool:
    """Whether its pods may run on the Trainium nodes in spite of their taint."""
    return any(
        each.key in (None, NEURON_TAINT)
        and each.effect in (None, "NoSchedule")
        and (each.operator == "Exists" or each.value == taint_value(experiment))
        for each in daemon.spec.template.spec.tolerations or []
    )


def _selects(daemon: Any, instance_type: str) -> bool:
    """Whether its pods go to nodes of that type, as far as labels are known beforehand."""
    pod = daemon.spec.template.spec
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
    }

    def holds(expression: Any) -> bool:
        value = labels.get(expression.key)
        is_in = value in expression.values if expression.values else value is not None
        return is_in is (expression.operator in ("In", "Exists"))

    affinity = pod.affinity and pod.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required else []
    is_near = not terms or any(all(map(holds, term.match_expressions or [])) for term in terms)
    return is_near and (pod.node_selector or {}).items() <= labels.items()
