"""The look that each transfer begins with: what would fail, by cause, before a byte moves and for a few requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import Cli, Places

from support.proxy import Proxy, access_denied
from support.servers import S3Server

NAMES = [f"lane{number:02d}.fq" for number in range(14)]
WRITES = ("CopyObject", "PutObject", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload")


@pytest.fixture
def proxy(cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]) -> Proxy:
    """The storage as the command reaches it."""
    made = make_proxy(places.server)
    cli.server = made.server
    return made


def _counted(proxy: Proxy) -> Counter[str]:
    proxy.wait_idle()
    return Counter(record.operation for record in proxy.log())


def _open_uploads(places: Places) -> list[str]:
    return [one["Key"] for one in places.s3.list_multipart_uploads(Bucket=places.target).get("Uploads", [])]


def test_a_transfer_without_trouble_says_nothing_and_asks_for_a_sample(cli: Cli, places: Places, proxy: Proxy) -> None:
    content = places.fill(NAMES)

    ran = cli.run("cp", *places.uris)

    assert ran.code == 0, ran.err
    assert "Preflight" not in ran.err
    assert places.content() == content
    looked = _counted(proxy)
    assert looked["CreateMultipartUpload"] == looked["AbortMultipartUpload"] == 1
    assert _open_uploads(places) == []


def test_causes_are_told_at_once_and_the_others_go_on(cli: Cli, places: Places, proxy: Proxy) -> None:
    content = places.fill(NAMES)
    proxy.rule("GetObject", access_denied(), bucket=places.source, key="run42/lane0*")

    ran = cli.run("cp", *places.uris, "--json")

    events = [one["event"] for one in ran.events]
    [told] = [one for one in ran.events if one["event"] == "preflight"]
    [cause] = told["causes"]
    assert (cause["error_code"], cause["operation"]) == ("AccessDenied", "GetObject")
    assert 5 <= cause["count"] == told["objects_failed"] < told["looked_up"] == 10
    assert cause["advice"]
    assert cause["keys"][0] == "run42/lane00.fq"
    assert not told["stopped"]
    assert events.index("preflight") < events.index("summary")
    arrived = places.content()
    assert {name: content[name] for name in NAMES[10:]}.items() <= arrived.items()
    again = cli.run("cp", *places.uris, "--new", "--if-exists", "overwrite")
    assert f"would fail: {cause['count']} by AccessDenied (GetObject). The others go on." in again.err
    assert again.err.count("Preflight") == 1


def test_a_transfer_of_which_nothing_can_be_read_ends_before_a_byte_moves(
    cli: Cli, places: Places, proxy: Proxy
) -> None:
    places.fill(NAMES)
    proxy.rule("GetObject", access_denied(), bucket=places.source)

    ran = cli.run("cp", *places.uris)

    assert ran.code == 1
    assert "none of the 10 objects that were looked up can be read" in ran.err
    assert ran.err.count("Access Denied") == ran.err.count("Next: ") == 1
    assert "10 objects: AccessDenied (GetObject)" in ran.err
    counted = _counted(proxy)
    assert not any(counted[write] for write in WRITES), counted
    assert places.arrived() == {}


def test_a_target_that_refuses_writing_ends_the_transfer(cli: Cli, places: Places) -> None:
    places.fill(NAMES)
    places.server.deny(places.target, "archive/*", actions=["s3:PutObject"])

    ran = cli.run("sync", *places.uris, "--json")

    assert ran.code == 1
    [told] = [one for one in ran.events if one["event"] == "preflight"]
    assert told["stopped"]
    assert [(one["operation"], one["count"]) for one in told["causes"]] == [("CreateMultipartUpload", 14)]
    assert "refuses writing" in ran.events[-1]["error_message"]
    assert ran.events[-1]["objects"] == 0


def test_a_folder_of_a_target_that_refuses_writing_stops_nothing(cli: Cli, places: Places) -> None:
    places.fill(["a/first", *NAMES])
    places.server.deny(places.target, "archive/a/*", actions=["s3:PutObject"])

    ran = cli.run("cp", *places.uris, "--json")

    assert (ran.events[-1]["objects_done"], ran.events[-1]["objects_failed"]) == (14, 1)


def test_no_preflight_leaves_the_look_out(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(NAMES)
    proxy.rule("GetObject", access_denied(), bucket=places.source)

    ran = cli.run("cp", *places.uris, "--no-preflight", "--json")

    assert "preflight" not in [one["event"] for one in ran.events]
    assert _counted(proxy)["CreateMultipartUpload"] == 0


def test_a_few_objects_cost_no_look(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(NAMES[:10])

    ran = cli.run("cp", *places.uris)

    assert ran.code == 0, ran.err
    assert _counted(proxy)["CreateMultipartUpload"] == 0


def test_files_are_looked_at_and_nothing_of_the_probe_stays(
    cli: Cli, places: Places, proxy: Proxy, tmp_path: Path
) -> None:
    folder = tmp_path / "run42"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(name)

    ran = cli.run("cp", str(folder), places.uris[1])

    assert ran.code == 0, ran.err
    assert len(places.arrived()) == len(NAMES)
    counted = _counted(proxy)
    assert counted["CreateMultipartUpload"] == counted["AbortMultipartUpload"] == 1
    assert (counted["UploadPart"], counted["PutObject"]) == (0, len(NAMES))
    assert _open_uploads(places) == []


def test_a_full_preflight_looks_at_the_target_too(cli: Cli, places: Places) -> None:
    places.fill(["a", "b"])
    places.server.deny(places.target, "archive/*", actions=["s3:PutObject"])

    ran = cli.run("cp", *places.uris, "--preflight")

    assert ran.code == 1
    assert "2 objects: AccessDenied (CreateMultipartUpload)" in ran.err
    assert "s3:PutObject" in ran.err
    assert "Nothing was started" in ran.err


@pytest.mark.every_server
def test_a_dry_run_tries_what_the_transfer_will_do(cli: Cli, places: Places) -> None:
    places.fill([*NAMES[:5], "closed/a", "closed/b", "closed/empty"])
    places.s3.put_object(Bucket=places.source, Key="run42/closed/empty", Body=b"")
    places.server.deny(places.source, "run42/closed/*", actions=["s3:GetObject"])

    told = cli.run("cp", *places.uris, "--dry-run", "--json")
    shown = cli.run("cp", *places.uris, "--dry-run")
    quiet = cli.run("cp", *places.uris, "--dry-run", "--quiet")

    assert [one.code for one in (told, shown, quiet)] == [1, 1, 1]
    end = told.events[-1]
    assert (end["objects"], end["refused"], end["looked_up"], end["sampled"]) == (5, 3, 8, False)
    assert sum(one["count"] for one in end["causes"]) == 3
    assert {one["error_code"] for one in end["causes"]} == {"AccessDenied"}
    assert sorted(one["source_key"] for one in told.events if one["event"] == "refused") == [
        f"run42/closed/{name}" for name in ("a", "b", "empty")
    ]
    assert shown.out.count("(dry run) refuse ") == 3
    assert "3 objects would be refused" in shown.err
    assert quiet.out == ""
    assert "run42/closed/a" in quiet.err
    assert _open_uploads(places) == []
    assert places.arrived() == {}


@pytest.mark.parametrize("command", ["cp", "mv", "sync", "pack", "cp --all-versions"])
def test_each_dry_run_tries_source_and_target(cli: Cli, seaweedfs_places: Places, command: str) -> None:
    places = seaweedfs_places
    places.fill(["a", "closed/b"])
    source, target = places.uris
    if command == "pack":
        target += "x.tar"
    for bucket in (places.source, places.target):
        places.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    reads = ["s3:GetObject", "s3:GetObjectVersion"]
    places.server.deny(places.source, "run42/closed/*", actions=reads)
    places.server.deny(places.target, "archive/*", actions=["s3:PutObject"])

    ran = cli.run(*command.split(), source, target, "--dry-run", "--json")

    assert ran.code == 1, ran.err
    assert ran.events[-1]["refused"] == 1
    causes = {(one["error_code"], one["operation"]) for one in ran.events[-1]["causes"]}
    assert ("AccessDenied", "CreateMultipartUpload") in causes, causes
    assert len(causes) == 2


def test_a_key_that_may_not_be_used_is_found_though_a_look_is_allowed(cli: Cli, places: Places, proxy: Proxy) -> None:
    """A KMS key that these credentials may not use: HEAD is answered, and GET is not."""
    places.fill(NAMES[:3])
    proxy.rule("GetObject", access_denied(), bucket=places.source, key="run42/lane01*")

    ran = cli.run("cp", *places.uris, "--dry-run", "--json")
    whole = cli.run("cp", *places.uris, "--preflight", "--json")

    assert (ran.code, ran.events[-1]["refused"]) == (1, 1)
    assert whole.code == 1
    [told] = [one for one in whole.events if one["event"] == "preflight"]
    assert [(one["operation"], one["count"]) for one in told["causes"]] == [("GetObject", 1)]


def test_a_dry_run_reads_one_byte_and_leaves_nothing(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(NAMES)

    ran = cli.run("cp", *places.uris, "--dry-run")

    assert ran.code == 0, ran.err
    counted = _counted(proxy)
    assert counted["GetObject"] == len(NAMES)
    assert counted["CreateMultipartUpload"] == counted["AbortMultipartUpload"] == 1
    assert not any(counted[write] for write in WRITES), counted
    assert _open_uploads(places) == []


@pytest.mark.every_server
def test_a_denied_object_is_told_once_with_one_next_step(cli: Cli, places: Places) -> None:
    places.fill([*(f"{number:02d}.fq" for number in range(21)), "closed/a", "closed/b", "closed/c"])
    places.server.deny(places.source, "run42/closed/*", actions=["s3:GetObject"])

    ran = cli.run("cp", *places.uris)

    assert ran.code == 1
    assert "Finished with 3 failures (21 of 24 objects copied)" in ran.err
    assert ran.err.count("3 objects failed: ") == 1, ran.err
    assert ran.err.count("Next: ") == ran.err.count("seqferry retry ") == 1, ran.err
    assert "run the same" not in ran.err.lower()
    assert all(ran.err.count(f"    run42/closed/{name}\n") == 1 for name in "abc"), ran.err
