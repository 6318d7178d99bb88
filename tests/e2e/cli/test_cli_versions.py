"""Earlier versions of objects as the source of a copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_process import MIB, Cli, Places

from support.proxy import Proxy
from support.servers import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.every_server


@pytest.fixture
def versioned(cli: Cli, s3server: S3Server, make_bucket: Callable[..., str]) -> Places:
    """A source with versions, and a target without, on each server in turn."""
    cli.server = s3server
    return Places(s3server, make_bucket(s3server, versioned=True), make_bucket(s3server))


def _put(places: Places, key: str, *bodies: bytes, **options: Any) -> list[str]:
    """The version ids of an object that was written so often, oldest first."""
    return [
        places.s3.put_object(Bucket=places.source, Key=f"run42/{key}", Body=body, **options)["VersionId"]
        for body in bodies
    ]


def test_a_version_is_copied_though_others_came_after_it(cli: Cli, versioned: Places) -> None:
    first, _ = _put(versioned, "a", b"first", b"second", Tagging="kept=yes")
    large, _ = _put(versioned, "large", b"l" * (6 * MIB), b"small")
    versioned.s3.delete_object(Bucket=versioned.source, Key="run42/a")
    source, target = versioned.uris

    ran = cli.run("cp", f"{source}a", f"{target}a", "--version-id", first, "--json")

    assert ran.code == 0, ran.err
    assert versioned.content() == {"a": b"first"}
    tags = versioned.s3.get_object_tagging(Bucket=versioned.target, Key="archive/a")["TagSet"]
    assert tags == [{"Key": "kept", "Value": "yes"}]
    parts = ("--part-size", "5MiB", "--copy-threshold", "5MiB")
    ran = cli.run("cp", f"{source}large", target, "--version-id", large, *parts)
    assert ran.code == 0, ran.err
    assert versioned.content()["large"] == b"l" * (6 * MIB)
    again = cli.run("cp", f"{source}a", f"{target}a", "--version-id", first, "--json")
    assert (again.code, again.events[-1]["objects_skipped"]) == (0, 1), again.err
    shown = cli.run("cp", f"{source}large", f"{target}new", "--version-id", large, "--dry-run", "--json")
    assert (shown.code, shown.events[-1]["bytes"]) == (0, 6 * MIB), shown.err


def test_a_version_goes_to_a_file_and_to_standard_output(cli: Cli, versioned: Places, tmp_path: Path) -> None:
    first, _ = _put(versioned, "a", b"first", b"second")
    source = versioned.uris[0]

    ran = cli.run("cp", f"{source}a", str(tmp_path / "a"), "--version-id", first)

    assert ran.code == 0, ran.err
    assert (tmp_path / "a").read_bytes() == b"first"
    assert cli.run("cp", f"{source}a", "-", "--version-id", first).out == "first"


def test_a_version_becomes_the_current_one_of_its_object(cli: Cli, versioned: Places) -> None:
    first, _ = _put(versioned, "a", b"first", b"second")
    key = f"{versioned.uris[0]}a"

    ran = cli.run("cp", key, key, "--version-id", first)

    assert ran.code == 0, ran.err
    assert versioned.s3.get_object(Bucket=versioned.source, Key="run42/a")["Body"].read() == b"first"
    assert cli.run("cp", key, key).code == 2


def test_rows_of_a_list_name_versions(cli: Cli, versioned: Places, tmp_path: Path) -> None:
    first, second, _ = _put(versioned, "a", b"first", b"second", b"third")
    _put(versioned, "b", b"b")
    listed = tmp_path / "keys.csv"
    listed.write_text(f"key,version_id,target_key\na,{first},a.1\na,{second},a.2\nb\n")

    ran = cli.run("cp", "--files-from", str(listed), *versioned.uris, "--json")

    assert ran.code == 0, ran.err
    assert versioned.content() == {"a.1": b"first", "a.2": b"second", "b": b"b"}
    rows = cli.run("report", ran.events[-1]["id"], "--format", "json").out
    assert first in rows
    assert second in rows
    listed.write_text(f"a,{first}\na,{second}\n")
    collided = cli.run("cp", "--files-from", str(listed), *versioned.uris)
    assert collided.code == 2
    assert f"'a' (version {first}) and 'a' (version {second}) would both become" in collided.err
    listed.write_text(f"a,{first},x\na,,y\n")
    mixed = cli.run("cp", "--files-from", str(listed), *versioned.uris)
    assert (mixed.code, "with and without a version id" in mixed.err) == (2, True)


def test_a_version_that_is_not_there_is_named_and_nothing_arrives(cli: Cli, versioned: Places, tmp_path: Path) -> None:
    first, _ = _put(versioned, "a", b"first", b"second")
    versioned.s3.delete_object(Bucket=versioned.source, Key="run42/a", VersionId=first)
    source, target = versioned.uris
    listed = tmp_path / "keys.csv"
    listed.write_text(f"a,{first}\n")

    one = cli.run("cp", f"{source}a", target, "--version-id", first)
    several = cli.run("cp", source, target, "--files-from", str(listed))

    assert (one.code, several.code) == (2, 1), one.err + several.err
    assert f"There is no version {first} of {source}a" in one.err
    assert f"a (version {first})" in several.err
    assert versioned.content() == {}


def test_a_delete_marker_is_refused_as_what_it_is(cli: Cli, versioned: Places) -> None:
    _put(versioned, "a", b"first")
    marker = versioned.s3.delete_object(Bucket=versioned.source, Key="run42/a")["VersionId"]

    ran = cli.run("cp", f"{versioned.uris[0]}a", versioned.uris[1], "--version-id", marker)

    assert ran.code in (1, 2), ran.err
    assert "delete marker" in ran.err or "There is no version" in ran.err
    assert versioned.content() == {}


def test_a_version_that_was_submitted_is_copied_by_whoever_goes_on(cli: Cli, versioned: Places) -> None:
    first, _ = _put(versioned, "a", b"first", b"second")
    command = ("cp", f"{versioned.uris[0]}a", f"{versioned.uris[1]}a", "--version-id", first)
    submitted = cli.run(*command, "--detach")
    assert submitted.code == 0, submitted.err
    _put(versioned, "a", b"third")

    ran = cli.run("resume", submitted.out.strip())

    assert ran.code == 0, ran.err
    assert versioned.content() == {"a": b"first"}


@pytest.fixture
def histories(cli: Cli, s3server: S3Server, make_bucket: Callable[..., str]) -> Places:
    """A source and a target with versions, on each server in turn."""
    cli.server = s3server
    return Places(s3server, make_bucket(s3server, versioned=True), make_bucket(s3server, versioned=True))


def _history(places: Places, bucket: str, prefix: str) -> dict[str, list[bytes]]:
    """The contents of all versions by key, oldest first, without delete markers."""
    found: dict[str, list[bytes]] = {}
    listed = places.s3.list_object_versions(Bucket=bucket, Prefix=prefix)
    assert not listed["IsTruncated"]
    for one in listed.get("Versions", []):
        answer = places.s3.get_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
        found.setdefault(one["Key"].removeprefix(prefix), []).insert(0, answer["Body"].read())
    return found


def test_whole_histories_are_copied_in_their_order_and_go_on(cli: Cli, histories: Places) -> None:
    contents = {
        "a": [b"one", b"two", b"two", b"one"],
        "b": [b"only"],
        "d/large": [b"l" * (6 * MIB), b"small"],
        "gone": [b"before"],
    }
    for key, bodies in contents.items():
        _put(histories, key, *bodies)
    histories.s3.delete_object(Bucket=histories.source, Key="run42/gone")
    command = ("cp", "--all-versions", *histories.uris, "--part-size", "5MiB", "--copy-threshold", "5MiB", "--json")

    shown = cli.run(*command, "--dry-run")
    ran = cli.run(*command)

    assert (shown.code, ran.code) == (0, 0), shown.err + ran.err
    assert _history(histories, histories.target, "archive/") == contents
    assert (ran.events[-1]["objects_done"], ran.events[-1]["objects_skipped"]) == (8, 1)
    rows = cli.run("status", ran.events[-1]["id"], "--json").out
    assert "Traceback" not in rows
    report = cli.run("report", ran.events[-1]["id"], "--format", "json").out
    assert "DeleteMarker" in report
    verified = cli.run("verify", ran.events[-1]["id"], "--content", "--json")
    assert (verified.code, verified.events[-1]["objects"], verified.events[-1]["content"]) == (0, 4, 4), verified.out
    again = cli.run(*command)
    assert (again.code, again.events[-1]["objects_done"]) == (0, 0), again.err
    assert _history(histories, histories.target, "archive/") == contents
    _put(histories, "a", b"five")
    more = cli.run(*command)
    assert (more.code, more.events[-1]["objects_done"]) == (0, 1), more.err
    assert _history(histories, histories.target, "archive/")["a"] == [*contents["a"], b"five"]


def _put_in_parts(places: Places, bucket: str, key: str, *parts: bytes) -> None:
    upload = places.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    named = {"Bucket": bucket, "Key": key, "UploadId": upload}
    ended = [
        {"PartNumber": number, "ETag": places.s3.upload_part(**named, PartNumber=number, Body=body)["ETag"]}
        for number, body in enumerate(parts, 1)
    ]
    places.s3.complete_multipart_upload(**named, MultipartUpload={"Parts": ended})


def test_versions_that_were_cut_into_other_parts_are_on_record_as_compared_by_size(cli: Cli, histories: Places) -> None:
    _put(histories, "a", b"one")
    _put_in_parts(histories, histories.source, "run42/a", b"x" * (5 * MIB), b"x" * MIB)
    histories.s3.put_object(Bucket=histories.target, Key="archive/a", Body=b"one")
    _put_in_parts(histories, histories.target, "archive/a", b"x" * (6 * MIB))
    command = ("cp", "--all-versions", *histories.uris, "--json")

    shown = cli.run(*command, "--dry-run")
    ran = cli.run(*command)

    assert (shown.code, ran.code) == (0, 0), shown.err + ran.err
    assert [one["action"] for one in shown.events if one["event"] == "planned"] == ["skip", "skip"]
    transfer_id = ran.events[-1]["id"]
    listed = cli.run("status", transfer_id, "--objects", "--json")
    rows = [one for one in listed.events if one["event"] == "object"]
    assert [(one["state"], one["verified"]) for one in rows] == [("skipped", "etag"), ("skipped", "size")]
    assert [one["etag"] == one["target_etag"] for one in rows] == [True, False]
    looked = cli.run("verify", transfer_id, "--json")
    assert looked.code == 0, looked.out + looked.err


def test_a_history_does_not_go_on_top_of_another_one(cli: Cli, histories: Places) -> None:
    _put(histories, "a", b"one", b"two")
    histories.s3.put_object(Bucket=histories.target, Key="archive/a", Body=b"of another")

    ran = cli.run("cp", "--all-versions", f"{histories.uris[0]}a", histories.uris[1])

    assert ran.code == 1
    assert "has versions that are not those of" in ran.err
    assert _history(histories, histories.target, "archive/") == {"a": [b"of another"]}


def test_a_target_without_versions_is_named(cli: Cli, versioned: Places) -> None:
    _put(versioned, "a", b"one", b"two")

    ran = cli.run("cp", "--all-versions", *versioned.uris)

    assert ran.code == 1
    assert "keeps no versions" in ran.err


def test_a_history_is_the_same_after_kills(
    cli: Cli, histories: Places, make_proxy: Callable[[S3Server], Proxy]
) -> None:
    contents = {name: [f"{name}{number % 3}".encode() for number in range(6)] for name in ("a", "b")}
    for key, bodies in contents.items():
        _put(histories, key, *bodies)
    proxy = make_proxy(histories.server)
    cli.server = proxy.server
    command = ("cp", "--all-versions", *histories.uris)

    for copies in (1, 4, 3):
        proxy.clear_log()
        running = cli.start(*command)
        eventually(
            lambda least=copies: not running.running or len(proxy.log("CopyObject")) >= least,  # noqa: B023
            what="copies",
        )
        running.kill()
    ran = cli.run(*command)

    assert ran.code == 0, ran.err
    assert _history(histories, histories.target, "archive/") == contents


def test_a_version_is_compared_with_the_target_and_with_the_current_one(cli: Cli, versioned: Places) -> None:
    first, second = _put(versioned, "a", b"first", b"other")
    source, target = versioned.uris
    cli.run("cp", f"{source}a", f"{target}a", "--version-id", first)

    codes = {
        (to, version): cli.run("check", f"{source}a", to, "--version-id", version).code
        for to in (f"{target}a", f"{source}a")
        for version in (first, second)
    }

    assert codes == {
        (f"{target}a", first): 0,
        (f"{target}a", second): 3,
        (f"{source}a", first): 3,
        (f"{source}a", second): 0,
    }
    refused = cli.run("check", source, target, "--all-versions")
    assert (refused.code, "check takes current versions" in refused.err) == (2, True)
