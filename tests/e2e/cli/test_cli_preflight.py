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
    proxy.rule("HeadObject", access_denied(), bucket=places.source, key="run42/lane0*")

    ran = cli.run("cp", *places.uris, "--json")

    events = [one["event"] for one in ran.events]
    [told] = [one for one in ran.events if one["event"] == "preflight"]
    [cause] = told["causes"]
    assert (cause["error_code"], cause["operation"]) == ("AccessDenied", "HeadObject")
    assert 5 <= cause["count"] == told["objects_failed"] < told["looked_up"] == 10
    assert cause["advice"]
    assert cause["keys"][0] == "run42/lane00.fq"
    assert not told["stopped"]
    assert events.index("preflight") < events.index("summary")
    arrived = places.content()
    assert {name: content[name] for name in NAMES[10:]}.items() <= arrived.items()
    again = cli.run("cp", *places.uris, "--new", "--if-exists", "overwrite")
    assert "would fail." in again.err
    assert f"{cause['count']} objects: AccessDenied (HeadObject)" in again.err
    shown = cli.run("status", told["id"])
    assert "Preflight of" in shown.out


def test_a_transfer_of_which_nothing_can_be_read_ends_before_a_byte_moves(
    cli: Cli, places: Places, proxy: Proxy
) -> None:
    places.fill(NAMES)
    proxy.rule("HeadObject", access_denied(), bucket=places.source)

    ran = cli.run("cp", *places.uris)

    assert ran.code == 1
    assert "none of the 10 objects that were looked up can be read" in ran.err
    assert "10 objects: AccessDenied (HeadObject)" in ran.err
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
    proxy.rule("HeadObject", access_denied(), bucket=places.source)

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
