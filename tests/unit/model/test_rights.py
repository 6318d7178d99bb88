"""IAM policies: what is printed for which places and options, and what the manual says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from seqferry.cli.app import application
from seqferry.model.errors import UsageError
from seqferry.model.permissions import OPERATIONS, RIGHTS, PolicyRequest, PolicyScope, policy

ROOT = Path(__file__).parents[3]
RUN = PolicyScope("vendor", "run42/")
OURS = PolicyScope("ours", "run42/")


def actions(found: dict[str, Any]) -> dict[str, set[str]]:
    return {one["Sid"]: set(one["Action"]) for one in found["Statement"]}


def resources(found: dict[str, Any]) -> dict[str, str]:
    return {one["Sid"]: one["Resource"] for one in found["Statement"]}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    application(["iam-policy"])(["iam-policy", *words], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def test_the_manual_shows_the_rights_of_a_copy() -> None:
    text = (ROOT / "docs/use/manual.md").read_text()
    table = dict(re.findall(r"^\| ((?:a single )?(?:source|target) [\w, ]+) \| (.*) \|$", text, re.MULTILINE))
    told = {where: set(re.findall(r"`(s3:\w+)`", what)) for where, what in table.items()}

    many = actions(policy(PolicyRequest("copy", RUN, OURS)))
    one = actions(policy(PolicyRequest("copy", PolicyScope("vendor", "run42/a", is_one=True), OURS)))

    assert told["source bucket"] == many["SourceBucket"]
    assert told["source objects, for both identities"] == many["SourceObjects"]
    assert told["a single source object"] == one["SourceObjects"] - many["SourceObjects"]
    assert told["target bucket"] == many["TargetBucket"]
    assert told["target objects"] | told["target objects, uploads"] == many["TargetObjects"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_named_in_the_manual_and_has_rights(operation: str) -> None:
    target = OURS if OPERATIONS[operation][1] else None

    assert actions(policy(PolicyRequest(operation, RUN, target)))["SourceBucket"] >= {"s3:ListBucket"}
    assert operation == "copy" or f"`{operation}`" in (ROOT / "docs/use/manual.md").read_text()


def test_the_identity_of_the_target_reads_the_source_of_a_copy_inside_the_storage() -> None:
    inside = actions(policy(PolicyRequest("copy", RUN, OURS), ["target"]))
    relayed = actions(policy(PolicyRequest("copy", RUN, OURS, relays=True), ["target"]))
    source = actions(policy(PolicyRequest("copy", RUN, OURS), ["source"]))

    assert inside["SourceObjects"] == {"s3:GetObject", "s3:GetObjectTagging"}
    assert "SourceBucket" not in inside
    assert {*relayed} == {"TargetBucket", "TargetObjects"}
    assert {*source} == {"SourceBucket", "SourceObjects"}


@pytest.mark.parametrize(
    ("extra", "side", "wanted"),
    [
        ("acl", "Target", {"s3:PutObjectAcl"}),
        ("object-lock", "Target", {"s3:PutObjectRetention", "s3:PutObjectLegalHold"}),
        ("object-lock", "Source", {"s3:GetObjectRetention", "s3:GetObjectLegalHold"}),
        ("restore", "Source", {"s3:RestoreObject"}),
        ("versions", "Source", {"s3:GetObjectVersion", "s3:GetObjectVersionTagging"}),
    ],
)
def test_what_an_option_needs_is_printed_with_it_alone(extra: Any, side: str, wanted: set[str]) -> None:
    plain = actions(policy(PolicyRequest("copy", RUN, OURS)))
    found = actions(policy(PolicyRequest("copy", RUN, OURS, extras=frozenset([extra]))))

    assert found[f"{side}Objects"] - plain[f"{side}Objects"] == wanted


def test_tags_and_keys_are_printed_where_they_are_used() -> None:
    without = actions(policy(PolicyRequest("copy", RUN, OURS, without_tags=True)))
    upload = actions(policy(PolicyRequest("copy", None, OURS)))
    key = "arn:aws:kms:eu-west-1:123456789012:key/abc"
    encrypted = actions(policy(PolicyRequest("copy", RUN, OURS, source_key=key, target_key=key)))
    read_alone = actions(policy(PolicyRequest("copy", RUN, OURS, source_key=key, target_key=key), ["source"]))

    assert not [one for found in without.values() for one in found if "Tagging" in one]
    assert "s3:PutObjectTagging" not in upload["TargetObjects"]
    assert encrypted["SourceKey"] == {"kms:Decrypt"}
    assert encrypted["TargetKey"] == {"kms:GenerateDataKey", "kms:Decrypt"}
    assert "TargetKey" not in read_alone


@pytest.mark.parametrize(
    ("words", "source", "target"),
    [
        (("s3://v/run/", "s3://o/x/"), "v/run/*", "o/x/*"),
        (("s3://v/run/", "s3://o/x"), "v/run/*", "o/x/*"),
        (("s3://v", "s3://o"), "v/*", "o/*"),
        (("s3://v/run/a", "s3://o/x/"), "v/run/a", "o/x/*"),
        (("s3://v/run/a", "s3://o/b"), "v/run/a", "o/b"),
        (("s3://v/run/*.bam", "s3://o/"), "v/run/*", "o/*"),
        (("s3://v/run$1/", "s3://o/what?/"), "v/run${$}1/*", "o/what${?}/*"),
        (("s3://v/run/", "s3://o/x.tar", "--operation", "pack"), "v/run/*", "o/x.tar*"),
        (("s3://v/x.tar", "s3://o/x/", "--operation", "unpack"), "v/x.tar*", "o/x/*"),
    ],
)
def test_resources_are_the_objects_that_are_meant(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], source: str, target: str
) -> None:
    found = resources(printed(capsys, *words))

    assert found["SourceObjects"] == f"arn:aws:s3:::{source}"
    assert found["TargetObjects"] == f"arn:aws:s3:::{target}"


@pytest.mark.parametrize("operation", ["gateway", "mount"])
@pytest.mark.parametrize("place", ["s3://v/run", "s3://v/run/"])
def test_what_is_served_is_all_below_the_prefix(capsys: pytest.CaptureFixture[str], operation: str, place: str) -> None:
    found = resources(printed(capsys, place, "--operation", operation))

    assert found["SourceObjects"] == "arn:aws:s3:::v/run/*"


@pytest.mark.parametrize("operation", ["gateway", "mount"])
def test_a_place_that_is_written_has_the_rights_of_a_target_and_those_to_keep_tags(operation: str) -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/abc"
    read = policy(PolicyRequest(operation, RUN, None, source_key=key))
    written = policy(PolicyRequest(operation, RUN, None, extras=frozenset(["writing"]), source_key=key))
    target = actions(policy(PolicyRequest("copy", None, RUN)))

    assert actions(read)["SourceObjects"] == {"s3:GetObject"}
    assert actions(written)["SourceBucket"] == target["TargetBucket"]
    assert actions(written)["SourceObjects"] == target["TargetObjects"] | {
        "s3:GetObjectTagging",
        "s3:PutObjectTagging",
    }
    assert actions(read)["SourceKey"] == {"kms:Decrypt"}
    assert actions(written)["SourceKey"] == {"kms:GenerateDataKey", "kms:Decrypt"}


def test_another_partition_has_other_names(capsys: pytest.CaptureFixture[str]) -> None:
    found = resources(printed(capsys, "s3://v/", "--operation", "mount", "--partition", "aws-cn"))

    assert found == {"SourceBucket": "arn:aws-cn:s3:::v", "SourceObjects": "arn:aws-cn:s3:::v/*"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("/data", "/other"), "No location is in S3"),
        (("s3://v/",), "has a target"),
        (("s3://v/", "s3://o/", "--operation", "mount"), "one place"),
        (("s3://v/", "s3://o/", "--operation", "fly"), "choose one of copy, sync"),
        (("s3://v/", "s3://o/", "--with", "wings"), "choose one of versions"),
        (("s3://v/", "s3://o/", "--with", "writing"), "choose --operation gateway or mount"),
        (("s3://v/", "/data", "--side", "target"), "on this machine"),
        (("s3://v/", "s3://o/", "--source-kms-key", "alias/key"), "not the ARN"),
        (("s3://v/", "s3://o/", "--partition", "azure cloud"), "choose aws, aws-cn"),
        (("s3:/v/", "s3://o/"), "did you mean"),
    ],
)
def test_a_request_without_sense_gets_one_line(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        application(["iam-policy"])(["iam-policy", *words], standalone_mode=False)


def test_no_action_is_in_the_table_twice() -> None:
    every = [right.action for rights in RIGHTS.values() for right in rights]

    assert len(every) == len(set(every))
