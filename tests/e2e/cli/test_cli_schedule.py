"""``seqferry schedule`` through the installed command."""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli, CliResult, Places

from support.waiting import eventually


def test_a_schedule_is_added_fires_is_edited_and_removed(cli: Cli, places: Places) -> None:
    places.fill(["a", "b.log"])
    name = ("often", "--json")

    added = cli.run("schedule", "add", "* * * * * *", "sync", *places.uris, "--exclude", "*.log", "--name", "often")
    assert (added.code, added.out) == (0, "often\n"), added.err
    assert "seqferry serve" in added.err
    paused = cli.run("schedule", "pause", *name).events[0]
    assert (paused["state"], paused["next_at"]) == ("paused", None)
    now = cli.run("schedule", "run", "often")
    assert (now.code, len(now.out.strip())) == (0, 36)

    worker = cli.start("worker")
    assert cli.run("watch", now.out.strip()).code == 0
    assert set(places.arrived()) == {"a"}
    assert cli.run("schedule", "resume", *name).events[0]["state"] == "active"

    def ticked() -> list[object]:
        events = cli.run("schedule", "show", *name).events
        return [one for one in events if one["event"] == "schedule_run" and one["message"] is None]

    eventually(ticked, what="a run at its time", deadline=60.0)
    edited = cli.run("schedule", "edit", "often", "--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--json")
    assert (edited.events[0]["cron"], edited.events[0]["timezone"]) == ("0 2 * * *", "Europe/Berlin")
    assert "often" in cli.run("schedule", "list").out
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0

    assert cli.run("schedule", "rm", "often").code == 0
    shown = cli.run("schedule", "show", "often").out
    assert "removed by" in shown
    assert "becomes 0 2 * * * (Europe/Berlin)" in shown
    assert "No schedules yet" in cli.run("schedule", "list").err


def test_mistakes_are_one_line_with_the_remedy(cli: Cli, places: Places) -> None:
    places.fill(["a"])
    add = ("schedule", "add")
    cli.run(*add, "0 2 * * *", "sync", *places.uris, "--name", "nightly")

    told = {
        "not a cron expression": cli.run(*add, "61 2 * * *", "sync", *places.uris),
        "never fires": cli.run(*add, "0 2 31 2 *", "sync", *places.uris),
        "no time zone": cli.run(*add, "0 2 * * *", "sync", *places.uris, "--timezone", "Mars/Olympus"),
        "seqferry schedule rm nightly": cli.run(*add, "0 2 * * *", "cp", *places.uris, "--name", "nightly"),
        "use cp, sync, mv, check, verify or cleanup": cli.run(*add, "0 2 * * *", "rm", places.uris[0]),
        "not standard input": cli.run(*add, "0 2 * * *", "cp", *places.uris, "--files-from", "-"),
        "--max-bandwidth": cli.run(*add, "0 2 * * *", "cp", *places.uris, "--max-bandwidth", "1MB"),
        "has not ended": cli.run(*add, "0 2 * * *", "verify", cli.run("schedule", "run", "nightly").out.strip()),
        "--no-such": cli.run(*add, "0 2 * * *", "sync", *places.uris, "--no-such"),
        "seqferry schedule list": cli.run("schedule", "pause", "other"),
        "give --cron or --timezone": cli.run("schedule", "edit", "nightly"),
    }
    for words, ran in told.items():
        assert ran.code in (1, 2), ran
        assert words in ran.err
        assert len(ran.err.strip().splitlines()) == 1, ran.err
        assert ran.err.startswith("seqferry: "), ran.err


def _added(cli: Cli, places: Places, name: str, line: str, **more: str) -> None:
    added = cli.run("schedule", "add", "@yearly", *places.words(line, **more), "--name", name)
    assert (added.code, added.out) == (0, f"{name}\n"), added.err


def _run(cli: Cli, name: str, code: int = 0) -> str:
    """Run a schedule now, and follow its transfer to its end."""
    transfer = cli.run("schedule", "run", name).out.strip()
    watched = cli.run("watch", transfer)
    assert watched.code == code, watched.err
    return transfer


def _runs(cli: Cli, name: str) -> list[dict[str, Any]]:
    shown = cli.run("schedule", "show", name, "--json").events
    return [one for one in reversed(shown) if one["event"] == "schedule_run"]


@pytest.mark.every_server
def test_each_run_reads_its_list_and_has_its_digest_on_record(cli: Cli, places: Places, tmp_path: Path) -> None:
    places.fill(["a", "b", "c"])
    keys = tmp_path / "keys.csv"
    keys.write_text("key,target_key\na,one\n")
    _added(cli, places, "listed", "cp SRC DST --files-from KEYS", KEYS=str(keys))
    cli.start("worker")

    transfers = [_run(cli, "listed")]
    keys.write_text("b\nc\n")
    transfers.append(_run(cli, "listed"))
    assert set(places.arrived()) == {"one", "b", "c"}
    digests = [hashlib.sha256(text).hexdigest() for text in (b"key,target_key\na,one\n", b"b\nc\n")]
    assert [one["list_sha256"] for one in _runs(cli, "listed")] == digests
    for transfer, digest in zip(transfers, digests, strict=True):
        assert digest in cli.run("report", transfer, "--format", "json").out

    keys.write_bytes(b"a\n\xff\n")
    damaged = cli.run("schedule", "run", "listed")
    keys.unlink()
    missing = cli.run("schedule", "run", "listed")
    for failed, words in ((damaged, "line 2"), (missing, "No such file")):
        assert (failed.code, words in failed.err, len(failed.err.strip().splitlines())) == (1, True, 1), failed.err
    assert hashlib.sha256(b"a\n\xff\n").hexdigest() in damaged.err
    keys.write_text("a\n")
    _run(cli, "listed")
    assert [one["outcome"] for one in _runs(cli, "listed")] == [
        "submitted",
        "submitted",
        "failed",
        "failed",
        "submitted",
    ]
    assert f"list      {keys}" in cli.run("schedule", "show", "listed").out
    assert cli.run("audit", "verify").code == 0


@pytest.mark.every_server
def test_moves_checks_verifications_and_cleanups_are_scheduled(cli: Cli, places: Places) -> None:
    places.fill(["a", "b"])
    _added(cli, places, "moves", "mv SRC DST --exclude *b")
    _added(cli, places, "checks", "check SRC DST --one-way --tpslimit 1000")
    upload = places.s3.create_multipart_upload(Bucket=places.target, Key="archive/left")["UploadId"]
    _added(cli, places, "cleanups", f"cleanup s3://{places.target}/archive/ --older-than 0s --yes")
    cli.start("worker")

    moved = _run(cli, "moves")
    assert (places.left(), set(places.arrived())) == (["b"], {"a"})
    _run(cli, "checks", code=3)
    _added(cli, places, "verifications", f"verify {moved} --content")
    _run(cli, "verifications")
    places.s3.put_object(Bucket=places.target, Key="archive/a", Body=b"changed")
    _run(cli, "verifications", code=3)
    _run(cli, "cleanups")

    assert upload not in [one["UploadId"] for one in _open_uploads(places)]
    operations = {one["name"]: one["operation"] for one in cli.run("schedule", "list", "--json").events}
    assert operations == {"moves": "move", "checks": "check", "cleanups": "cleanup", "verifications": "verify"}
    assert [one["outcome"] for one in _runs(cli, "verifications")] == ["submitted", "submitted"]


def _open_uploads(places: Places) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = places.s3.list_multipart_uploads(Bucket=places.target).get("Uploads", [])
    return found


@pytest.mark.every_server
def test_checks_and_verifications_select_as_copies_do(cli: Cli, places: Places) -> None:
    places.fill(["a", "b", "c"])
    copied = cli.run("cp", *places.uris, "--rename", "s/^/x-/", "--json")
    transfer = copied.events[0]["id"]
    places.s3.put_object(Bucket=places.target, Key="archive/x-b", Body=b"changed")

    def checked(*options: str) -> CliResult:
        return cli.run("check", *places.uris, "--rename", "s/^/x-/", *options)

    assert (checked("--one-way").code, checked("--one-way").out) == (3, "* b\n")
    assert checked("--one-way", "--exclude", "b").code == 0
    assert "--one-way" in checked().err
    assert checked("--one-way", "--if-exists", "skip").code == 3, "a rule for copies skips no comparison"

    def verified(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = cli.run("verify", transfer, *options, "--json").events[-1]
        return {name: found[name] for name in ("objects", "same", "changed", "exit_code")}

    assert verified() == {"objects": 3, "same": 2, "changed": 1, "exit_code": 3}
    assert verified("--exclude", "*b") == {"objects": 2, "same": 2, "changed": 0, "exit_code": 0}
    assert verified("--content", "--exclude", "*", "--include", "x-b")["changed"] == 1
    assert verified("--min-size", "1MiB") == {"objects": 0, "same": 0, "changed": 0, "exit_code": 4}
    assert "verify takes names from the record" in cli.run("verify", transfer, "--rename", "s/a/b/").err
