"""Checks the templates of deploy/aws: cfn-lint, and stacks of several parameters on moto.

    check_templates.py            lint, create, and print the types of the resources that each stack has (JSON)

Run by ``make lint-templates`` with the tools of ``cloudformation/requirements.lock`` beside this file. moto knows no
alarms, scaling policies, secrets and wait conditions: it says so, and leaves them out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Final

import boto3
from moto import mock_aws

ROOT: Final = Path(__file__).parents[1]
TEMPLATES: Final = ROOT / "deploy/aws"
REGION: Final = "eu-central-1"

_NETWORK: Final = {"ClientNetwork": "10.1.2.0/24", "VpcId": "vpc-00000000", "ImageId": "ami-12c6146b"}
_FLEET: Final = {"SourceBucket": "vendor", "TargetBucket": "ours", "SubnetIds": "subnet-00000000,subnet-00000001"}

CASES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "gateway": ("gateway", {"Bucket": "sequencing", "SubnetId": "subnet-00000000"}),
    "gateway-written": (
        "gateway",
        {
            "Bucket": "sequencing",
            "Prefix": "runs/",
            "SubnetId": "subnet-00000000",
            "Access": "read-write",
            "CacheType": "io2",
            "AdminNetwork": "10.1.9.0/24",
            "AlarmTopicArn": f"arn:aws:sns:{REGION}:123456789012:alarms",
        },
    ),
    "gateway-instance-store": (
        "gateway",
        {"Bucket": "sequencing", "SubnetId": "subnet-00000000", "CacheType": "instance-store"},
    ),
    "fleet": ("fleet", _FLEET),
    "fleet-local": ("fleet", {**_FLEET, "Database": "local"}),
}
"""Template and parameters by the name of the case; ids of networks stand for those that are made."""


def lint() -> None:
    command = [Path(sys.executable).with_name("cfn-lint"), "--regions", REGION, "--", *sorted(TEMPLATES.glob("*.yaml"))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or ran.stdout:
        sys.exit(f"cfn-lint:\n{ran.stdout}{ran.stderr}")


@mock_aws
def create(template: str, parameters: dict[str, str]) -> list[str]:
    """Types of the resources that moto makes of a template."""
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    ids = {"vpc-00000000": vpc}
    for number, zone in enumerate("ab"):
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.1.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")
        ids[f"subnet-0000000{number}"] = made["Subnet"]["SubnetId"]
    given = [
        {"ParameterKey": name, "ParameterValue": ",".join(ids.get(word, word) for word in value.split(","))}
        for name, value in {**_NETWORK, **parameters}.items()
    ]
    cloudformation = boto3.client("cloudformation", region_name=REGION)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cloudformation.create_stack(
            StackName="ferry",
            TemplateBody=(TEMPLATES / f"{template}.yaml").read_text(),
            Parameters=given,
            Capabilities=["CAPABILITY_IAM"],
        )
    [stack] = cloudformation.describe_stacks(StackName="ferry")["Stacks"]
    if stack["StackStatus"] != "CREATE_COMPLETE":
        sys.exit(f"moto: {template} is {stack['StackStatus']}.")
    found = cloudformation.list_stack_resources(StackName="ferry")["StackResourceSummaries"]
    return sorted(one["ResourceType"] for one in found if one["ResourceType"])


def main() -> None:
    lint()
    print(json.dumps({name: create(*case) for name, case in CASES.items()}, indent=1))


if __name__ == "__main__":
    main()
