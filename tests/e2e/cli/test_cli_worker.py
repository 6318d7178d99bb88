"""The process that does the work: this one, another one, or the next one after Ctrl-C, a kill or a cancel."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest
from cli_process import MIB, SLOW, Cli, Places, ended, id_of

from support.processes import RunningProcess
from support.proxy import Proxy, hold
from support.servers import S3Server
from support.waiting import eventually


def test_detach_prints_the_id_and_a_worker_does_it(cli: Cli, places: Places) -> None:
    places.fill(["a"])

    ran = cli.run("cp", *places.uris, "--detach")

    assert ran.code == 0
    transfer_id = ran.out.strip()
    assert len(transfer_id) == 36
    assert "seqferry worker" in ran.err
    assert cli.status(transfer_id)["state"] == "queued"
    assert transfer_id in cli.run("status").out
    assert f"seqferry resume {transfer_id}" in cli.run("status", transfer_id).out

    worker = cli.start("worker")
    watched = cli.run("watch", transfer_id[:8])

    assert watched.code == 0, watched.err
    assert "Done: 1 object in" in watched.err
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert set(places.arrived()) == {"a"}


@pytest.fixture
def held(cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]) -> Proxy:
    """Objects of three parts each, of which the storage carries out only the first few parts."""
    places.fill_slow(8, 15 * MIB)
    proxy = make_proxy(places.server)
    proxy.rule("UploadPartCopy", hold(), after=8)
    cli.server = proxy.server
    return proxy


def start_until_held(cli: Cli, places: Places, proxy: Proxy) -> tuple[RunningProcess, str]:
    """A ``cp`` of which some objects are whole at the target and the rest waits for the storage."""
    process = cli.start("cp", *places.uris, *SLOW)
    transfer_id = id_of(process)
    proxy.wait_held()
    return process, transfer_id


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGHUP], ids=["ctrl-c", "closed-terminal"])
def test_ctrl_c_ends_without_an_answer_of_the_storage_and_resume_repeats_nothing(
    cli: Cli, places: Places, held: Proxy, ending: signal.Signals
) -> None:
    process, transfer_id = start_until_held(cli, places, held)

    # The storage answers nothing until after the process has ended: waiting for it would be for ever.
    process.signal(ending)
    ran = ended(process)

    assert ran.code == 130, ran.err
    assert f"seqferry resume {transfer_id}" in ran.err
    assert f"seqferry cancel {transfer_id}" in ran.err
    assert "Traceback" not in ran.err
    before = places.arrived()
    assert len(before) < 8
    assert cli.status(transfer_id)["state"] == "running"

    held.clear_rules()
    resumed = cli.run("resume", transfer_id)

    assert resumed.code == 0, resumed.err
    after = places.arrived()
    assert len(after) == 8
    assert {key: after[key] for key in before} == before
    assert places.open_uploads() == []


def test_a_killed_cp_is_finished_by_resume(cli: Cli, places: Places, held: Proxy) -> None:
    process, transfer_id = start_until_held(cli, places, held)

    process.kill()
    before = places.arrived()
    held.clear_rules()
    resumed = cli.run("resume", transfer_id, "--json")

    assert resumed.code == 0, resumed.err
    assert resumed.events[-1]["event"] == "summary"
    after = places.arrived()
    assert len(after) == 8
    assert {key: after[key] for key in before} == before
    assert places.open_uploads() == []


@pytest.mark.every_server
def test_the_same_command_after_a_kill_goes_on_with_the_transfer(cli: Cli, places: Places, held: Proxy) -> None:
    process, transfer_id = start_until_held(cli, places, held)
    process.kill()
    before = places.arrived()
    held.clear_rules()

    again = cli.run("cp", *places.uris, *SLOW)

    assert again.code == 0, again.err
    assert f"transfer {transfer_id}\n" in again.err
    assert re.search(rf"Continuing transfer {transfer_id}, \d+ % done; --new starts another\.\n", again.err)
    assert len(cli.run("status", "--json").events) == 1
    after = places.arrived()
    assert len(after) == 8
    assert {key: after[key] for key in before} == before
    assert places.open_uploads() == []
    # Of what was copied before the kill, only the parts in flight are copied again.
    assert sum(record.took_effect for record in held.log("UploadPartCopy")) <= 8 * 3 + 2


@pytest.mark.every_server
def test_the_same_command_beside_a_running_one_follows_its_transfer(cli: Cli, places: Places, held: Proxy) -> None:
    process, transfer_id = start_until_held(cli, places, held)

    detached = cli.run("cp", *places.uris, *SLOW, "--detach", "--json")
    beside = cli.start("cp", *places.uris, *SLOW, "--json")
    beside.wait_for_output("going_on")
    waiting = cli.run("cp", *places.uris, *SLOW, "--detach", "--new")
    held.clear_rules()
    first, second = ended(process), ended(beside)

    assert (first.code, second.code) == (0, 0), second.err
    assert [event["event"] for event in detached.events] == ["submitted", "going_on"]
    assert {event["id"] for event in (*detached.events, *second.events)} == {transfer_id}
    assert len(places.arrived()) == 8
    third = cli.run("resume", waiting.out.strip(), "--json")
    end = third.events[-1]
    # It came after the other had ended: all was there. Where copies of parts carry no checksum (versitygw), part sizes
    # that the command names leave nothing to compare, and the same bytes are copied again.
    skipped = 0 if places.server.kind == "versitygw" else 8
    assert (third.code, end["objects_skipped"], end["objects_done"]) == (0, skipped, 8 - skipped)


def test_cancel_stops_a_running_cp_and_leaves_no_upload_open(cli: Cli, places: Places, held: Proxy) -> None:
    process, transfer_id = start_until_held(cli, places, held)

    cancelling = cli.start("cancel", transfer_id)
    eventually(lambda: cli.status(transfer_id)["state"] in {"cancelling", "cancelled"}, what="the order to be given")
    held.clear_rules()
    cancelled, copying = ended(cancelling), ended(process)

    assert cancelled.code == 0, cancelled.err
    assert copying.code == 1
    assert "Cancelled: " in copying.err
    assert places.open_uploads() == []
    assert len(places.arrived()) < 8

    again = cli.run("resume", transfer_id)
    assert again.code == 1
    assert "Cancelled: " in again.err


@pytest.mark.every_server
def test_cancel_without_any_worker_aborts_what_a_killed_one_left_open(cli: Cli, places: Places, held: Proxy) -> None:
    process, transfer_id = start_until_held(cli, places, held)
    process.kill()
    held.clear_rules()
    held.wait_idle()
    assert places.open_uploads()

    cancelled = cli.run("cancel", transfer_id)

    assert cancelled.code == 0, cancelled.err
    assert places.open_uploads() == []
    assert cli.status(transfer_id)["state"] == "cancelled"


def test_a_second_worker_on_the_same_folder_is_refused_in_one_line(cli: Cli) -> None:
    first = cli.start("worker")
    eventually(
        lambda: (cli.state / "worker.lock").exists() and (cli.state / "worker.lock").read_text(),
        what="the first worker",
    )

    second = cli.run("worker")

    assert second.code == 1
    assert len(second.err.splitlines()) == 1, second.err
    assert str(cli.state) in second.err
    first.signal(signal.SIGINT)
    assert first.wait(30) == 0


def test_two_cps_share_one_folder(cli: Cli, places: Places) -> None:
    places.fill([f"{number}" for number in range(5)])

    both = [cli.start("cp", places.uris[0], f"{places.uris[1]}{side}/") for side in ("l", "r")]

    for process in both:
        ran = ended(process)
        assert ran.code == 0, ran.err
    assert len(places.arrived()) == 10


def test_unknown_ids_are_told_in_one_line(cli: Cli) -> None:
    for verb in ("status", "resume", "cancel"):
        ran = cli.run(verb, "0123456789")

        assert ran.code == 1
        assert len(ran.err.splitlines()) == 1, ran.err
        assert "0123456789" in ran.err
