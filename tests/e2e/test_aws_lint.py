"""The templates for AWS under cfn-lint, and created on moto, which knows most of their types."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from typing import Final

import pytest

from support.run import ROOT

PYTHON: Final = ROOT / ".tools/cloudformation/bin/python"

GATEWAY: Final = {
    "AWS::EC2::Instance": 1,
    "AWS::EC2::SecurityGroup": 1,
    "AWS::IAM::InstanceProfile": 1,
    "AWS::IAM::Policy": 1,
    "AWS::IAM::Role": 1,
}
VOLUME: Final = {"AWS::EC2::Volume": 1, "AWS::EC2::VolumeAttachment": 1}
FLEET: Final = {
    "AWS::AutoScaling::AutoScalingGroup": 1,
    "AWS::EC2::Instance": 1,
    "AWS::EC2::LaunchTemplate": 1,
    "AWS::EC2::SecurityGroup": 2,
    "AWS::IAM::InstanceProfile": 2,
    "AWS::IAM::ManagedPolicy": 1,
    "AWS::IAM::Role": 2,
}
RDS: Final = {"AWS::EC2::SecurityGroup": 1, "AWS::RDS::DBInstance": 1, "AWS::RDS::DBSubnetGroup": 1}


@pytest.fixture(scope="module")
def made() -> dict[str, list[str]]:
    if not PYTHON.exists():
        missing = "cfn-lint and moto's CloudFormation are not there: run `make lint-templates`"
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    # Clean for cfn-lint, or it ends with what is said.
    ran = subprocess.run([PYTHON, ROOT / "tools/check_templates.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("case", "types"),
    [
        ("gateway", Counter(GATEWAY) + Counter(VOLUME)),
        ("gateway-written", Counter({**GATEWAY, **VOLUME, "AWS::EC2::SecurityGroupIngress": 1})),
        ("gateway-instance-store", Counter(GATEWAY)),
        ("fleet", Counter(FLEET) + Counter(RDS)),
        ("fleet-local", Counter({**FLEET, **VOLUME, "AWS::EC2::SecurityGroupIngress": 1})),
    ],
)
def test_a_stack_has_these_resources(made: dict[str, list[str]], case: str, types: Counter[str]) -> None:
    assert Counter(made[case]) == types
