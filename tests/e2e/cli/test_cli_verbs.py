"""Verbs beside those that copy; boto3 reads the effect of each.

Refused lines: ``tests/unit/cli/test_cli_usage.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from cli_process import Cli, Places

from support.servers import S3Server

KEYS = ["a.txt", "b.log", "d/c.txt"]


def test_lines_remove_what_was_meant_and_nothing_else(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    for number, (line, code, left) in enumerate(
        [
            ("rm SRCa.txt SRCb.log", 0, ["d/c.txt"]),
            ("rm -r SRC", 0, []),
            ("s3 rm SRC --recursive --only-show-errors", 0, []),
            ("rm SRC --recursive --dryrun", 0, KEYS),
            ("--dry-run rm SRC*", 0, KEYS),
            ("rm SRC --recursive --exclude * --include *.txt", 0, ["b.log"]),
            ("rm SRC*.txt", 0, ["b.log"]),
            ("rm --raw SRC*.txt", 2, KEYS),
            ("rm SRC", 2, KEYS),
            ("rm -r SRC --older-than 7d", 4, KEYS),
            ("delete SRC", 0, []),
        ]
    ):
        with subtests.test(line):
            own = places.of_case(number)
            own.fill(KEYS)

            ran = cli.run(*own.words(line))

            assert ran.code == code, ran.err
            assert own.left() == left


def test_lines_move_what_was_meant(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    for number, (line, left, arrived) in enumerate(
        [
            ("mv SRC DST --recursive", [], KEYS),
            ("moveto SRCa.txt DSTb.txt", ["b.log", "d/c.txt"], ["b.txt"]),
            ("mv SRC DST --exclude *.log", ["b.log"], ["a.txt", "d/c.txt"]),
            ("mv --dryrun SRC DST", KEYS, []),
        ]
    ):
        with subtests.test(line):
            own = places.of_case(number)
            content = own.fill(KEYS)

            ran = cli.run(*own.words(line))

            assert ran.code == 0, ran.err
            assert own.left() == left
            found = own.content()
            assert sorted(found) == arrived
            assert found.items() <= {**content, "b.txt": content["a.txt"]}.items()


def test_more_than_a_page_is_only_removed_with_a_yes(cli: Cli, seaweedfs_places: Places) -> None:
    places = seaweedfs_places
    for number in range(1001):
        places.s3.put_object(Bucket=places.source, Key=f"run42/{number:04d}", Body=b"")

    refused = cli.run("rm", "-r", places.uris[0])
    assert refused.code == 2
    assert "1,001 objects" in refused.err
    assert "--yes" in refused.err
    assert len(places.left()) == 1000  # the first page of them

    ran = cli.run("rm", "-r", "--yes", places.uris[0], "--json")
    assert ran.code == 0, ran.err
    assert ran.events[-1]["objects_done"] == 1001
    assert places.left() == []


def test_a_removed_object_is_on_record(cli: Cli, places: Places) -> None:
    places.fill(["a.txt"])
    ran = cli.run("rm", f"{places.uris[0]}a.txt", "--json")
    assert ran.code == 0, ran.err

    status = cli.run("status", ran.events[0]["id"], "--objects", "--json")

    rows = [event for event in status.events if event["event"] == "object"]
    assert [(row["source_key"], row["method"], row["state"]) for row in rows] == [("run42/a.txt", "remove", "done")]
    refused = cli.run("verify", ran.events[0]["id"])
    assert (refused.code, refused.out) == (1, "")
    assert "removed objects; nothing arrives by it, so there is nothing to verify" in refused.err


@pytest.mark.every_server
def test_two_places_are_compared_and_nothing_is_changed(cli: Cli, places: Places) -> None:
    places.fill([*KEYS, "only"])
    assert cli.run("cp", *places.uris).code == 0
    before = places.arrived()

    same = cli.run("check", *places.uris, "--combined")
    assert same.code == 0, same.err
    assert same.out.splitlines() == ["= a.txt", "= b.log", "= d/c.txt", "= only"]

    places.s3.put_object(Bucket=places.target, Key="archive/a.txt", Body=b"content of 'A.txt'")
    places.s3.put_object(Bucket=places.target, Key="archive/extra", Body=b"x")
    places.s3.delete_object(Bucket=places.target, Key="archive/only")
    differs = cli.run("check", *places.uris)

    assert differs.code == 3, differs.err
    assert sorted(differs.out.splitlines()) == ["* a.txt", "+ only", "- extra"]
    assert {name for name in places.arrived() if name in before} == {"a.txt", "b.log", "d/c.txt"}
    one_way = cli.run("check", "--one-way", *places.uris)
    assert sorted(one_way.out.splitlines()) == ["* a.txt", "+ only"]


def test_a_folder_that_is_not_there_is_not_compared(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(KEYS)

    for line in (f"check SRC {tmp_path}/none", f"check SRCa.txt {tmp_path}/none/a.txt"):
        ran = cli.run(*places.words(line))

        assert (ran.code, ran.out) == (2, ""), ran.err
        assert f"There is no folder '{tmp_path}/none'" in ran.err


def test_a_folder_is_compared_with_a_bucket(cli: Cli, places: Places, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(b"same")
    (tmp_path / "data/b").write_bytes(b"here")
    assert cli.run("cp", str(tmp_path / "data"), places.uris[1]).code == 0
    assert cli.run("check", str(tmp_path / "data"), places.uris[1]).code == 0
    places.s3.put_object(Bucket=places.target, Key="archive/b", Body=b"else")

    ran = cli.run("check", str(tmp_path / "data"), places.uris[1])

    assert (ran.code, ran.out) == (3, "* b\n"), ran.err


@pytest.mark.every_server
def test_open_uploads_are_aborted_by_age(cli: Cli, places: Places) -> None:
    upload = places.s3.create_multipart_upload(Bucket=places.target, Key="archive/left")["UploadId"]
    body = b"p" * (5 << 20)
    places.s3.upload_part(Bucket=places.target, Key="archive/left", UploadId=upload, PartNumber=1, Body=body)

    places.fill(["a", "b"])
    for words in (["--json"], [], ["--dry-run"]):
        young = cli.run("cleanup", f"s3://{places.target}", *words)
        assert young.code == 0, young.err
        assert "nearest   " not in young.err
    assert (
        f"no open upload at s3://{places.target}/ is older than 7d" in cli.run("cleanup", f"s3://{places.target}").err
    )
    assert cli.run("cleanup", f"s3://{places.target}/none/", "--older-than", "0s").code == 0
    assert len(places.open_uploads()) == 1

    seen = cli.run("cleanup", f"s3://{places.target}", "--older-than", "0s", "--dry-run", "--json")
    assert seen.code == 0, seen.err
    assert [event["bytes"] for event in seen.events] == [len(body), len(body)]
    assert len(places.open_uploads()) == 1

    ran = cli.run("cleanup", f"s3://{places.target}", "--older-than", "0s")
    assert ran.code == 0, ran.err
    assert places.open_uploads() == []


def test_what_is_removed_or_aborted_is_as_much_as_was_seen(cli: Cli, places: Places) -> None:
    places.fill(KEYS)
    for name in ("a", "b"):
        places.s3.create_multipart_upload(Bucket=places.target, Key=name)
    here, old = f"s3://{places.target}", ("--older-than", "0s")

    aborted = cli.run("cleanup", here, *old, "--expect", "3")
    assert (aborted.code, len(places.open_uploads())) == (1, 2), aborted.err
    assert f"2 uploads at {here}/ would be removed by now, and 3 were expected." in aborted.err
    assert cli.run("cleanup", here, *old, "--dry-run", "--expect", "1").code == 1
    assert cli.run("cleanup", here, *old, "--expect", "2").code == 0
    assert places.open_uploads() == []

    source = places.uris[0]
    for line in (["rm", "-r", source], ["rm", "-r", source, "--dry-run"], ["rb", f"s3://{places.source}", "--force"]):
        assert cli.run(*line, "--expect", "4").code == 1
    assert cli.run("rb", f"s3://{places.source}", "--expect", "3").code == 2
    assert cli.run("rm", f"{source}a.txt", "--expect", "0").code == 1
    assert places.left() == KEYS
    assert cli.run("rm", f"{source}a.txt", "--expect", "1").code == 0
    assert cli.run("rm", "-r", source, "--expect", "2").code == 0
    assert places.left() == []


@pytest.mark.every_server
def test_buckets_are_made_listed_and_removed(cli: Cli, s3server: S3Server) -> None:
    cli.server = s3server
    name = f"made-{hashlib.md5(str(cli.state).encode()).hexdigest()[:16]}"
    as_admin = s3server.environment(s3server.admin)  # on SeaweedFS others may make none
    made = cli.run("mb", f"s3://{name}", env=as_admin)
    assert made.code == 0, made.err
    assert name in cli.run("ls", env=as_admin).out
    assert cli.run("ls", "s3://", "--json", env=as_admin).code == 0
    again = cli.run("mb", f"s3://{name}", env=as_admin)
    client = s3server.client()
    client.put_object(Bucket=name, Key="a", Body=b"x")

    full = cli.run("rb", f"s3://{name}", env=as_admin)
    forced = cli.run("rb", f"s3://{name}", "--force", env=as_admin)

    assert full.code == 1, full.err
    assert "BucketNotEmpty" in full.err
    assert forced.code == 0, forced.err
    assert name not in [one["Name"] for one in client.list_buckets()["Buckets"]]
    assert again.code in (0, 1)


@pytest.mark.every_server
def test_a_signed_address_reads_and_writes_one_object(cli: Cli, places: Places) -> None:
    content = places.fill(["a.txt"])
    uri = f"{places.uris[0]}a.txt"

    read = cli.run("presign", uri, "--expires-in", "600")
    assert read.code == 0, read.err
    with urlopen(read.out.strip()) as answer:
        assert answer.read() == content["a.txt"]

    write = cli.run("presign", "--put", uri, "--expire", "10m")
    with urlopen(Request(write.out.strip(), data=b"new", method="PUT")) as answer:
        assert answer.status == 200
    assert places.s3.get_object(Bucket=places.source, Key="run42/a.txt")["Body"].read() == b"new"


def test_an_address_is_signed_for_one_object_that_is_there(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    places.fill(["a.txt", "closed", "odd*"])
    here = places.uris[0]
    places.server.deny(places.source, "run42/closed", actions=["s3:GetObject"])
    for line, code, said in (
        (here, 2, "is a prefix"),
        (f"{here}*.txt", 2, "not for a wildcard"),
        (f"{here}a.tx", 1, f"nearest: {here}a.txt"),
        (f"{here}a.txt --version-id 0123", 1, "a.txt"),
        ("s3://no-such-bucket-here/a", 1, "no-such-bucket-here"),
        (f"{here} --put", 2, "is a prefix"),
        (f"{here}new*.txt --put", 0, "not wildcards here"),
        (f"{here}closed", 0, "without checking"),
        (f"{here}odd*", 0, ""),
        (f"{here}a.txt", 0, ""),
        (f"{here}new.txt --put", 0, ""),
    ):
        with subtests.test(line):
            ran = cli.run("presign", *line.split())
            assert ran.code == code, ran.err
            assert said in ran.err
            assert (ran.out == "") == (code != 0)
            assert said or ran.err == ""


def test_a_range_is_printed(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    places.s3.put_object(Bucket=places.source, Key="run42/x", Body=b"0123456789")
    for line, expected in (
        ("--range 4-", "456789"),
        ("--tail 3", "789"),
        ("--range 8-100", "89"),
        ("--range 10-", None),
    ):
        with subtests.test(line):
            ran = cli.run("cat", *line.split(), f"{places.uris[0]}x")

            assert (ran.code, ran.out) == ((0, expected) if expected else (2, "")), ran.err


def test_several_objects_are_printed_in_their_order(cli: Cli, places: Places) -> None:
    bodies = {"b": b"second\n", "a": b"first\n", "empty": b""}
    for name, body in bodies.items():
        places.s3.put_object(Bucket=places.source, Key=f"run42/{name}", Body=body)
    uris = [f"{places.uris[0]}{name}" for name in bodies]

    whole = cli.run("cat", *uris, uris[0])
    copied = cli.run("cp", *uris, "-")
    ranges = cli.run("cat", "--range", "-3", *uris)

    assert whole.code == copied.code == ranges.code == 0, whole.err + ranges.err
    assert whole.out == "second\nfirst\nsecond\n"
    assert copied.out == "second\nfirst\n"
    assert ranges.out == "nd\nst\n"


def test_objects_that_a_wildcard_selects_are_printed_by_key(
    cli: Cli, places: Places, subtests: pytest.Subtests
) -> None:
    bodies = {"b.gz": "one.", "a.gz": "two.", "d/c.gz": "sub.", "x": "x", "s*r": "star", "sour": "sour"}
    for name, body in bodies.items():
        places.s3.put_object(Bucket=places.source, Key=f"run42/{name}", Body=body.encode())
    places.s3.put_object(Bucket=places.source, Key="run42/empty.gz/", Body=b"")  # what some tools write for a folder
    for line, expected in (
        ("cp SRC*.gz -", "two.one.sub."),
        ("cat SRC?.gz SRCx", "two.one.x"),
        ("cat --range 0-1 SRC*.gz", "twonsu"),
        ("cat --tail 1 SRCd/*.gz SRCx", ".x"),
        ("cat --raw SRCs*r", "star"),
        ("cat --raw --range 1-2 SRCs*r", "ta"),
        ("cp SRC* - --exclude *.gz --exclude s*", "x"),
    ):
        with subtests.test(line):
            ran = cli.run(*places.words(line))

            assert ran.code == 0, ran.err
            assert ran.out == expected


def test_a_wildcard_that_selects_nothing_prints_nothing_and_says_what_is_nearest(
    cli: Cli, places: Places, subtests: pytest.Subtests
) -> None:
    places.fill(["a.gz", "b.gz"])
    for line in ("cat --range 0-1 SRC*.gx", "cp SRC*.gx -", "cat SRCa.gz SRC*.gx"):
        with subtests.test(line):
            ran = cli.run(*places.words(line))

            assert (ran.code, ran.out) == (4, "")
            assert ran.err.startswith(f"seqferry: Nothing matches {places.uris[0]}*.gx; nearest: {places.uris[0]}")


def test_the_use_of_what_a_wildcard_selects_is_counted(cli: Cli, places: Places) -> None:
    places.fill(KEYS)

    ran = cli.run("du", f"{places.uris[0]}*.txt", "--json")

    assert ran.code == 0, ran.err
    [event] = ran.events
    assert (event["objects"], event["uri"]) == (2, f"{places.uris[0]}*.txt")
    assert cli.run("du", f"{places.uris[0]}*.bam").code == 4


def test_what_is_not_there_is_told_with_what_is(cli: Cli, places: Places, subtests: pytest.Subtests) -> None:
    places.fill(["sample.bam", "d/c"])
    for verb in ("head", "cat", "cat --range 0-1"):
        with subtests.test(verb):
            near = cli.run(*verb.split(), f"{places.uris[0]}samples.bam")
            prefix = cli.run(*verb.split(), f"{places.uris[0]}d")
            bucket = cli.run(*verb.split(), "s3://no-such-bucket-at-all/x")

            assert (near.code, prefix.code, bucket.code) == (1, 1, 1)
            assert f"nearest: {places.uris[0]}sample.bam." in near.err
            assert f"did you mean {places.uris[0]}d/ (everything below it)?" in prefix.err
            assert "NoSuchBucket" in bucket.err
            assert near.out == prefix.out == bucket.out == ""


def test_nothing_follows_an_object_that_cannot_be_printed(cli: Cli, places: Places) -> None:
    places.s3.put_object(Bucket=places.source, Key="run42/a", Body=b"first")
    uris = [f"{places.uris[0]}{name}" for name in ("a", "missing", "a")]

    whole = cli.run("cat", *uris)
    ranges = cli.run("cat", "--range", "0-", *uris)
    prefix = cli.run("cat", uris[0], places.uris[0])

    assert whole.out == "first"
    assert whole.code not in (0, 2)
    assert "missing" in whole.err
    assert (ranges.code, ranges.out) == (1, "")
    assert (prefix.code, prefix.out) == (2, "")


def test_several_heads_are_told_apart(cli: Cli, places: Places) -> None:
    uris = [f"{places.uris[0]}{name}" for name in ("b", "a")]
    for size, name in enumerate(("b", "a"), 1):
        places.s3.put_object(Bucket=places.source, Key=f"run42/{name}", Body=b"x" * size)

    told = cli.run("head", *uris, "--json")
    shown = cli.run("head", *uris)

    assert [(event["uri"], event["size"]) for event in told.events] == [(uris[0], 1), (uris[1], 2)]
    assert [line for line in shown.out.splitlines() if line.startswith("s3://")] == uris


@pytest.mark.every_server
def test_a_head_tells_what_is_known(cli: Cli, places: Places) -> None:
    places.s3.put_object(
        Bucket=places.source, Key="run42/x", Body=b"abc", ContentType="text/x-fasta", Metadata={"sample": "s1"}
    )

    ran = cli.run("head", f"{places.uris[0]}x", "--json")

    assert ran.code == 0, ran.err
    [event] = ran.events
    assert (event["size"], event["content_type"], event["metadata"]["sample"]) == (3, "text/x-fasta", "s1")
    assert event["etag"] == hashlib.md5(b"abc").hexdigest()
    assert cli.run("stat", f"{places.uris[0]}nothing").code == 1


@pytest.mark.every_server
def test_names_are_found_at_any_depth(cli: Cli, places: Places) -> None:
    places.fill(KEYS)

    wild = cli.run("ls", f"{places.uris[0]}*.txt", "--json")

    assert wild.out != ""
    assert [event["key"] for event in wild.events] == ["run42/a.txt", "run42/d/c.txt"]
    assert cli.run("ls", f"{places.uris[0]}*.bam").code == 4


def test_versions_are_removed_only_when_asked(cli: Cli, versitygw: S3Server, make_bucket: Callable[..., str]) -> None:
    cli.server = versitygw
    bucket = make_bucket(versitygw, versioned=True)
    client = versitygw.client()
    first = client.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    client.put_object(Bucket=bucket, Key="a", Body=b"2")

    assert cli.run("rm", f"s3://{bucket}/a").code == 0
    found = client.list_object_versions(Bucket=bucket)
    assert (len(found["Versions"]), len(found["DeleteMarkers"])) == (2, 1)

    assert cli.run("rm", f"s3://{bucket}/a", "--version-id", first).code == 0
    found = client.list_object_versions(Bucket=bucket)
    assert first not in [one["VersionId"] for one in found["Versions"]]

    assert cli.run("rb", f"s3://{bucket}", "--force").code == 0
    versitygw.create_bucket(bucket)  # which the fixture removes
