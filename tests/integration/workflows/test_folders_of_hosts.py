"""Local folders on PostgreSQL: only workers of their host that serve them take a transfer, the others say why.

The processes pretend to be on different hosts by their setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import settings_for, until_ended
from http_client import http_of

from seqferry.db.tables import transfer
from seqferry.model.locations import LocalFolder
from seqferry.model.models import Status
from seqferry.service import schedules
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.policy import Policy
from seqferry.spec import identity, stored
from seqferry.spec.build import build_spec
from seqferry.spec.run import ListedCommand, build_run_spec
from support.processes import RunningProcess, run, seqferry
from support.proxy import Proxy, hold
from support.servers import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.postgres


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    """One kind of server is enough here."""
    return versitygw


StartWorker = Callable[..., RunningProcess]


@pytest.fixture
def lab(migrated_url: str, tmp_path: Path) -> Settings:
    """Settings of a command on the host ``lab``."""
    return replace(settings_for(tmp_path, migrated_url), host_name="lab")


@pytest.fixture
def service(lab: Settings) -> Iterator[Service]:
    with Service.open(lab) as opened:
        yield opened


@pytest.fixture
def worker(lab: Settings, tmp_path: Path) -> Iterator[StartWorker]:
    """``worker(host, folders)``: starts one that says it is on that host, and waits until it is ready."""
    with ExitStack() as stack:

        def start(host: str, folders: Path | str = "", *, shared: Path | str = "") -> RunningProcess:
            command = [seqferry(), "worker", "--state-dir", str(tmp_path / f"state-{host}")]
            environment = {
                "SEQFERRY_DATABASE_URL": lab.database_url or "",
                "SEQFERRY_HOST_NAME": host,
                "SEQFERRY_FOLDERS": str(folders),
                "SEQFERRY_SHARED_FOLDERS": str(shared),
            }
            running = stack.enter_context(RunningProcess(command, environment=environment, is_preloaded=True))
            eventually(lambda: "is ready" in running.stderr, what="the worker")
            return running

        yield start


@pytest.fixture
def upload(versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path) -> Callable[..., tuple[Path, str]]:
    """``upload(name)``: a folder with two files, and a bucket for them."""

    def make(name: str = "data") -> tuple[Path, str]:
        folder = tmp_path / name / "run"
        folder.mkdir(parents=True)
        for file in ("a", "b"):
            (folder / file).write_text(file)
        return folder, make_bucket(versitygw)

    return make


def _spec(server: S3Server, source: Path | str, target: Path | str, **more: object):
    ends = [str(one) if isinstance(one, str) or one.is_file() else f"{one}/" for one in (source, target)]
    return build_spec(*ends, endpoint_url=server.endpoint_url, allow_local=True, **more)


def _keys(server: S3Server, bucket: str) -> set[str]:
    return {one["Key"] for one in server.client().list_objects_v2(Bucket=bucket).get("Contents", ())}


def _waiting(service: Service, transfer_id: str, words: str) -> Status:
    def found() -> Status | None:
        status = service.status(transfer_id)
        return status if status.waits_for == words else None

    return eventually(found, what=f"the reason '{words}'")


def test_a_folder_is_read_and_written_by_workers_of_its_host_alone(
    service: Service, worker: StartWorker, versitygw: S3Server, upload: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    folder, bucket = upload()
    words = f"a worker with the folder {folder} of the host lab"
    worker("other", "/")
    up = service.submit(_spec(versitygw, folder, f"s3://{bucket}/in/"), actor="ada")

    assert service.status(up).waits_for == words, "told at once"
    with service.database.write() as connection:  # as of a worker that was there then
        connection.execute(transfer.update().values(waits_for=None))
    assert _waiting(service, up, words).state == "queued"
    assert _keys(versitygw, bucket) == set()

    worker("lab", tmp_path / "data")
    assert until_ended(service, up).totals.done == 2
    assert _keys(versitygw, bucket) == {"in/a", "in/b"}
    down = service.submit(_spec(versitygw, f"s3://{bucket}/in/", tmp_path / "data" / "back"), actor="ada")
    assert until_ended(service, down).totals.done == 2
    assert (tmp_path / "data" / "back" / "a").read_text() == "a"
    attended = {event.actor.partition("-")[0] for one in (up, down) for event in service.events(one)} - {"ada"}
    assert attended == {"worker lab"}


def test_a_worker_leaves_folders_alone_that_it_does_not_serve(
    service: Service, worker: StartWorker, versitygw: S3Server, upload: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    folder, bucket = upload()
    link = tmp_path / "served" / "link"
    link.parent.mkdir()
    link.symlink_to(folder)
    worker("lab", tmp_path / "served")

    transfer_id = service.submit(_spec(versitygw, link, f"s3://{bucket}/"), actor="ada")

    _waiting(service, transfer_id, f"a worker with the folder {folder} of the host lab")
    assert _keys(versitygw, bucket) == set()


@pytest.mark.parametrize("how", ["without a host", "below a root that is served"])
def test_a_worker_refuses_a_folder_that_a_row_smuggles_in(
    service: Service,
    worker: StartWorker,
    versitygw: S3Server,
    upload: Callable[..., tuple[Path, str]],
    tmp_path: Path,
    how: str,
) -> None:
    folder, bucket = upload()
    (tmp_path / "served").mkdir()
    spec = service.resolve_submission(_spec(versitygw, folder, f"s3://{bucket}/"))
    assert isinstance(spec.source, LocalFolder)
    transfer_id = service.submit(spec, actor="eve")
    changed = {"host": None} if how == "without a host" else {"root": str(tmp_path / "served")}
    smuggled = spec.derive(source=replace(spec.source, **changed))
    needs = identity.needs(smuggled)
    with service.database.write() as connection:
        service.queue.move(connection, transfer_id, identity.lane(identity.needs(spec)), identity.lane(needs))
        values = {"spec": stored.write(smuggled), "needs": needs, "lane": identity.lane(needs)}
        connection.execute(transfer.update().values(values))

    running = worker("lab", tmp_path / "served")

    eventually(lambda: "waits for a worker with" in running.stderr, what="the refusal")
    assert _keys(versitygw, bucket) == set()


def test_another_worker_of_the_host_takes_over_what_a_killed_one_leaves(
    service: Service,
    worker: StartWorker,
    proxy: Proxy,
    versitygw: S3Server,
    upload: Callable[..., tuple[Path, str]],
) -> None:
    folder, bucket = upload()
    rule = proxy.rule("PutObject", hold("request"))
    first = worker("lab", folder)
    transfer_id = service.submit(_spec(proxy.server, folder, f"s3://{bucket}/"), actor="ada")
    eventually(lambda: proxy.fired(rule), what="the first write", deadline=60)
    first.kill()
    proxy.remove_rule(rule)
    worker("other", "/")
    words = f"a worker with the folder {folder} of the host lab"
    _waiting(service, transfer_id, words)
    assert not service.status(transfer_id).ended

    worker("lab", folder)
    worker("lab", folder)  # two on one host share the work

    assert until_ended(service, transfer_id).totals.done == 2
    assert _keys(versitygw, bucket) == {"a", "b"}


def test_a_shared_folder_is_served_by_any_host_that_has_mounted_it(
    lab: Settings, worker: StartWorker, versitygw: S3Server, upload: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    folder, bucket = upload("nas")
    mounted = replace(lab, shared_folders=(str(tmp_path / "nas"),))
    with Service.open(mounted) as service:
        transfer_id = service.submit(_spec(versitygw, folder, f"s3://{bucket}/"), actor="ada")
        worker("second", "/")
        _waiting(service, transfer_id, f"a worker with the shared folder {tmp_path / 'nas'}")
        worker("third", shared=tmp_path / "nas")

        assert until_ended(service, transfer_id).totals.done == 2
        down = service.submit(_spec(versitygw, f"s3://{bucket}/", tmp_path / "nas" / "out"), actor="ada")
        with service.database.read() as connection:
            place = connection.execute(sa.select(transfer.c.target_place).where(transfer.c.id == down)).scalar_one()
        assert place == "disk@*"
        assert until_ended(service, down).totals.done == 2


def test_hosts_may_write_to_the_same_path_side_by_side_and_one_host_may_not(
    service: Service, lab: Settings, tmp_path: Path
) -> None:
    def submitted(settings: Settings, source: str) -> Status:
        spec = build_spec(
            source, str(tmp_path / "out"), endpoint_url="http://127.0.0.1:9", below=True, allow_local=True
        )
        with Service.open(settings) as opened:
            return service.status(opened.submit(spec, actor="ada"))

    first = submitted(lab, "s3://a/")
    assert submitted(replace(lab, host_name="other"), "s3://b/").blocked_by is None
    assert submitted(lab, "s3://c/").blocked_by == first.id
    again = submitted(lab, "s3://a/")
    assert again.id == first.id, "the same transfer goes on"
    assert submitted(replace(lab, host_name="other"), "s3://a/").id != first.id


def test_a_schedule_and_a_list_keep_the_host_that_they_were_made_on(
    service: Service, worker: StartWorker, versitygw: S3Server, upload: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    folder, bucket = upload()
    lines = [
        ListedCommand(number, _spec(versitygw, folder / name, f"s3://{bucket}/list/"))
        for number, name in ((1, "a"), (2, "b"))
    ]
    listed = service.submit(build_run_spec(lines, "list"), actor="ada")
    schedules.add(
        service, "0 2 * * *", _spec(versitygw, folder, f"s3://{bucket}/nightly/"), actor="ada", name="nightly"
    )
    elsewhere = replace(service.settings, host_name="other")
    with Service.open(elsewhere) as other:
        started = schedules.run_now(other, "nightly", actor="ada").transfer_id
    assert started is not None

    worker("other", "/")
    _waiting(service, listed, f"a worker with the folder {folder} of the host lab")
    worker("lab", tmp_path)

    assert until_ended(service, started).totals.done == 2
    assert until_ended(service, listed).totals.done == 2
    assert _keys(versitygw, bucket) == {"list/a", "list/b", "nightly/a", "nightly/b"}


def test_a_command_does_itself_what_no_worker_serves(
    lab: Settings, worker: StartWorker, versitygw: S3Server, upload: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    folder, bucket = upload()
    worker("other", "/")
    environment = {"SEQFERRY_DATABASE_URL": lab.database_url or "", "SEQFERRY_HOST_NAME": "lab"}
    words = [f"{folder}/", f"s3://{bucket}/", "--endpoint-url", versitygw.endpoint_url]
    state = ["--state-dir", str(tmp_path / "cp")]

    ran = run([seqferry(), "cp", *words, *state], environment=environment, is_preloaded=True)
    assert "No connected worker can run the transfer; this command runs it." in ran.stderr
    assert _keys(versitygw, bucket) == {"a", "b"}

    (folder / "c").write_text("c")
    ran = run([seqferry(), "cp", *words, *state, "--detach"], environment=environment, is_preloaded=True)
    assert f"It waits for a worker with the folder {folder} of the host lab." in ran.stderr


def test_clients_reach_folders_that_the_policy_allows(
    lab: Settings, worker: StartWorker, versitygw: S3Server, upload: Callable[..., tuple[Path, str]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    folder, bucket = upload()
    (folder / "secret").symlink_to("/etc/hostname")
    worker("lab", tmp_path / "data")
    allowed = Policy(read=(f"{folder}/", "s3://"), write=("s3://", f"{tmp_path}/data/out/"))
    with Service.open(replace(lab, policy=allowed)) as service, http_of(service) as client:
        service.serves = True

        def asked(source: Path | str, target: Path | str) -> tuple[int, str]:
            answer = client.post("/api/v1/transfers", json={"source": str(source), "target": str(target)})
            return answer.status_code, answer.json().get("id") or answer.json()["detail"]

        status, up = asked(f"{folder}/", f"s3://{bucket}/")
        assert status == 202, up
        assert until_ended(service, up).totals.done == 2
        assert _keys(versitygw, bucket) == {"a", "b"}, "no link is followed"
        status, down = asked(f"s3://{bucket}/", f"{tmp_path}/data/out/new/")
        assert status == 202, down
        assert until_ended(service, down).totals.done == 2

        link = folder / "etc"
        link.symlink_to("/etc")
        for source in ("/etc/", f"{folder}/../", f"{folder}x/", f"{tmp_path}/data/", f"{link}/", "/absent/"):
            status, detail = asked(source, f"s3://{bucket}/no/")
            assert (status, "does not read" in detail) == (403, True), (source, detail)
        for target in (f"{folder}/", "/etc/new/", f"{tmp_path}/data/out/../x/"):
            status, detail = asked(f"s3://{bucket}/", target)
            assert (status, "does not write" in detail) == (403, True), (target, detail)
        assert asked("run/", f"s3://{bucket}/no/")[0] == 400


def test_without_folders_in_the_policy_a_client_may_name_none(service: Service) -> None:
    with http_of(service) as client:
        answer = client.post("/api/v1/transfers", json={"source": "/etc/", "target": "s3://bucket/"})

    assert (answer.status_code, "taken on the command line only" in answer.text) == (400, True)
