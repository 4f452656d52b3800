"""What scales nodes to 0 is of the experiment's node groups, and who may start it."""

import json

from charts.names import stopper_arn
from tests.stacks.templates import listed, node_group, outputs, statements
from tests.synthesis import ACCOUNT, Synthesised


def test_outputs_name_each_group_and_the_stopper(synthesised: Synthesised) -> None:
    """By which the commands find them."""
    named = outputs(synthesised, "trainium")
    resources = synthesised.template("trainium")["Resources"]
    for prefix, kind in (("", "trainium"), ("Compile", "compile")):
        group, _ = named[f"{prefix}NodeGroup"]["Fn::GetAtt"]
        assert resources[group]["Properties"] == node_group(synthesised, kind)
    machine = resources[named["Stopper"]["Ref"]]["Properties"]
    group, _ = named["NodeGroup"]["Fn::GetAtt"]
    assert group in json.dumps(machine["DefinitionString"])


def test_what_measures_may_start_the_stopper_where_it_is_told_to(each: Synthesised) -> None:
    allowed = {
        consumer: listed(statement["Resource"])
        for consumer, statement in statements(each)
        if statement.get("Sid") == "StopNodes"
    }
    assert each.experiment.capacity.stops_after_run
    ((consumer, (resource,)),) = allowed.items()
    assert consumer == ("Sweep" if each.experiment.sweep else "Benchmark")
    name = f"stateMachine:{each.experiment.name}-stop"
    assert json.dumps(resource).rstrip('"]}').endswith(name)
    ((_, machine),) = each.resources("AWS::StepFunctions::StateMachine")
    assert f"stateMachine:{machine['Properties']['StateMachineName']}" == name
    (config,) = (
        json.loads(config_map["data"]["config.json"])
        for config_map in each.objects("ConfigMap")
        if "config.json" in config_map["data"]
    )
    assert config["stopper"] == stopper_arn(each.experiment, ACCOUNT)
    assert config["stopper"].endswith(name)
