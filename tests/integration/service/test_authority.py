"""Work that begins later on behalf of a token is held against the policy and the tokens of today."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from control import until_ended
from http_client import bearer, http_of

from seqferry.db import schedule_rows
from seqferry.db.tables import schedule, transfer
from seqferry.model.errors import ConfigError, PolicyError
from seqferry.model.models import TransferSpec
from seqferry.service import authority, control, schedules, tokens
from seqferry.service.service import Service
from seqferry.settings.policy import Policy
from seqferry.settings.tokens import ENVIRONMENT, OWNER, owner_token
from seqferry.spec.build import build_spec
from seqferry.spec.run import ListedCommand, build_run_spec
from seqferry.workflows import schedule_ticks
from seqferry.workflows.schedule_ticks import ScheduleReconciler
from seqferry.workflows.worker import Worker
from support.servers import S3Server

LAB = "http lab from 10.0.0.1"
NIGHTLY = "0 2 * * *"


def _narrow(service: Service, *write: str) -> None:
    """As an operator does, who writes another policy and starts the server anew."""
    service.settings = replace(service.settings, policy=Policy(write=write))  # type: ignore[misc]


@pytest.fixture
def spec(versitygw: S3Server, make_bucket: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> TransferSpec:
    """Of an object that is not there, at the endpoint of the server."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    versitygw.client().put_object(Bucket=source, Key="run/there", Body=b"a")
    return build_spec(f"s3://{source}/run/missing", f"s3://{target}/in/")


@pytest.fixture
def failed(service: Service, spec: TransferSpec, start_worker: Callable[[Service], Worker]) -> str:
    """A transfer of the token ``lab`` whose object has failed."""
    tokens.add(service, "lab", "submit")
    transfer_id = service.submit(spec, actor=LAB)
    start_worker(service)
    assert until_ended(service, transfer_id).totals.failed == 1
    return transfer_id


def _as_lab(service: Service) -> dict[str, str]:
    tokens.remove(service, "lab")
    return bearer(tokens.add(service, "lab", "submit"))


def test_a_retry_is_allowed_where_the_submission_is(service: Service, failed: str) -> None:
    headers = _as_lab(service)
    with http_of(service) as client:
        first = client.post(f"/api/v1/transfers/{failed}/retry", headers=headers)
        assert first.status_code == 202
        _narrow(service, "s3://elsewhere/")
        one = client.post(f"/api/v1/transfers/{failed}/retry", headers=headers)
        of_owner = client.post(f"/api/v1/transfers/{failed}/retry")
        many = client.post("/api/v1/actions", json={"action": "retry", "ids": [failed]}, headers=headers)
        count = len(service.transfers())

    assert (one.status_code, one.json()["code"]) == (403, "not_allowed")
    assert "does not write s3://" in one.json()["detail"]
    assert of_owner.status_code == 403
    assert [result["code"] for result in many.json()["results"]] == ["not_allowed"]
    assert count == 2
    until_ended(service, first.json()["id"])
    # A command of this machine's user is not bound.
    assert control.retry(service, failed, actor="ada").id


def test_a_retry_to_an_endpoint_that_is_not_the_servers_any_more_is_refused(
    service: Service, failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with http_of(service) as client:
        answer = client.post(f"/api/v1/transfers/{failed}/retry", headers=_as_lab(service))

    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert "does not contact the endpoint" in answer.json()["detail"]


@pytest.mark.parametrize("actor", [LAB, "ada"])
def test_a_paused_transfer_of_a_token_goes_on_only_where_today_allows_it(
    service: Service, spec: TransferSpec, actor: str
) -> None:
    transfer_id = service.submit(spec, actor=LAB)
    control.pause(service, transfer_id, actor=LAB)
    _narrow(service, "s3://elsewhere/")

    with pytest.raises(PolicyError, match="does not write"):
        control.resume(service, transfer_id, actor=actor)

    assert service.status(transfer_id).state == "paused"
    _narrow(service, spec.target.uri)
    assert control.resume(service, transfer_id, actor=actor).state == "queued"


def test_a_queued_transfer_of_a_token_is_stopped_before_its_first_object(
    service: Service, spec: TransferSpec, start_worker: Callable[[Service], Worker]
) -> None:
    whole = replace(spec, source=replace(spec.source, key="run/"), strip="run/", single=False)
    of_token, of_command = service.submit(whole, actor=LAB), service.submit_or_resume(whole, actor="ada", new=True).id
    _narrow(service, "s3://elsewhere/")
    start_worker(service)

    ended = until_ended(service, of_token)

    assert (ended.state, ended.error_code, ended.totals.objects) == ("failed", "not_allowed", 0)
    assert until_ended(service, of_command).totals.done == 1


def test_each_line_of_a_list_is_held_against_the_policy(service: Service, spec: TransferSpec) -> None:
    lines = [ListedCommand(number, replace(spec, target=replace(spec.target, key=f"in/{number}"))) for number in (1, 2)]
    lines.append(ListedCommand(3, build_spec("s3://vendor/a", "s3://secret/a")))
    run = service.resolve_submission(build_run_spec(lines, "list"))
    _narrow(service, spec.target.uri.removesuffix("missing"))
    authority.check_policy(service.settings, service.resolve_submission(build_run_spec(lines[:2], "list")))

    with pytest.raises(PolicyError, match="s3://secret/a"):
        authority.check_policy(service.settings, run)
    with pytest.raises(PolicyError, match="s3://secret/a"):
        authority.check_start(service.settings, run, created_by="ada", actor=LAB)
    authority.check_start(service.settings, run, created_by="ada", actor="ada")


def test_a_client_has_what_a_command_named_go_on_below_what_clients_may_write(
    service: Service, spec: TransferSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admin over HTTP: the endpoint was named by a person at this machine."""
    transfer_id = service.submit(spec, actor="ada")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with http_of(service) as client:
        for status, write in ((403, "s3://elsewhere/"), (202, "s3://")):
            control.pause(service, transfer_id, actor="ada")
            _narrow(service, write)
            assert client.post(f"/api/v1/transfers/{transfer_id}/resume").status_code == status


@pytest.fixture
def arrived(service: Service, spec: TransferSpec, start_worker: Callable[[Service], Worker]) -> str:
    """A transfer of the token ``lab`` that has brought an object; no worker is there any more."""
    tokens.add(service, "lab", "submit")
    whole = replace(spec, source=replace(spec.source, key="run/"), strip="run/", single=False)
    transfer_id = service.submit(whole, actor=LAB)
    worker = start_worker(service)
    assert until_ended(service, transfer_id).totals.done == 1
    worker.stop()
    return transfer_id


def test_clients_verify_their_own_transfers_where_they_may_write_today(
    service: Service, spec: TransferSpec, arrived: str
) -> None:
    headers = _as_lab(service)
    others = bearer(tokens.add(service, "other", "submit"))
    write_only = replace(service.settings, policy=Policy(read=("s3://vendor/",), write=(spec.target.uri,)))
    of_command = service.submit_or_resume(replace(spec, target=replace(spec.target, key="own/")), actor="ada").id
    service.cancel(of_command, actor="ada")
    with http_of(service) as client:

        def asked(transfer_id: str, **options: Any) -> tuple[int, str | None]:
            answer = client.post(f"/api/v1/transfers/{transfer_id}/verify", **options)
            return answer.status_code, answer.json().get("code")

        service.settings = write_only  # type: ignore[misc]
        assert asked(arrived, headers=headers) == (202, None)
        assert asked(arrived, headers=headers) == (200, None), "the same one goes on"
        assert asked(arrived, headers=others) == (403, "not_allowed")
        assert asked(of_command, headers=headers) == (403, "not_allowed")
        assert asked(of_command) == (403, "not_allowed"), "an admin is held to the policy as well"
        _narrow(service, "s3://elsewhere/")
        assert asked(arrived, headers=headers) == (403, "not_allowed")
        _narrow(service, "s3://")
        assert asked(of_command) == (202, None)
    _narrow(service, "s3://elsewhere/")
    assert control.verify(service, arrived, actor="ada", content=True).id, "a command is not bound"


def test_a_verification_of_a_token_is_stopped_where_today_does_not_allow_it(
    service: Service, arrived: str, start_worker: Callable[[Service], Worker]
) -> None:
    of_token = control.verify(service, arrived, actor=LAB).id
    of_command = control.verify(service, arrived, actor="ada", content=True).id
    _narrow(service, "s3://elsewhere/")
    start_worker(service)

    ended = until_ended(service, of_token)

    assert (ended.state, ended.error_code, ended.totals.objects) == ("failed", "not_allowed", 0)
    assert until_ended(service, of_command).totals.done == 1
    assert [one.data["verification"] for one in service.events(arrived) if one.kind == "verified"] == [of_command]


# --- schedules --------------------------------------------------------------------------------------------------------


@pytest.fixture
def nightly(service: Service, spec: TransferSpec) -> str:
    """The schedule ``nightly`` of the token ``lab``; its id."""
    owner_token(service.settings.state_dir)
    tokens.add(service, "lab", "submit")
    return schedules.add(service, NIGHTLY, spec, actor=LAB, name="nightly").id


def _lapse(service: Service, how: str) -> None:
    tokens.remove(service, "lab")
    if how == "expired":
        tokens.add(service, "lab", "submit", expires_at=1.0)
    elif how == "may only read":
        tokens.add(service, "lab", "read")


@pytest.mark.parametrize("how", ["removed", "expired", "may only read"])
@pytest.mark.parametrize("through", ["look", "tick"])
def test_a_schedule_is_paused_when_its_token_is_gone_and_says_so(
    service: Service, nightly: str, how: str, through: str
) -> None:
    _lapse(service, how)

    if through == "look":
        ScheduleReconciler(service).reconcile()
    else:
        schedules.run_due(service, nightly, "sched-1", 1e9, 1)

    found = schedules.find_schedule(service, "nightly")
    assert (found.state, found.next_at) == ("paused", None)
    assert service.transfers() == []
    assert any("The schedule was paused: the token 'lab'" in (run.message or "") for run in found.runs)
    last = schedules.history(service, "nightly")[-1]
    assert (last.kind, last.actor) == ("paused", "server")
    assert "the token 'lab'" in last.data["why"]
    with pytest.raises(PolicyError, match="the token 'lab'"):
        schedules.resume(service, "nightly", actor="ada")
    with pytest.raises(PolicyError, match="the token 'lab'"):
        schedules.run_now(service, "nightly", actor="ada")
    with http_of(service) as client:
        assert client.post("/api/v1/schedules/nightly/run").status_code == 403
        assert client.post("/api/v1/schedules/nightly/resume").status_code == 403
        assert client.get("/api/v1/schedules/nightly").json()["state"] == "paused"
    assert service.transfers() == []


def test_a_schedule_goes_on_while_its_token_is_there_and_those_of_commands_always(
    service: Service, nightly: str, spec: TransferSpec
) -> None:
    schedules.add(service, NIGHTLY, spec, actor="ada", name="own")
    ScheduleReconciler(service).reconcile()
    assert {one.state for one in schedules.list_schedules(service)} == {"active"}

    tokens.remove(service, "lab")
    ScheduleReconciler(service).reconcile()

    assert {one.name: one.state for one in schedules.list_schedules(service)} == {"nightly": "paused", "own": "active"}
    assert schedules.run_now(service, "own", actor="ada").outcome == "submitted"
    tokens.add(service, "lab", "submit")
    assert schedules.resume(service, "nightly", actor="ada").state == "active"


def test_a_schedule_is_paused_that_fires_more_often_than_clients_may_by_now(
    service: Service, nightly: str, spec: TransferSpec
) -> None:
    # A second apart, and not while the test runs: what was missed meanwhile is queued, which needs a worker.
    seconds = "58,59 0 0 1 1 *"
    schedules.add(service, seconds, spec, actor="ada", name="of-a-command")
    with service.database.write() as connection:  # added when nothing forbade it
        schedule_rows.update(connection, nightly, cron=seconds)

    schedules.run_due(service, nightly, "sched-1", 1e9, 1)
    ScheduleReconciler(service).reconcile()

    found = {one.name: one.state for one in schedules.list_schedules(service)}
    assert found == {"nightly": "paused", "of-a-command": "active"}
    assert schedules.history(service, "nightly")[-1].data["why"].startswith("two of its times are 1 s apart")
    with pytest.raises(PolicyError, match=r"1 s apart.*schedule_interval"):
        schedules.resume(service, "nightly", actor="ada")
    with pytest.raises(PolicyError, match=r"5 s apart"):
        schedules.edit(service, "nightly", actor="ada", expression="*/5 * * * * *")
    schedules.edit(service, "nightly", actor="ada", expression="* * * * *")
    assert schedules.resume(service, "nightly", actor="ada").state == "active"
    with http_of(service) as client:
        edited = client.patch("/api/v1/schedules/of-a-command", json={"cron": "*/59 * * * * *"})
    assert (edited.status_code, "1 s apart" in edited.json()["detail"]) == (403, True)


def test_a_token_has_so_many_schedules_and_no_shorter_intervals_than_the_policy_says(
    service: Service, spec: TransferSpec
) -> None:
    policy = Policy(most_schedules=2, schedule_interval=300.0)
    service.settings = replace(service.settings, policy=policy)  # type: ignore[misc]
    owner_token(service.settings.state_dir)
    lab, core = (bearer(tokens.add(service, name, "submit")) for name in ("lab", "core"))
    places = {"source": spec.source.uri.removesuffix("missing"), "target": spec.target.uri}
    with http_of(service) as client:

        def add(of: dict[str, str], cron: str = NIGHTLY) -> tuple[int, str]:
            answer = client.post("/api/v1/schedules", json={"cron": cron, "transfer": places}, headers=of)
            return answer.status_code, answer.json().get("detail", answer.json().get("name"))

        code, detail = add(lab, "*/4 * * * *")
        assert (code, "[server] schedule_interval" in detail) == (403, True)
        _, first = add(lab)
        assert add(lab, "*/5 * * * *")[0] == 201
        code, detail = add(lab)
        assert (code, "2 schedules" in detail, "[server] most_schedules" in detail) == (403, True, True)
        assert client.post(f"/api/v1/schedules/{first}/pause", headers=lab).status_code == 200
        assert add(lab)[0] == 403, "a paused one counts: it can be resumed"
        assert [add(core)[0] for _ in range(3)] == [201, 201, 403]
        assert client.delete(f"/api/v1/schedules/{first}", headers=lab).status_code == 204
        assert add(lab)[0] == 201
    for _ in range(3):
        schedules.add(service, "* * * * * *", spec, actor="ada")


def test_a_run_that_the_policy_does_not_allow_any_more_fails_and_says_why(service: Service, nightly: str) -> None:
    _narrow(service, "s3://elsewhere/")
    with service.database.write() as connection:
        schedule_rows.update(connection, nightly, active_since=0.0)
    due = 1_800_000_000.0

    run = schedules.run_due(service, nightly, "sched-2", due - due % 86_400 + 7200, 1)

    assert run is not None
    assert (run.outcome, run.transfer_id) == ("failed", None)
    assert "does not write" in (run.message or "")
    with service.database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(transfer)).scalar() == 0
        assert connection.execute(sa.select(schedule.c.state)).scalar() == "active"


@pytest.mark.every_database
def test_servers_that_share_a_database_judge_their_own_tokens_only(service: Service, spec: TransferSpec) -> None:
    schedules.add(service, NIGHTLY, spec, actor="http elsewhere from 10.0.0.1", name="nightly")
    tokens.add(service, "lab", "submit")

    ScheduleReconciler(service).reconcile()

    state = "paused" if service.database.is_sqlite else "active"
    assert schedules.find_schedule(service, "nightly").state == state


@pytest.mark.parametrize("name", [OWNER, ENVIRONMENT])
def test_the_owners_own_tokens_may_be_replaced_at_any_time(service: Service, spec: TransferSpec, name: str) -> None:
    schedules.add(service, NIGHTLY, spec, actor=f"http {name} from 10.0.0.1", name="nightly")

    ScheduleReconciler(service).reconcile()

    assert schedules.find_schedule(service, "nightly").state == "active"


@pytest.mark.parametrize(
    ("actor", "token"),
    [
        ("http lab from 10.0.0.1", "lab"),
        ("http lab", "lab"),
        ("http lab from 10.0.0.1 by schedule nightly", "lab"),
        ("http from from 10.0.0.1", "from"),
        ("http from 10.0.0.1", None),
        ("http", None),
        ("ada@host", None),
    ],
)
def test_the_token_of_an_actor_is_read_from_the_record(actor: str, token: str | None) -> None:
    assert authority.token_name(actor) == token


def test_a_submission_that_is_repeated_with_its_key_is_held_against_the_policy(
    service: Service, spec: TransferSpec
) -> None:
    body: dict[str, Any] = {"source": spec.source.uri.removesuffix("missing"), "target": spec.target.uri}
    with http_of(service) as client:
        headers = {"Idempotency-Key": "K"}
        assert client.post("/api/v1/transfers", json=body, headers=headers).status_code == 202
        _narrow(service, "s3://elsewhere/")
    with http_of(service) as client:
        again = client.post("/api/v1/transfers", json=body, headers=headers)

    assert again.status_code == 403, json.dumps(again.json())


def test_tokens_that_cannot_be_looked_at_are_said_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    causes = iter(["away", "away", "full", None, "full"])

    def look(_service: Service) -> dict[str, str]:
        cause = next(causes)
        if cause is not None:
            raise ConfigError(cause)
        return {}

    monkeypatch.setattr(schedules, "pause_disallowed", look)
    monkeypatch.setattr(schedule_ticks, "_CHECK_SECONDS", 0.0)
    reconciler = ScheduleReconciler(service)
    for _ in range(5):
        reconciler.reconcile()

    said = [one.getMessage().rpartition(" ")[2] for one in caplog.records if "tokens of schedules" in one.getMessage()]
    assert said == ["away", "full", "full"]
