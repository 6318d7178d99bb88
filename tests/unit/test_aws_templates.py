"""Templates for AWS: rights, ports, alarms, and that what their machines run fits together.

cfn-lint and moto: ``e2e/test_aws_lint.py``; the machines: ``e2e/test_aws_machines.py``.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import subprocess
from typing import Any

import pytest

from seqferry.api.gateway_metrics import METRICS
from seqferry.model.permissions import Extra, PolicyRequest, PolicyScope, policy
from support.cloudformation import TEMPLATES, Template, script
from support.run import ROOT

KEY = "arn:aws:kms:eu-central-1:123456789012:key/abc"
PUBLISH = runpy.run_path(str(TEMPLATES / "publish.py"))
MACHINES = {
    "gateway": Template("gateway", {}).properties("Instance")["UserData"],
    "server": Template("fleet", {}).properties("Server")["UserData"],
    "worker": Template("fleet", {}).properties("WorkerMachine")["LaunchTemplateData"]["UserData"],
}


def rights(template: Template) -> dict[str, Any]:
    """The policies for storage, joined. Each role of the template has all of them."""
    found = [*template.of_type("AWS::IAM::ManagedPolicy").values(), *template.of_type("AWS::IAM::Policy").values()]
    roles = template.of_type("AWS::IAM::Role")
    for one in found:
        assert one.get("Roles", list(roles)) == list(roles)
    return {
        "Version": "2012-10-17",
        "Statement": [statement for one in found for statement in one["PolicyDocument"]["Statement"]],
    }


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize(("access", "extras"), [("read-only", []), ("read-write", ["writing"])])
def test_a_gateway_has_the_rights_that_iam_policy_prints(access: str, extras: list[Extra], key: str | None) -> None:
    template = Template("gateway", {"Bucket": "b", "Prefix": "p/", "Access": access, "KmsKeyArn": key or ""})
    need = PolicyRequest("gateway", PolicyScope("b", "p/"), None, extras=frozenset(extras), source_key=key)

    assert rights(template) == policy(need)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_fleet_has_the_rights_that_iam_policy_prints(key: str | None) -> None:
    parameters = {"SourceBucket": "v", "SourcePrefix": "in/", "TargetBucket": "o", "TargetPrefix": ""}
    template = Template("fleet", {**parameters, "SourceKmsKeyArn": key or "", "TargetKmsKeyArn": key or ""})
    need = PolicyRequest("copy", PolicyScope("v", "in/"), PolicyScope("o", ""), source_key=key, target_key=key)

    assert rights(template) == policy(need)


@pytest.mark.parametrize(("name", "roles"), [("gateway", 1), ("fleet", 2)])
def test_roles_may_do_little_beside(name: str, roles: int) -> None:
    found = Template(name, {}).of_type("AWS::IAM::Role")
    statements = [
        one for role in found.values() for inline in role["Policies"] for one in inline["PolicyDocument"]["Statement"]
    ]

    assert len(found) == roles
    assert {one["Action"] for one in statements} <= {
        "cloudwatch:PutMetricData",
        "secretsmanager:GetSecretValue",
        "autoscaling:CompleteLifecycleAction",
    }
    for one in statements:
        assert one["Resource"] != "*" or one["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Seqferry"}}


def open_ports(template: Template, firewall: str) -> set[tuple[str, int, str]]:
    """Protocols, ports and sources that a security group admits."""
    group = f"{firewall}.GroupId"
    rules = template.properties(firewall).get("SecurityGroupIngress", [])
    rules += [one for one in template.of_type("AWS::EC2::SecurityGroupIngress").values() if one["GroupId"] == group]
    assert all(one["FromPort"] == one["ToPort"] for one in rules)
    return {
        (one["IpProtocol"], one["FromPort"], one.get("CidrIp") or one["SourceSecurityGroupId"].partition(".")[0])
        for one in rules
    }


def test_ports_are_those_that_clients_use_and_no_others() -> None:
    said = re.search(
        r"must pass (\d+) and the port of NFS \((\d+)\), TCP and UDP", (ROOT / "docs/use/gateway.md").read_text()
    )
    assert said is not None
    of_clients = {(kind, int(port), "CLIENTNETWORK") for kind in ("tcp", "udp") for port in said.groups()}

    assert open_ports(Template("gateway", {}), "Firewall") == of_clients
    ssh = open_ports(Template("gateway", {"AdminNetwork": "10.9.0.0/24"}), "Firewall") - of_clients
    assert ssh == {("tcp", 22, "10.9.0.0/24")}
    with_rds, local = Template("fleet", {}), Template("fleet", {"Database": "local"})
    page, database = ("tcp", 8080, "CLIENTNETWORK"), ("tcp", 5432, "WorkerFirewall")
    assert open_ports(with_rds, "ServerFirewall") == {page}
    assert open_ports(with_rds, "RdsFirewall") == {database, ("tcp", 5432, "ServerFirewall")}
    assert open_ports(local, "ServerFirewall") == {page, database}
    for one in (with_rds, local):
        assert open_ports(one, "WorkerFirewall") == set()
        assert "PubliclyAccessible: true" not in one.text


def test_files_that_wait_are_not_put_on_an_instance_store_and_outlive_the_stack() -> None:
    template = Template("gateway", {"Access": "read-write"})

    assert "AcknowledgedFilesAreKept" in template.text
    assert template.resources["CacheVolume"]["DeletionPolicy"] == "Snapshot"
    assert template.resources["CacheVolume"]["UpdateReplacePolicy"] == "Snapshot"
    assert not Template("gateway", {"CacheType": "instance-store"}).of_type("AWS::EC2::Volume")


@pytest.mark.parametrize("role", MACHINES)
def test_a_machine_gets_the_settings_that_its_set_up_uses(role: str) -> None:
    text = script(MACHINES[role])
    [settings] = [
        ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SETTINGS"
    ]
    setup = (TEMPLATES / "setup").read_text()
    functions = dict(re.findall(r"(?ms)^(\w+)\(\) \{\n(.*?)^\}", setup))
    used = {"ROLE", "STACK", *re.findall(r"\$\{?([A-Z][A-Z_]+)\b(?!:-)", functions[role])}
    if role != "gateway":
        used |= {*re.findall(r"\$\{?([A-Z][A-Z_]+)\b(?!:-)", functions["write_fleet_settings"])}

    assert settings["ROLE"] == role
    assert used <= set(settings)
    assert len(MACHINES[role]) < 16 * 1024


def test_the_user_data_of_all_machines_is_the_same_but_for_its_settings() -> None:
    common = {script(text).partition("# From here on as in the other machines")[2] for text in MACHINES.values()}

    assert len(common) == 1
    assert common.pop().startswith(": get the release")


def test_the_set_up_is_sound_for_bash() -> None:
    said = subprocess.run(["bash", "-n", TEMPLATES / "setup"], capture_output=True, text=True, check=False)

    assert (said.returncode, said.stderr) == (0, "")


GATEWAY = """\
# HELP seqferry_gateway_healthy 1
seqferry_gateway_healthy 1.0
seqferry_gateway_dirty_bytes{share="a"} 30.0
seqferry_gateway_dirty_bytes{share="b"} 50.0
seqferry_gateway_free_bytes{share="a"} 20.0
seqferry_gateway_free_bytes{share="b"} 20.0
seqferry_gateway_failing_files{share="a"} 2.0
seqferry_gateway_oldest_dirty_seconds{share="a"} 7.5
seqferry_gateway_oldest_dirty_seconds{share="b"} 1e+03
"""
EVENTS = [
    {"event": "worker", "kind": "serve", "alive": True},
    {"event": "worker", "kind": "worker", "alive": True},
    {"event": "worker", "kind": "worker", "alive": False},
    {"event": "autoscale", "wanted_workers": 3},
]


def test_figures_are_those_of_all_shares_and_of_the_fleet() -> None:
    fleet: dict[str, float] = PUBLISH["fleet_figures"]("".join(f"{json.dumps(one)}\n" for one in EVENTS))

    assert PUBLISH["gateway_figures"](GATEWAY) == {
        "Healthy": 1.0,
        "FailingFiles": 2.0,
        "OldestDirtySeconds": 1000.0,
        "CachePercentDirty": 80.0,
    }
    assert PUBLISH["gateway_figures"]("seqferry_gateway_healthy 0.0\n")["CachePercentDirty"] == 0
    assert set(re.findall(r"seqferry_gateway_\w+", GATEWAY)) <= {one.name for one in METRICS}
    assert fleet == {"WantedWorkers": 3.0, "AliveWorkers": 1.0}


@pytest.mark.parametrize("name", ["gateway", "fleet"])
def test_alarms_are_about_figures_that_are_published(name: str) -> None:
    figures = {
        "gateway": PUBLISH["gateway_figures"](GATEWAY),
        "fleet": PUBLISH["fleet_figures"]("".join(f"{json.dumps(one)}\n" for one in EVENTS)),
    }[name]
    alarms = Template(name, {"Access": "read-write"} if name == "gateway" else {}).of_type("AWS::CloudWatch::Alarm")
    sources: list[dict[str, Any]] = [
        metric
        for alarm in alarms.values()
        for metric in (
            [one["MetricStat"]["Metric"] for one in alarm["Metrics"] if "MetricStat" in one]
            if "Metrics" in alarm
            else [alarm]
        )
        if metric["Namespace"] == "Seqferry"
    ]

    assert {one["MetricName"] for one in sources} == set(figures)
    assert all(one["Dimensions"] == [{"Name": "Stack", "Value": "ferry"}] for one in sources)


@pytest.mark.parametrize(("wanted", "present"), [(w, p) for w in (0, 1, 2, 3, 7, 20) for p in (0, 1, 2, 5, 20)])
def test_the_group_follows_the_wanted_number_and_passes_it_never(wanted: int, present: int) -> None:
    template = Template("fleet", {})
    for _ in range(20):
        step = 0
        for name, sign in (("MoreWorkers", 1), ("FewerWorkers", -1)):
            threshold = template.properties(f"{name}Alarm")["Threshold"]
            over = wanted - present - threshold
            if sign * over < 0:
                continue
            [step] = [
                one["ScalingAdjustment"]
                for one in template.properties(name)["StepAdjustments"]
                if holds(one, over, sign)
            ]
        before, present = present, present + step
        assert min(before, wanted) <= present <= max(before, wanted)
    assert present == wanted


def holds(step: dict[str, Any], over: float, sign: int) -> bool:
    """True if a difference to the threshold is in the interval of a step: the bound nearer to 0 belongs to it."""
    low = step.get("MetricIntervalLowerBound", float("-inf"))
    high = step.get("MetricIntervalUpperBound", float("inf"))
    return low <= over < high if sign > 0 else low < over <= high
