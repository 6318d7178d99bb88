"""Schedules on both databases: each tick gives one transfer, whatever happens around it."""

from __future__ import annotations

import hashlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, spec_number, until_ended
from http_client import bearer, http_of
from mirror import keys

from seqferry.db import schedule_rows
from seqferry.db.tables import schedule, schedule_event, schedule_run, transfer
from seqferry.model.errors import ConflictError, NotFoundError, UsageError
from seqferry.model.models import TransferSpec
from seqferry.proof import auditing
from seqferry.service import schedules, tokens
from seqferry.service.cron import parse
from seqferry.service.schedules import ScheduleRun
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec import identity, list_files, stored
from seqferry.spec.build import build_spec
from seqferry.workflows.schedule_ticks import ScheduleReconciler
from seqferry.workflows.worker import Worker
from support.processes import RunningProcess
from support.servers import S3Server
from support.waiting import eventually

EACH_SECOND = "* * * * * *"
NIGHTLY = "0 2 * * *"

_WORKER = """
import logging, os, sys
from pathlib import Path
from seqferry.settings.config import Settings
from seqferry.service.service import Service
from seqferry.workflows.worker import run
logging.basicConfig(level=logging.INFO)
when = sys.argv[3]
submission = Service.submit_or_resume
def killed(self, *args, **options):
    if when == "before":
        os.kill(os.getpid(), 9)
    if when == "inside":
        also = options["also"]
        def then(connection, submitted):
            also(connection, submitted)
            os.kill(os.getpid(), 9)
        options["also"] = then
    done = submission(self, *args, **options)
    if when == "after":
        os.kill(os.getpid(), 9)
    return done
Service.submit_or_resume = killed
run(Settings.load(state_dir=Path(sys.argv[1]), database_url=sys.argv[2] or None))
"""


def start_process(settings: Settings, killed: str = "never") -> RunningProcess:
    """A worker in a process of its own, killed before, inside or after its first submission."""
    place = [str(settings.state_dir), settings.database_url or ""]
    return RunningProcess([sys.executable, "-c", _WORKER, *place, killed], is_preloaded=True)


@pytest.fixture
def spec(versitygw: S3Server, make_bucket: Callable[..., str]) -> TransferSpec:
    """Of one object, which is there."""
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    versitygw.client().put_object(Bucket=source, Key="run/a", Body=b"a")
    return build_spec(f"s3://{source}/run/", f"s3://{target}/in/", endpoint_url=versitygw.endpoint_url)


def runs(service: Service, name: str) -> list[ScheduleRun]:
    """The latest runs, oldest first."""
    return list(reversed(schedules.find_schedule(service, name).runs))


def age(service: Service, name: str, seconds: float) -> None:
    """Date a schedule back by so many seconds: no worker ran in that time."""
    with service.database.write() as connection:
        then = time.time() - seconds
        connection.execute(schedule.update().where(schedule.c.name == name).values(active_since=then, created_at=then))


def first_run(service: Service, name: str, *, deadline: float = 60.0) -> ScheduleRun:
    return eventually(lambda: runs(service, name), what=f"a run of {name}", deadline=deadline)[0]


def transfers_of(service: Service, run_id: str) -> int:
    with service.database.read() as connection:
        query = sa.select(sa.func.count()).where(transfer.c.idempotency_key == run_id).select_from(transfer)
        return connection.execute(query).scalar_one()


def test_a_worker_runs_what_is_due_and_each_tick_gives_one_transfer(
    service: Service, start_worker: Callable[[Service], Worker], spec: TransferSpec, versitygw: S3Server
) -> None:
    start_worker(service)
    schedules.add(service, EACH_SECOND, spec, actor="ada", name="often")

    found = eventually(
        lambda: [run for run in runs(service, "often") if run.transfer_id], what="two runs", deadline=60.0
    )
    assert found[0].outcome == "submitted"
    end = until_ended(service, str(found[0].transfer_id))
    assert (end.state, end.created_by) == ("done", "ada by schedule often")
    assert list(keys(versitygw, str(spec.target.container))) == ["in/a"]
    later = eventually(
        lambda: [run for run in runs(service, "often") if run.due_at > found[0].due_at], what="the next run"
    )
    ticks = [run.due_at for run in runs(service, "often")]
    assert later
    assert len(ticks) == len(set(ticks)), "a tick ran twice"
    assert all(tick == int(tick) for tick in ticks)


def test_a_missed_run_is_caught_up_once(
    service: Service, start_worker: Callable[[Service], Worker], spec: TransferSpec
) -> None:
    schedules.add(service, "0 0 * * *", spec, actor="ada", name="nightly")
    age(service, "nightly", 5 * 86_400)
    missed = parse("0 0 * * *", "UTC", time.time()).previous_time(time.time())

    worker = start_worker(service)
    run = first_run(service, "nightly")
    assert (run.due_at, run.outcome) == (missed, "submitted")
    until_ended(service, str(run.transfer_id))

    assert worker.stop()
    start_worker(service)
    schedules.add(service, EACH_SECOND, spec, actor="ada", name="often")
    first_run(service, "often")  # the new worker has looked at all schedules by then
    assert len(runs(service, "nightly")) == 1


def test_a_schedule_that_was_just_added_or_resumed_or_edited_catches_up_nothing(
    service: Service, start_worker: Callable[[Service], Worker], spec: TransferSpec
) -> None:
    schedules.add(service, "0 0 1 1 *", spec, actor="ada", name="new")
    schedules.add(service, "0 0 1 1 *", spec, actor="ada", name="resumed")
    schedules.add(service, "0 0 1 1 *", spec, actor="ada", name="edited")
    age(service, "resumed", 400 * 86_400)
    age(service, "edited", 400 * 86_400)
    schedules.pause(service, "resumed", actor="ada")
    schedules.resume(service, "resumed", actor="ada")
    schedules.edit(service, "edited", actor="ada", expression="0 0 2 1 *")

    start_worker(service)
    schedules.add(service, EACH_SECOND, spec, actor="ada", name="often")
    first_run(service, "often")
    assert [runs(service, name) for name in ("new", "resumed", "edited")] == [[], [], []]


def test_a_run_that_comes_too_late_is_superseded_and_says_so(service: Service) -> None:
    made = schedules.add(service, "* * * * *", ANY_SPEC, actor="ada", name="minutely")
    age(service, "minutely", 3600)
    due_at = parse("* * * * *", "UTC", time.time()).previous_time(time.time() - 300)

    run = schedules.run_due(service, made.id, "sched-1", due_at, 1)

    assert run is not None
    assert (run.outcome, run.transfer_id) == ("superseded", None)
    assert "later run" in str(runs(service, "minutely")[0].message)
    assert service.transfers() == []


def test_a_run_of_a_paused_edited_or_removed_schedule_submits_nothing(service: Service) -> None:
    made = schedules.add(service, "0 * * * *", ANY_SPEC, actor="ada", name="hourly")
    age(service, "hourly", 86_400)
    due_at = made.cron.previous_time(time.time())
    schedules.edit(service, "hourly", actor="bob", expression="30 * * * *")
    edited = schedules.run_due(service, made.id, "sched-1", due_at, 1)
    schedules.pause(service, "hourly", actor="bob")
    paused = schedules.run_due(service, made.id, "sched-2", due_at, 3)
    schedules.remove(service, "hourly", actor="bob")

    assert edited is not None
    assert paused is not None
    assert (edited.outcome, paused.outcome) == ("skipped", "skipped")
    assert schedules.run_due(service, made.id, "sched-3", due_at, 3) is None
    assert service.transfers() == []


def test_a_run_goes_on_with_the_unfinished_transfer_of_the_one_before(service: Service) -> None:
    made = schedules.add(service, EACH_SECOND, ANY_SPEC, actor="ada", name="often")
    age(service, "often", 60)
    now = float(int(time.time()))

    first = schedules.run_due(service, made.id, "sched-1", now, 1)
    second = schedules.run_due(service, made.id, "sched-2", now + 1, 1)

    assert first is not None
    assert second is not None
    assert (first.outcome, second.outcome) == ("submitted", "joined")
    assert first.transfer_id == second.transfer_id
    assert "goes on instead" in str(second.message)
    assert len(service.transfers()) == 1


def test_a_run_waits_for_another_transfer_that_writes_to_the_same_keys(service: Service) -> None:
    other = build_spec("s3://elsewhere/run/", ANY_SPEC.target.uri, endpoint_url="http://127.0.0.1:9")
    service.submit(other, actor="bob")
    made = schedules.add(service, EACH_SECOND, ANY_SPEC, actor="ada", name="often")

    run = schedules.run_due(service, made.id, "sched-1", float(int(time.time()) + 1), 1)

    assert run is not None
    assert (run.outcome, "waits for its end" in str(run.message)) == ("waiting", True)


@pytest.mark.every_database
def test_the_same_tick_twice_gives_one_run_and_one_transfer(service: Service) -> None:
    made = schedules.add(service, EACH_SECOND, ANY_SPEC, actor="ada", name="often")
    due_at = float(int(time.time()) + 1)

    assert schedules.run_due(service, made.id, "sched-1", due_at, 1) is not None
    assert schedules.run_due(service, made.id, "sched-1", due_at, 1) is None

    assert (len(service.transfers()), len(runs(service, "often"))) == (1, 1)


@pytest.mark.every_database
@pytest.mark.parametrize("killed", ["before", "inside", "after"])
def test_a_worker_that_is_killed_around_the_submission_leaves_one_transfer(
    service: Service, spec: TransferSpec, killed: str
) -> None:
    schedules.add(service, "0 0 * * *", spec, actor="ada", name="nightly")
    age(service, "nightly", 5 * 86_400)

    with start_process(service.settings, killed) as first:
        assert first.wait(60) == -signal.SIGKILL
    assert len(runs(service, "nightly")) == (1 if killed == "after" else 0)
    with start_process(service.settings):
        run = first_run(service, "nightly", deadline=90.0)
        until_ended(service, str(run.transfer_id))
        assert (run.outcome, transfers_of(service, run.id)) == ("submitted", 1)
    assert (len(service.transfers()), len(runs(service, "nightly"))) == (1, 1)


@pytest.mark.postgres
@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
def test_two_workers_fire_each_tick_once(service: Service, spec: TransferSpec) -> None:
    schedules.add(service, EACH_SECOND, spec, actor="ada", name="often")

    with start_process(service.settings), start_process(service.settings):
        eventually(lambda: len(runs(service, "often")) >= 6, what="six runs", deadline=90.0)
        schedules.pause(service, "often", actor="ada")

    found = runs(service, "often")
    ticks = [run.due_at for run in found if run.outcome != "skipped"]
    assert len(ticks) == len(set(ticks))
    with service.database.read() as connection:
        submitted = connection.execute(sa.select(sa.func.count()).select_from(transfer)).scalar_one()
    assert submitted == len({run.transfer_id for run in found if run.transfer_id})


def test_a_passing_cp_runs_no_schedule(
    sqlite_settings: Settings, spec: TransferSpec, start_worker: Callable[[Service], Worker]
) -> None:
    with Service.open(sqlite_settings) as own:
        schedules.add(own, EACH_SECOND, spec, actor="ada", name="often")
        assert start_worker(own).stop()
        ScheduleReconciler(own).reconcile()  # as a worker that was there before

        def fired() -> int:
            query = sa.text("select count(*) from workflow_status where name = 'schedule' and status = 'ENQUEUED'")
            with own.database.read() as connection:
                return connection.execute(query).scalar_one()

        before = runs(own, "often")
        passing = Worker.start(sqlite_settings, own, queue=True, own_work=True)
        try:
            until_ended(own, passing.submit(spec, actor="bob"))
            eventually(lambda: fired() >= 2, what="two ticks on the queue", deadline=60.0)
        finally:
            assert passing.stop()
        assert runs(own, "often") == before

        start_worker(own)
        eventually(lambda: len(runs(own, "often")) > len(before), what="a run by a worker", deadline=60.0)


def test_run_now_submits_at_once_and_is_on_record(service: Service) -> None:
    schedules.add(service, NIGHTLY, ANY_SPEC, actor="ada", name="nightly")
    schedules.pause(service, "nightly", actor="ada")

    run = schedules.run_now(service, "nightly", actor="bob")

    assert run.outcome == "submitted"
    assert service.status(str(run.transfer_id)).created_by == "ada by schedule nightly"
    assert [(one.kind, one.actor) for one in schedules.history(service, "nightly")] == [
        ("added", "ada"),
        ("paused", "ada"),
        ("run", "bob"),
    ]


def test_what_is_done_to_a_schedule_stays_on_record_and_a_change_of_it_is_found(service: Service) -> None:
    schedules.add(service, NIGHTLY, ANY_SPEC, actor="ada", name="nightly")
    schedules.edit(service, "nightly", actor="bob", timezone="Europe/Berlin")
    schedules.remove(service, "nightly", actor="eve")

    kinds = [(one.kind, one.actor) for one in schedules.history(service, "nightly")]
    assert kinds == [("added", "ada"), ("edited", "bob"), ("removed", "eve")]
    with pytest.raises(NotFoundError, match="schedule list"):
        schedules.find_schedule(service, "nightly")
    assert list(auditing.verify(service.database, auditing.AuditCounts())) == []

    with service.database.write() as connection:
        connection.execute(schedule_event.update().where(schedule_event.c.number == 2).values(actor="ada"))
    found = [(one.kind, one.row) for one in auditing.verify(service.database, auditing.AuditCounts())]
    assert found == [("schedule_changed", "event 2")]


def test_old_runs_are_forgotten(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_rows, "KEPT_RUNS", 3)
    made = schedules.add(service, NIGHTLY, ANY_SPEC, actor="ada", name="nightly")
    for number in range(6):
        with service.database.write() as connection:
            values: dict[str, Any] = {"due_at": float(number), "at": float(number), "outcome": "skipped"}
            connection.execute(schedule_run.insert().values(id=f"run{number}", schedule_id=made.id, **values))

    ScheduleReconciler(service).reconcile()

    assert [run.id for run in runs(service, "nightly")] == ["run3", "run4", "run5"]


def test_the_clock_changes_as_documented() -> None:
    berlin = parse("30 2 * * *", "Europe/Berlin", time.time())

    def after(text: str, count: int) -> list[str]:
        at, found = datetime.fromisoformat(text).timestamp(), list[str]()
        for _ in range(count):
            at = berlin.next_time(at)
            found.append(datetime.fromtimestamp(at, UTC).astimezone(berlin.zone).isoformat())
        return found

    assert after("2027-03-27T12:00:00+00:00", 2) == ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
    assert after("2026-10-24T12:00:00+00:00", 2) == ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]


@pytest.mark.parametrize(
    ("expression", "timezone", "named"),
    [
        ("61 * * * *", "UTC", "not a cron expression"),
        ("at night", "UTC", "not a cron expression"),
        ("H 2 * * *", "UTC", "not a cron expression"),
        ("0 2 31 2 *", "UTC", "never fires"),
        (NIGHTLY, "Mars/Olympus", "no time zone"),
        (NIGHTLY, "../../etc/passwd", "no time zone"),
    ],
)
def test_what_cannot_fire_is_refused(service: Service, expression: str, timezone: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        schedules.add(service, expression, ANY_SPEC, actor="ada", timezone=timezone)
    assert schedules.list_schedules(service) == []


@pytest.mark.every_database
def test_a_name_is_taken_once(service: Service) -> None:
    schedules.add(service, NIGHTLY, ANY_SPEC, actor="ada", name="nightly")

    with pytest.raises(ConflictError, match="schedule rm nightly"):
        schedules.add(service, NIGHTLY, spec_number(1), actor="ada", name="nightly")
    with pytest.raises(UsageError, match="cannot be the name"):
        schedules.add(service, NIGHTLY, ANY_SPEC, actor="ada", name="two words")


@pytest.fixture
def own(sqlite_settings: Settings, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    with Service.open(sqlite_settings) as opened:
        yield opened


def test_schedules_are_made_seen_and_edited_over_http(own: Service, spec: TransferSpec) -> None:
    places = {"source": spec.source.uri, "target": spec.target.uri}
    body = {"cron": NIGHTLY, "timezone": "Europe/Berlin", "name": "nightly", "transfer": places}
    with http_of(own) as http:
        made = http.post("/api/v1/schedules", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["created_by"].startswith("http ")
        again = http.post("/api/v1/schedules", json=body)
        assert (again.status_code, again.json()["code"]) == (409, "conflict")
        never = http.post("/api/v1/schedules", json=body | {"name": "x", "cron": "0 2 31 2 *"})
        assert (never.status_code, never.json()["code"]) == (400, "usage")
        assert "never fires" in never.json()["detail"]
        assert http.get("/api/v1/schedules/other").status_code == 404

        edited = http.patch("/api/v1/schedules/nightly", json={"cron": "30 3 * * *"}).json()
        assert (edited["cron"], edited["timezone"]) == ("30 3 * * *", "Europe/Berlin")
        assert http.post("/api/v1/schedules/nightly/pause").json()["next_at"] is None
        run = http.post("/api/v1/schedules/nightly/run")
        assert (run.status_code, run.json()["outcome"]) == (202, "submitted")
        assert http.get(f"/api/v1/transfers/{run.json()['transfer_id']}").json()["source"] == spec.source.uri
        assert http.post("/api/v1/schedules/nightly/resume").json()["state"] == "active"
        listed = http.get("/api/v1/schedules").json()["schedules"]
        assert [(one["name"], one["runs"][0]["outcome"]) for one in listed] == [("nightly", "submitted")]
        assert http.delete("/api/v1/schedules/nightly").status_code == 204
        history = http.get("/api/v1/schedules/nightly/history").json()["events"]
        kinds = [one["kind"] for one in history]
        assert kinds == ["added", "edited", "paused", "run", "resumed", "removed"]


def test_a_client_changes_its_own_schedules_only(own: Service, spec: TransferSpec) -> None:
    lab, core = (bearer(tokens.add(own, name, "submit", None)) for name in ("lab", "core"))
    reader = bearer(tokens.add(own, "eyes", "read", None))
    body = {"cron": NIGHTLY, "name": "x", "transfer": {"source": spec.source.uri, "target": spec.target.uri}}
    with http_of(own) as http:
        assert http.post("/api/v1/schedules", json=body, headers=reader).status_code == 403
        assert http.post("/api/v1/schedules", json=body, headers=lab).status_code == 201
        assert http.get("/api/v1/schedules/x", headers=reader).status_code == 200
        assert http.post("/api/v1/schedules/x/run", headers=core).status_code == 403
        assert http.delete("/api/v1/schedules/x", headers=core).status_code == 403
        run = http.post("/api/v1/schedules/x/run", headers=lab)
        assert run.status_code == 202
        place = f"/api/v1/transfers/{run.json()['transfer_id']}/cancel"
        assert http.post(place, headers=core).status_code == 403
        assert http.post(place, headers=lab).status_code == 202


def test_ages_count_from_each_run(service: Service) -> None:
    aged = build_spec("s3://vendor/run/", "s3://ours/aged/", endpoint_url="http://127.0.0.1:9", newer_than="7d")
    schedules.add(service, NIGHTLY, aged, actor="ada", name="aged")
    before = time.time()

    run = schedules.run_now(service, "aged", actor="ada")

    as_of = service.status(str(run.transfer_id)).spec.as_of
    assert as_of is not None
    assert as_of >= before > (aged.as_of or 0.0)


@pytest.mark.every_database
def test_a_run_has_the_keys_of_its_list_and_one_event_for_each_other_list(settings: Settings, tmp_path: Path) -> None:
    listed = tmp_path / "keys"
    listed.write_text("a\n")
    spec = build_spec("s3://vendor/run/", "s3://ours/in/", keys=["a"], endpoint_url="http://127.0.0.1:9")
    with Service.open(replace(settings, shared_folders=(str(tmp_path),))) as own:
        deferred = list_files.defer(identity.resolve(spec), str(listed), "lines")
        made = schedules.add(own, EACH_SECOND, deferred, actor="ada", name="listed")
        assert (made.spec.keys, made.spec.files_from) == (None, str(listed))
        now = float(int(time.time()) + 1)

        done = [schedules.run_due(own, made.id, f"sched-{number}", now + number, 1) for number in range(2)]
        listed.write_text("b\n")
        done.append(schedules.run_due(own, made.id, "sched-2", now + 2, 1))
        listed.unlink()
        done.append(schedules.run_due(own, made.id, "sched-3", now + 3, 1))

        assert [run.outcome for run in done if run is not None] == ["submitted", "joined", "submitted", "failed"]
        first, second = (hashlib.sha256(text).hexdigest() for text in (b"a\n", b"b\n"))
        assert [run.list_sha256 for run in runs(own, "listed")] == [first, first, second, None]
        transfers = [str(run.transfer_id) for run in runs(own, "listed")[:3]]
        assert [own.status(one).spec.keys for one in transfers] == [("a",), ("a",), ("b",)]
        events = [one for one in own.events(transfers[0]) if one.kind == "list_read"]
        assert [one.data["sha256"] for one in events] == [first]
        assert list(auditing.verify(own.database, auditing.AuditCounts())) == []


def test_any_worker_reads_only_lists_of_shared_folders(tmp_path: Path) -> None:
    spec = replace(ANY_SPEC, files_from=str(tmp_path / "keys"))
    fleet = Settings(state_dir=tmp_path, database_url="postgresql://localhost/x", shared_folders=(str(tmp_path),))

    list_files.check_shared(spec, fleet)
    with pytest.raises(UsageError, match="shared_folders"):
        list_files.check_shared(spec, replace(fleet, shared_folders=()))
    with pytest.raises(UsageError, match="shared_folders"):
        list_files.check_shared(replace(spec, files_from=f"{tmp_path}/../keys"), fleet)


def test_a_spec_with_a_list_is_refused_by_versions_that_do_not_know_it() -> None:
    spec = replace(ANY_SPEC, files_from="/lists/keys", files_format="csv")

    assert stored.read(stored.write(spec)) == spec
    assert "field files_from" in stored.features(spec)


@pytest.mark.parametrize(
    ("field", "operation"),
    [
        ("transfer", "transfer"),
        ("move", "move"),
        ("check", "check"),
        ("cleanup", "cleanup"),
        ("verification", "verify"),
    ],
)
def test_each_operation_is_scheduled_over_http(
    own: Service, spec: TransferSpec, start_worker: Callable[[Service], Worker], field: str, operation: str
) -> None:
    start_worker(own)
    brought = own.submit(spec, actor="ada")
    until_ended(own, brought)
    places = {"source": spec.source.uri, "target": spec.target.uri}
    body = {
        "cleanup": {"place": spec.target.uri, "older_than": "1d", "priority": 3},
        "verification": {"transfer_id": brought, "content": True, "rules": ["- *.log"], "priority": 3},
    }.get(field, {**places, "attempts": 5, "priority": 3})
    with http_of(own) as http:
        made = http.post("/api/v1/schedules", json={"cron": NIGHTLY, "name": "it", field: body})
        assert made.status_code == 201, made.text
        assert (made.json()["operation"], made.json()["priority"]) == (operation, 3)
        named = http.post("/api/v1/schedules", json={"cron": NIGHTLY, field: {**body, "name": "x"}})
        assert (named.status_code, named.json()["errors"][0]["where"]) == (400, f"body.{field}")
        both = http.post("/api/v1/schedules", json={"cron": NIGHTLY, field: body, "other": {}})
        assert both.status_code == 422
        run = http.post("/api/v1/schedules/it/run").json()
        assert run["outcome"] == "submitted", run
        end = until_ended(own, run["transfer_id"])
        assert (end.spec.operation, end.state, end.description.name) == (operation, "done", "it")


def test_a_schedule_repeats_exactly_one_request(own: Service, spec: TransferSpec) -> None:
    places = {"source": spec.source.uri, "target": spec.target.uri}
    with http_of(own) as http:
        none = http.post("/api/v1/schedules", json={"cron": NIGHTLY})
        two = http.post("/api/v1/schedules", json={"cron": NIGHTLY, "move": places, "check": places})
        unknown = {"transfer_id": "0" * 36}
        other = http.post("/api/v1/schedules", json={"cron": NIGHTLY, "verification": unknown})
    assert [none.status_code, two.status_code, other.status_code] == [400, 400, 404]
    assert two.json()["errors"][0]["where"] == "body.check"
