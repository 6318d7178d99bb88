"""``seqferry schedule`` through the installed command."""

from __future__ import annotations

import signal

from cli_process import Cli, Places

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
        "use cp or sync": cli.run(*add, "0 2 * * *", "rm", places.uris[0]),
        "--no-such": cli.run(*add, "0 2 * * *", "sync", *places.uris, "--no-such"),
        "seqferry schedule list": cli.run("schedule", "pause", "other"),
        "give --cron or --timezone": cli.run("schedule", "edit", "nightly"),
    }
    for words, ran in told.items():
        assert ran.code in (1, 2), ran
        assert words in ran.err
        assert len(ran.err.strip().splitlines()) == 1, ran.err
        assert ran.err.startswith("seqferry: "), ran.err
