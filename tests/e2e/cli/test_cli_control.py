"""Pause, resume, retry, set, watch and the same for many, as a person at a terminal does them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from cli_process import MIB, SLOW, Cli, Places, id_of

from support.proxy import Proxy, access_denied, archived, held
from support.servers import S3Server
from support.waiting import eventually


@pytest.fixture
def proxy(cli: Cli, seaweedfs_places: Places, make_proxy: Callable[[S3Server], Proxy]) -> Proxy:
    """The storage as the command reaches it."""
    made = make_proxy(seaweedfs_places.server)
    cli.server = made.server
    return made


def test_a_running_cp_is_paused_changed_and_goes_on_by_orders_of_others(
    cli: Cli, seaweedfs_places: Places, proxy: Proxy
) -> None:
    seaweedfs_places.fill_slow(2, 15 * MIB)
    with held(proxy, "UploadPartCopy"):
        process = cli.start("cp", *seaweedfs_places.uris, *SLOW)
        transfer_id = id_of(process)
        proxy.wait_held()

        paused = cli.run("pause", transfer_id[:8])

        assert paused.code == 0, paused.err
        assert f"seqferry resume {transfer_id}" in paused.err
        eventually(lambda: "Paused. Continue with" in process.stderr, what="the note of the pause")
    assert cli.status(transfer_id)["state"] == "paused"
    assert "It is paused." in cli.run("status", transfer_id).out
    changed = cli.run(
        "set",
        transfer_id,
        "--max-bandwidth",
        "50MB",
        "--max-requests",
        "9",
        "--tpslimit",
        "40",
        "--priority",
        "-3",
        "--json",
    )
    assert (changed.code, cli.status(transfer_id)["max_bandwidth"]) == (0, "50MB")
    assert "bandwidth 50MB, at most 40 requests started per second" in cli.run("status", transfer_id).out

    assert cli.run("resume", transfer_id, "--detach").code == 0

    assert process.wait(120) == 0, str(process)
    assert len(seaweedfs_places.arrived()) == 2
    watched = cli.run("watch", transfer_id)
    assert (watched.code, "Done: 2 objects" in watched.err) == (0, True)


def test_what_has_failed_is_copied_by_retry_alone(cli: Cli, seaweedfs_places: Places, proxy: Proxy) -> None:
    seaweedfs_places.fill(["a", "b", "c"])
    rule = proxy.rule("CopyObject", access_denied(), key="*b")
    ran = cli.run("cp", *seaweedfs_places.uris)
    assert ran.code == 1
    retry = re.search(r"seqferry (retry [\w-]+)", ran.err)
    assert retry is not None, ran.err
    proxy.remove_rule(rule)

    again = cli.run(*retry[1].split())

    assert again.code == 0, again.err
    assert "Done: 1 object in" in again.err
    assert set(seaweedfs_places.arrived()) == {"a", "b", "c"}
    nothing = cli.run(*retry[1].split())
    assert (nothing.code, "Nothing is left" in nothing.err) == (1, True)


def test_what_has_failed_for_one_cause_is_copied_by_a_retry_of_that_cause(
    cli: Cli, seaweedfs_places: Places, proxy: Proxy
) -> None:
    seaweedfs_places.fill(["a", "b", "c"])
    rule = proxy.rule("CopyObject", access_denied(), key="*b")
    proxy.rule("CopyObject", archived(), key="*c")
    ran = cli.run("cp", *seaweedfs_places.uris, "--json")
    proxy.remove_rule(rule)
    end = ran.events[-1]

    unknown = cli.run("retry", end["id"], "--cause", "NoSuchThing")
    again = cli.run("retry", end["id"], "--cause", "AccessDenied")

    assert {one["error_code"] for one in end["failures"]} == {"AccessDenied", "InvalidObjectState"}
    assert unknown.code == 1
    assert "Its causes: " in unknown.err
    assert all(f"{one['error_code']} ({one['operation']}: {one['id']})" in unknown.err for one in end["failures"])
    assert (again.code, "1 failure" in again.err) == (1, True), again.err
    assert set(seaweedfs_places.arrived()) == {"a", "b"}


def test_many_at_once_need_a_word_on_which(cli: Cli, seaweedfs_places: Places) -> None:
    seaweedfs_places.fill(["a"])
    source, target = seaweedfs_places.uris
    ids = [cli.run("cp", source, f"{target}{name}/", "--detach").out.strip() for name in ("one", "two", "three")]

    assert cli.run("cancel").code == 2
    assert cli.run("cancel", ids[0], "--all").code == 2
    assert cli.run("set", "--all").code == 2
    assert cli.run("pause", "--prefix", f"{target}t").code == 0
    assert [cli.status(one)["state"] for one in ids] == ["queued", "paused", "paused"]
    assert cli.run("resume", "--state", "paused", "--prefix", f"{target}two", "--detach").code == 0
    assert cli.run("cancel", "--all").code == 0
    assert [cli.status(one)["state"] for one in ids] == ["cancelled"] * 3
    assert cli.run("cancel", "--all").code == 4
    assert seaweedfs_places.arrived() == {}
