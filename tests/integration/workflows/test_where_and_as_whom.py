"""A transfer runs at the endpoint and with the identity of its submission: on a worker that has them, or not at all."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from control import PLACES, add_batch, planned

from seqferry.cli import follow
from seqferry.cli.output.display import QuietDisplay
from seqferry.db import worker_lock, worker_reports
from seqferry.db.database import Database
from seqferry.db.tables import transfer, worker_live
from seqferry.db.worker_reports import Report
from seqferry.model.models import TransferSpec
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec.build import build_spec
from support.processes import RunningProcess, seqferry
from support.servers import ADMIN, MOVER, Credentials, S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]

_OLD_KEY, _NEW_KEY = "ASIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7NEWKEYS"
"""Of one account."""

_HOME = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_ENDPOINT_URL": ""}


class Shells:
    """Shells with environments of their own, which share a state."""

    def __init__(self, state: Path, database_url: str | None) -> None:
        self._state = {"SEQFERRY_STATE_DIR": str(state), "SEQFERRY_DATABASE_URL": database_url or ""}
        self._state_dir, self._database_url = state, database_url
        self._started = ExitStack()
        self.shared = database_url is not None
        self.folder = state.parent

    def close(self) -> None:
        self._started.close()

    def start(self, shell: dict[str, str], *words: str) -> RunningProcess:
        environment = {**_HOME, **self._state, **shell}
        return self._started.enter_context(
            RunningProcess([seqferry(), *words], environment=environment, is_preloaded=True)
        )

    def run(self, shell: dict[str, str], *words: str, code: int = 0) -> RunningProcess:
        ran = self.start(shell, *words)
        assert ran.wait() == code, ran
        return ran

    def submit(self, shell: dict[str, str], spec: TransferSpec, actor: str = "ada") -> str:
        """As ``cp --detach``, without a look at the storage."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**_HOME, **shell}.items():
                patch.setenv(name, value)
            settings = Settings.load(state_dir=self._state_dir, database_url=self._database_url)
            with Service.open(settings) as service:
                return service.submit(spec, actor=actor)

    @contextmanager
    def database(self) -> Iterator[Database]:
        with closing(Database(Settings.load(state_dir=self._state_dir, database_url=self._database_url))) as opened:
            yield opened

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A worker is there that does nothing."""
        with ExitStack() as held:
            if not self.shared:
                held.enter_context(worker_lock.acquire(self._state_dir))
            yield

    def service(self) -> Service:
        return Service.open(Settings.load(state_dir=self._state_dir, database_url=self._database_url))

    def release(self) -> None:
        """As each worker does, twice a second."""
        settings = Settings.load(state_dir=self._state_dir, database_url=self._database_url)
        with Service.open(settings) as service:
            service.start_waiting()

    def events(self, transfer_id: str) -> list[str]:
        settings = Settings.load(state_dir=self._state_dir, database_url=self._database_url)
        with Service.open(settings) as service:
            return [event.kind for event in service.events(transfer_id)]

    def status(self, transfer_id: str) -> dict[str, Any]:
        return json.loads(self.run({}, "status", transfer_id, "--json").stdout)

    def until(self, transfer_id: str, state: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            found = self.status(transfer_id)
            return found if found["state"] == state else None

        return eventually(reached, what=f"transfer {transfer_id} to be {state}")

    def until_left_alone(self, transfer_id: str) -> str:
        return eventually(lambda: self.status(transfer_id)["waits_for"], what="the worker to leave it alone")

    def with_profiles(self, server: S3Server, **profiles: Credentials) -> dict[str, str]:
        """A shell whose only credentials are those of profiles."""
        credentials = self.folder / f"credentials-{'-'.join(profiles)}"
        credentials.write_text(
            "".join(
                f"[{name}]\naws_access_key_id = {one.access_key}\naws_secret_access_key = {one.secret_key}\n"
                for name, one in profiles.items()
            )
        )
        return {
            "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
            "AWS_PROFILE": next(iter(profiles)),
            "AWS_ENDPOINT_URL": server.endpoint_url,
        }


@pytest.fixture(params=PLACES)
def shells(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shells]:
    url = None if request.param == "sqlite" else request.getfixturevalue("migrated_url")
    made = Shells(tmp_path / "state", url)
    yield made
    made.close()


@pytest.fixture
def sqlite_shells(tmp_path: Path) -> Iterator[Shells]:
    made = Shells(tmp_path / "state", None)
    yield made
    made.close()


@pytest.fixture
def postgres_shells(tmp_path: Path, migrated_url: str) -> Iterator[Shells]:
    made = Shells(tmp_path / "state", migrated_url)
    yield made
    made.close()


@pytest.fixture
def twins(
    seaweedfs: S3Server, versitygw: S3Server, make_bucket: BucketFactory
) -> Iterator[tuple[S3Server, S3Server, str]]:
    """Two endpoints, and a bucket that both have by the same name, with another object by the same name."""
    bucket = make_bucket(versitygw)
    seaweedfs.create_bucket(bucket)
    for server in (seaweedfs, versitygw):
        server.client(MOVER).put_object(Bucket=bucket, Key="run/a", Body=server.kind.encode())
    yield seaweedfs, versitygw, bucket
    seaweedfs.delete_bucket(bucket)


def _body(server: S3Server, bucket: str, key: str) -> bytes:
    return server.client().get_object(Bucket=bucket, Key=key)["Body"].read()


def _exists(server: S3Server, bucket: str, prefix: str) -> bool:
    return "Contents" in server.client().list_objects_v2(Bucket=bucket, Prefix=prefix)


@pytest.mark.parametrize("worker", ["worker", "serve", "cp"])
def test_the_endpoint_is_that_of_the_submission(
    shells: Shells, twins: tuple[S3Server, S3Server, str], worker: str
) -> None:
    one, other, bucket = twins
    uris = f"s3://{bucket}/run/", f"s3://{bucket}/in/"

    transfer_id = shells.run(one.environment(), "cp", *uris, "--detach").stdout.strip()
    if worker == "cp":
        # The process of a command for another storage does what was recorded before as well.
        shells.start(other.environment(), "cp", f"s3://{bucket}/run/a", f"s3://{bucket}/alone/a")
        shells.start(other.environment(), "resume", transfer_id)
    else:
        shells.start(other.environment(), worker, *(("--port", "0") if worker == "serve" else ()))
    shells.until(transfer_id, "done")

    assert _body(one, bucket, "in/a") == one.kind.encode()
    assert not _exists(other, bucket, "in/")


def _closed_bucket(server: S3Server) -> str:
    """A bucket that ``mover`` may not write to, and ``admin`` may."""
    bucket = server.create_bucket()
    server.deny(bucket, "*", actions=("s3:PutObject",))
    return bucket


@pytest.fixture
def closed(versitygw: S3Server) -> Iterator[str]:
    bucket = _closed_bucket(versitygw)
    yield bucket
    versitygw.client().delete_bucket_policy(Bucket=bucket)
    versitygw.delete_bucket(bucket)


@pytest.mark.parametrize("worker", ["worker", "serve"])
def test_another_identity_leaves_it_alone_and_says_so(
    shells: Shells, versitygw: S3Server, closed: str, make_bucket: BucketFactory, worker: str
) -> None:
    source = make_bucket(versitygw)
    versitygw.client(MOVER).put_object(Bucket=source, Key="run/a", Body=b"a")
    reader = shells.with_profiles(versitygw, reader=MOVER)
    admin = shells.with_profiles(versitygw, boss=ADMIN)
    uris = f"s3://{source}/run/", f"s3://{closed}/in/"
    transfer_id = shells.run(reader, "cp", *uris, "--detach").stdout.strip()

    running = shells.start(admin, worker, *(("--port", "0") if worker == "serve" else ()))

    assert shells.until_left_alone(transfer_id) == "a worker with profile reader"
    assert "waits for a worker with profile reader" in shells.run(admin, "status", transfer_id).stdout
    # All others of the queue go on.
    other = shells.run(admin, "cp", f"s3://{source}/run/", f"s3://{source}/copy/", "--detach").stdout.strip()
    shells.until(other, "done")
    assert shells.status(transfer_id)["state"] == "queued"
    assert not _exists(versitygw, closed, "in/")

    refused = shells.run(admin, "resume", transfer_id, code=1)
    assert "was submitted with profile reader" in refused.stderr
    assert versitygw.endpoint_url in refused.stderr
    running.kill()

    done = shells.run(reader, "resume", transfer_id, code=1)
    assert "AccessDenied" in done.stderr
    assert not _exists(versitygw, closed, "in/")


def test_a_worker_that_has_the_profile_uses_it_whoever_else_it_is(
    shells: Shells, versitygw: S3Server, closed: str, make_bucket: BucketFactory
) -> None:
    source = make_bucket(versitygw)
    versitygw.client(MOVER).put_object(Bucket=source, Key="run/a", Body=b"a")
    shell = shells.with_profiles(versitygw, boss=ADMIN, lab=MOVER)
    shells.start(shell, "worker")

    ran = {
        profile: shells.start(shell, "cp", "--profile", profile, f"s3://{source}/run/", f"s3://{closed}/{profile}/")
        for profile in ("lab", "boss")
    }

    assert (ran["lab"].wait(), ran["boss"].wait()) == (1, 0), ran
    assert _exists(versitygw, closed, "boss/")
    assert not _exists(versitygw, closed, "lab/")


def test_cp_does_its_own_transfer_though_another_worker_cannot(
    shells: Shells, versitygw: S3Server, make_bucket: BucketFactory
) -> None:
    source = make_bucket(versitygw)
    versitygw.client(MOVER).put_object(Bucket=source, Key="run/a", Body=b"a")
    admin = shells.with_profiles(versitygw, boss=ADMIN)
    worker = shells.start(admin, "worker")
    worker.wait_for_output("is ready")

    copying = shells.start(versitygw.environment(), "cp", f"s3://{source}/run/", f"s3://{source}/copy/")
    if shells.shared:
        assert copying.wait() == 0, copying
    else:
        copying.wait_for_output("This command runs the transfer after it has ended")
        worker.kill()
        assert copying.wait() == 0, copying
    assert _exists(versitygw, source, "copy/")


def test_a_newer_temporary_key_takes_over_with_the_same_command(
    shells: Shells, versitygw: S3Server, make_bucket: BucketFactory
) -> None:
    source = make_bucket(versitygw)
    versitygw.client(MOVER).put_object(Bucket=source, Key="run/a", Body=b"a")
    # As far as we can tell without asking: the service is not asked about the first, and knows no second.
    old = {**versitygw.environment(replace(MOVER, access_key=_OLD_KEY)), "AWS_SESSION_TOKEN": "one"}
    new = {**versitygw.environment(replace(MOVER, access_key=_NEW_KEY)), "AWS_SESSION_TOKEN": "two"}
    spec = build_spec(f"s3://{source}/run/", f"s3://{source}/copy/")
    transfer_id = shells.submit(old, spec)
    assert "with the temporary access key" in shells.run(new, "resume", transfer_id, code=1).stderr

    assert shells.submit(new, spec) == transfer_id

    # It is begun as the newer key, and this service knows of none.
    ended = shells.run(new, "resume", transfer_id, code=1)
    assert "Renew the credentials" in ended.stderr


@pytest.mark.parametrize(
    ("keys", "actors"),
    [((_OLD_KEY, _NEW_KEY), ("ada", "bob")), (("LABOLD", "LABNEW"), ("ada", "ada"))],
    ids=["another actor", "no account known"],
)
def test_a_temporary_key_that_may_be_another_identity_submits_something_else(
    shells: Shells, keys: tuple[str, str], actors: tuple[str, str]
) -> None:
    spec = build_spec("s3://from/run/", "s3://to/run/")
    first, second = (
        shells.submit(
            {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": key}, spec, actor
        )
        for key, actor in zip(keys, actors, strict=True)
    )

    assert first != second
    assert shells.status(second)["waits_for"] == f"transfer {first}, which writes to the same keys"
    assert shells.events(first) == ["submitted"]


@pytest.mark.parametrize("silent", [0, 8], ids=["reporting", "silent for less than its lease"])
def test_a_newer_temporary_key_leaves_a_transfer_to_the_worker_that_is_at_it(shells: Shells, silent: int) -> None:
    keys = [
        {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": key}
        for key in (_OLD_KEY, _NEW_KEY)
    ]
    spec = build_spec("s3://from/run/", "s3://to/run/")
    transfer_id = shells.submit(keys[0], spec)

    with shells.worker(), shells.database() as database:
        with database.write() as connection:
            worker_reports.report(connection, database, "busy", {transfer_id: Report(0, 0, 0, 0.0, 0, 0, 0, 0, [])}, {})
            connection.execute(worker_live.update().values(at=worker_live.c.at - silent))
        assert shells.submit(keys[1], spec) == transfer_id
        assert "key_renewed" not in shells.events(transfer_id)

        with database.write() as connection:
            worker_reports.delete_reports(connection, "busy")
        assert shells.submit(keys[1], spec) == transfer_id
        assert "key_renewed" in shells.events(transfer_id)


def test_a_transfer_whose_key_is_gone_can_be_abandoned(shells: Shells) -> None:
    spec = build_spec("s3://from/run/", "s3://to/run/")
    lost, here = ({"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "hidden"} for key in ("LOST", "HERE"))
    gone = shells.submit(lost, spec)
    # As a killed worker has left it.
    with shells.database() as database, database.write() as connection:
        connection.execute(transfer.update().values(state="running", started_at=1.0, planned_at=1.0))
        add_batch(connection, gone, [planned("a")])
    waiting = shells.submit(here, spec)
    assert "--abandon" in shells.run(here, "cancel", gone, code=1).stderr
    assert shells.status(gone)["state"] == "cancelling"
    assert gone in shells.status(waiting)["waits_for"]

    shells.run(here, "cancel", gone, "--abandon")

    ended = shells.status(gone)
    assert (ended["state"], ended["objects_cancelled"]) == ("cancelled", 1)
    shells.release()
    assert shells.status(waiting)["waits_for"] is None


@pytest.mark.parametrize("silent", [0, 8], ids=["reporting", "silent for less than its lease"])
def test_a_transfer_that_a_worker_is_at_is_not_abandoned(shells: Shells, silent: int) -> None:
    shell = {"AWS_ACCESS_KEY_ID": "GONE", "AWS_SECRET_ACCESS_KEY": "hidden"}
    transfer_id = shells.submit(shell, build_spec("s3://from/run/", "s3://to/run/"))
    with shells.database() as database, database.write() as connection:
        connection.execute(transfer.update().values(state="running", started_at=1.0))
        worker_reports.report(connection, database, "busy", {transfer_id: Report(0, 0, 0, 0.0, 0, 0, 0, 0, [])}, {})
        connection.execute(worker_live.update().values(at=worker_live.c.at - silent))

    with shells.worker():
        assert "a worker runs it" in shells.run(shell, "cancel", transfer_id, "--abandon", code=1).stderr


def _left_by_a_killed_worker(shells: Shells, transfer_id: str, executor_id: str = "killed") -> None:
    """As a worker leaves it that was killed just now."""
    with shells.database() as database, database.write() as connection:
        connection.execute(
            transfer.update().where(transfer.c.id == transfer_id).values(state="running", started_at=1.0)
        )
        worker_reports.report(
            connection, database, executor_id, {transfer_id: Report(0, 0, 0, 0.0, 0, 0, 0, 0, [])}, {}
        )


def test_a_newer_temporary_key_takes_over_as_soon_as_the_lock_shows_that_the_worker_is_gone(
    sqlite_shells: Shells, versitygw: S3Server, make_bucket: BucketFactory
) -> None:
    shells, source = sqlite_shells, make_bucket(versitygw)
    versitygw.client(MOVER).put_object(Bucket=source, Key="run/a", Body=b"a")
    old, new = (
        {**versitygw.environment(replace(MOVER, access_key=key)), "AWS_SESSION_TOKEN": key}
        for key in (_OLD_KEY, _NEW_KEY)
    )
    spec = build_spec(f"s3://{source}/run/", f"s3://{source}/copy/")
    transfer_id = shells.submit(old, spec)
    _left_by_a_killed_worker(shells, transfer_id)

    assert shells.submit(new, spec) == transfer_id

    assert "key_renewed" in shells.events(transfer_id)
    # It is begun as the newer key, which this service does not know.
    assert "Renew the credentials" in shells.run(new, "resume", transfer_id, code=1).stderr


_NAME = "import time; from seqferry.places import processes; print(processes.name_suffix(), flush=True); time.sleep(60)"


@pytest.fixture
def killed() -> str:
    """The name of a worker of this machine that was killed."""
    with RunningProcess([sys.executable, "-c", _NAME], is_preloaded=True) as worker:
        worker.wait_for_output("@")
        name = f"host-{worker.pid}-01234567{worker.stdout.strip()}"
        worker.kill()
    return name


def test_a_newer_temporary_key_takes_over_at_once_from_a_killed_process_of_this_machine(
    postgres_shells: Shells, killed: str
) -> None:
    old, new = (
        {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": key}
        for key in (_OLD_KEY, _NEW_KEY)
    )
    spec = build_spec("s3://from/run/", "s3://to/run/")
    transfer_id = postgres_shells.submit(old, spec)
    _left_by_a_killed_worker(postgres_shells, transfer_id, killed)

    assert postgres_shells.submit(new, spec) == transfer_id

    assert "key_renewed" in postgres_shells.events(transfer_id)
    postgres_shells.run(new, "cancel", transfer_id, "--abandon")


def test_a_wait_for_a_key_that_no_worker_has_ends_with_a_code_of_its_own(
    shells: Shells, versitygw: S3Server, make_bucket: BucketFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_bucket(versitygw)
    versitygw.client(MOVER).put_object(Bucket=source, Key="run/a", Body=b"a")
    places = (f"s3://{source}/run/", f"s3://{source}/copy/")
    spec = build_spec(*places, endpoint_url=versitygw.endpoint_url)
    lost = shells.submit({"AWS_ACCESS_KEY_ID": "LABOLD", "AWS_SECRET_ACCESS_KEY": "hidden"}, spec)
    _left_by_a_killed_worker(shells, lost)
    with shells.database() as database, database.write() as connection:  # its lease has ended
        connection.execute(worker_live.update().values(at=worker_live.c.at - 60))

    ended = shells.run(versitygw.environment(MOVER), "cp", *places, "--json", code=5)

    events = [json.loads(line) for line in ended.stdout.splitlines()]
    told = events[-1]
    assert (told["event"], told["waits_for"]) == ("out_of_reach", lost)
    assert "LABOLD" not in told["lacks"]
    assert "access key" in told["lacks"]
    for step in (f"seqferry resume {lost}", f"seqferry cancel {lost} --abandon", "--wait"):
        assert step in ended.stderr
    assert "summary" not in {one["event"] for one in events}
    assert lost in shells.status(told["id"])["waits_for"]

    monkeypatch.setattr(follow, "_LEARNING", 0.0)
    for name, value in {**_HOME, **versitygw.environment(MOVER)}.items():
        monkeypatch.setenv(name, value)
    with shells.service() as service:
        status = service.status(told["id"])
        follow.WorkerSupervisor(service.settings, service, follow.FollowEvents(), waits=True).check_reach(status)
        with pytest.raises(follow.NoCapableWorker):
            follow.WorkerSupervisor(service.settings, service, follow.FollowEvents()).check_reach(status)
        _left_by_a_killed_worker(shells, lost, "alive")
        with shells.worker():
            follow.WorkerSupervisor(service.settings, service, follow.FollowEvents()).check_reach(status)

    with shells.database() as database, database.write() as connection:
        connection.execute(worker_live.delete())
    shells.run({}, "cancel", lost, "--abandon")
    again = shells.run(versitygw.environment(MOVER), "cp", *places)
    assert f"Continuing transfer {told['id']}" in again.stderr
    assert _exists(versitygw, source, "copy/")


class _Notes(QuietDisplay):
    """Keeps what a person is told, and leaves after the first note."""

    def __init__(self, watch: follow.FollowEvents) -> None:
        self.notes: list[str] = []
        self._watch = watch

    def note(self, message: str) -> None:
        self.notes.append(message)
        self._watch.asked_to_stop = True


def test_a_wait_for_a_worker_of_another_machine_says_at_once_until_when(
    postgres_shells: Shells, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = build_spec("s3://from/run/", "s3://to/run/", endpoint_url="http://127.0.0.1:9")
    keys = [
        {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": key}
        for key in (_OLD_KEY, _NEW_KEY)
    ]
    transfer_id = postgres_shells.submit(keys[0], spec)
    _left_by_a_killed_worker(postgres_shells, transfer_id, "far-away-77-01234567@0123456789ab.77.1")
    for name, value in {**_HOME, **keys[1]}.items():
        monkeypatch.setenv(name, value)
    watch = follow.FollowEvents()
    show = _Notes(watch)

    with postgres_shells.service() as service, follow.WorkerSupervisor(service.settings, service, watch) as supervisor:
        assert supervisor.submit(spec, "ada").id == transfer_id
        began = time.monotonic()
        with pytest.raises(follow.Interruption):
            follow.follow(service, transfer_id, show, watch, supervisor, lambda *words: " ".join(words))

    assert time.monotonic() - began < 5, "the first look must say it"
    assert re.fullmatch(
        r"Process 77 on far-away is at the transfer, with another key, last heartbeat \d+ s ago. Without another "
        r"heartbeat its work is taken over by \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ.",
        show.notes[0],
    )
    assert "key_renewed" not in postgres_shells.events(transfer_id)


def test_a_command_that_has_joined_takes_over_when_the_worker_of_the_other_key_ends(
    sqlite_shells: Shells, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = build_spec("s3://from/run/", "s3://to/run/", endpoint_url="http://127.0.0.1:9")
    keys = [
        {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": key}
        for key in (_OLD_KEY, _NEW_KEY)
    ]
    transfer_id = sqlite_shells.submit(keys[0], spec)
    for name, value in {**_HOME, **keys[1]}.items():
        monkeypatch.setenv(name, value)
    with sqlite_shells.service() as service:
        supervisor = follow.WorkerSupervisor(service.settings, service, follow.FollowEvents())
        with sqlite_shells.worker():
            _left_by_a_killed_worker(sqlite_shells, transfer_id)
            assert supervisor.submit(spec, "ada").id == transfer_id
            supervisor.work(service.status(transfer_id))
            assert "key_renewed" not in sqlite_shells.events(transfer_id)

        def renewed() -> bool:
            supervisor.work(service.status(transfer_id))
            return "key_renewed" in sqlite_shells.events(transfer_id)

        with supervisor:
            eventually(renewed, what="the newer key to take over", deadline=12)


@pytest.mark.parametrize(
    "session_token", [{"AWS_SESSION_TOKEN": "one"}, {}], ids=["temporary key of no account", "rotated long-lived key"]
)
def test_a_wait_for_another_key_says_at_once_how_to_go_on(
    shells: Shells, session_token: dict[str, str], versitygw: S3Server, make_bucket: BucketFactory
) -> None:
    source = make_bucket(versitygw)
    versitygw.client(MOVER).put_object(Bucket=source, Key="run/a", Body=b"a")
    spec = build_spec(f"s3://{source}/run/", f"s3://{source}/copy/", endpoint_url=versitygw.endpoint_url)
    lost = shells.submit({"AWS_ACCESS_KEY_ID": "LABOLD", "AWS_SECRET_ACCESS_KEY": "hidden", **session_token}, spec)
    _left_by_a_killed_worker(shells, lost)

    copying = shells.start(versitygw.environment(MOVER), "cp", f"s3://{source}/run/", f"s3://{source}/copy/")
    copying.wait_for_output(f"cancel {lost} --abandon")
    assert f"resume {lost}" in copying.stderr
    if shells.shared:  # what holds it is not known to be gone for 15 s
        return
    shells.run({}, "cancel", lost, "--abandon")
    assert copying.wait() == 0, copying
    assert _exists(versitygw, source, "copy/")
