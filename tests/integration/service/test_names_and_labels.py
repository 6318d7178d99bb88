"""Transfers have a name and labels: shown, filtered by, kept in the record, and no part of what makes them equal."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from control import command, spec_number, until_ended
from ferry import Ferry, FerryFactory
from http_client import http_of

from seqferry.db.notice_rows import Subject
from seqferry.db.paging import TransferFilter
from seqferry.db.tables import transfer
from seqferry.model.errors import NotFoundError, UsageError
from seqferry.model.labels import Description
from seqferry.proof import auditing, report
from seqferry.proof.auditing import AuditCounts
from seqferry.service import control, notices, schedules
from seqferry.service.service import Service
from support.proxy import Proxy, access_denied
from support.servers import S3Server

RUN = Description("Run 42", {"project": "X", "site": "Köln"})


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    return versitygw


@pytest.fixture
def ferry(service: Service, make_ferry: FerryFactory, proxy: Proxy) -> Ferry:
    """Reaches the storage through ``proxy``."""
    return make_ferry(service, reached=proxy.server)


def _submit(service: Service, number: int, name: str | None = None, **labels: str) -> str:
    made = service.submit_or_resume(spec_number(number), actor="ada", description=Description(name, labels))
    return made.id


def _described(service: Service, transfer_id: str) -> list[dict[str, Any]]:
    """What the record says of its name and labels, in order."""
    found = [one.data for one in service.events(transfer_id) if one.kind in ("submitted", "described")]
    return [{key: one[key] for key in ("name", "labels") if key in one} for one in found]


def test_a_name_is_shown_from_the_submission_to_the_receipt_of_the_retry(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({"run/a": 1, "run/b": 1})
    service = ferry.service
    ferry.work()
    rule = proxy.rule("CopyObject", access_denied(), key="in/b")
    transfer_id = service.submit_or_resume(ferry.spec(), actor="ada", description=RUN).id
    assert until_ended(service, transfer_id).totals.failed == 1
    proxy.remove_rule(rule)

    retried = control.retry(service, transfer_id, actor="bob").id
    assert until_ended(service, retried).state == "done"

    assert service.status(transfer_id).description == RUN
    assert service.status(retried).description == RUN
    notice = notices.build_notice(service, Subject("transfer", transfer_id), "finished", "n")
    assert notice.title.startswith("Seqferry: 1 of 2 objects failed: Run 42 (s3://")
    assert (notice.payload["data"]["name"], notice.payload["data"]["labels"]) == ("Run 42", dict(RUN.labels))
    assert "\nname      Run 42\nlabel     project=X\n" in notice.body
    receipt = json.loads("".join(report.stream(service.database, retried, "json")))
    assert (receipt["name"], receipt["labels"]) == ("Run 42", dict(RUN.labels))
    page = "".join(report.stream(service.database, retried, "html"))
    assert "<h1>Receipt: Run 42</h1>" in page
    assert retried in page
    assert service.record_findings(transfer_id) == []
    assert _described(service, transfer_id) == [{"name": "Run 42", "labels": dict(RUN.labels)}]


def test_a_submission_with_another_name_goes_on_with_the_same_transfer_and_renames_it(service: Service) -> None:
    spec = spec_number(1)
    first = service.submit_or_resume(spec, actor="ada", description=RUN)

    for description, wanted in (
        (Description(), RUN),
        (Description("Run 43"), Description("Run 43", RUN.labels)),
        (Description(labels={"b": "1"}), Description("Run 43", {"b": "1"})),
        (Description("Run 43", {"b": "1"}), Description("Run 43", {"b": "1"})),
    ):
        again = service.submit_or_resume(spec, actor="ada", description=description)
        assert (again.id, again.goes_on) == (first.id, True)
        assert service.status(first.id).description == wanted

    assert _described(service, first.id) == [
        {"name": "Run 42", "labels": dict(RUN.labels)},
        {"name": "Run 43", "labels": dict(RUN.labels)},
        {"name": "Run 43", "labels": {"b": "1"}},
    ]
    assert service.record_findings(first.id) == []
    with service.database.write() as connection:
        connection.execute(transfer.update().where(transfer.c.id == first.id).values(name="Run 42"))
    assert [(one.kind, one.row) for one in service.record_findings(first.id)] == [("transfer_changed", "name")]
    keyed = service.submit_or_resume(spec_number(2), actor="ada", idempotency_key="k", description=RUN)
    repeated = service.submit_or_resume(
        spec_number(2), actor="ada", idempotency_key="k", description=Description("other")
    )
    assert repeated.id == keyed.id
    assert service.status(keyed.id).description == RUN, "a repeated request changes nothing"


@pytest.mark.every_database
def test_rows_of_before_have_none(service: Service) -> None:
    transfer_id = _submit(service, 1)

    with service.database.read() as connection:
        row = connection.execute(sa.select(transfer.c.name, transfer.c.labels)).one()
    assert tuple(row) == (None, None)
    assert service.status(transfer_id).description == Description()
    assert _described(service, transfer_id) == [{}]


@pytest.mark.every_database
def test_lists_are_filtered_by_name_and_labels(service: Service) -> None:
    ids = [
        _submit(service, 0, "Run 42", project="X", site="Köln"),
        _submit(service, 1, "run 43", project="X", **{"team/a.b": "1"}),
        _submit(service, 2, "100%", project="x\" ' \\ %"),
        _submit(service, 3, None, empty=""),
        _submit(service, 4),
    ]

    def found(**wanted: Any) -> set[int]:
        page = service.transfer_page(TransferFilter(**wanted))
        return {ids.index(one.id) for one in page.entries}

    assert found(name="RUN") == {0, 1}
    assert found(name="%") == {2}
    assert found(text="run 4") == {0, 1}
    assert found(labels=(("project", "X"),)) == {0, 1}
    assert found(labels=(("project", None),)) == {0, 1, 2}
    assert found(labels=(("project", "X"), ("site", "Köln"))) == {0}
    assert found(labels=(("team/a.b", "1"),)) == {1}
    assert found(labels=(("project", "x\" ' \\ %"),)) == {2}
    assert found(labels=(("empty", None),)) == {3}
    assert found(labels=(("empty", ""),)) == {3}
    assert found(labels=(("project", "x"),)) == set()
    assert found(labels=(("project", "X\0"),)) == set()
    assert found(name="43", labels=(("project", "X"),)) == {1}


@pytest.mark.every_database
def test_a_unique_name_stands_for_the_id(service: Service) -> None:
    run, twice, again, hexadecimal = (
        _submit(service, 1, "Run 42"), _submit(service, 2, "nightly"), _submit(service, 3, "nightly"),
        _submit(service, 4, "beef"),
    )  # fmt: skip
    of_id = _submit(service, 5, run)

    assert service.status("Run 42").id == run
    assert service.cancel("Run 42", actor="ada").id == run
    assert service.status("beef").id == hexadecimal
    assert service.status(run).id == run, "an id comes before a name"
    assert service.status(of_id).description.name == run
    with pytest.raises(NotFoundError, match="Several transfers have the name 'nightly'") as why:
        service.status("nightly")
    assert {twice, again} == {one for one in (twice, again) if one in why.value.message}
    for text in ("run 42", "Run", "", " ", "Run 42\0", "\udcff", "x" * 300):
        with pytest.raises(NotFoundError):
            service.status(text)
    service.serves = True
    with pytest.raises(NotFoundError, match="There is no transfer 'Run 42'"):
        service.status("Run 42")


def test_a_name_means_the_transfer_and_not_its_verifications(service: Service) -> None:
    run = _submit(service, 1, "Run 42")
    assert service.cancel(run, actor="ada").state == "cancelled"
    looks = [control.verify(service, run, actor="ada").id]
    service.cancel(looks[0], actor="ada")
    looks.append(control.verify(service, run, actor="ada", content=True).id)

    assert {service.status(one).description.name for one in looks} == {"Run 42"}
    assert service.status("Run 42").id == run
    again = _submit(service, 2, "Run 42")
    with pytest.raises(NotFoundError) as why:
        service.status("Run 42")
    assert all(one in why.value.message for one in (run, again))
    assert not any(one in why.value.message for one in looks)


def test_a_description_that_is_not_valid_starts_nothing(service: Service) -> None:
    for description in (Description(""), Description("a\nb"), Description(labels={"A": "1"})):
        with pytest.raises(UsageError):
            service.submit_or_resume(spec_number(1), actor="ada", description=description)

    assert service.transfers() == []


def test_transfers_of_a_schedule_have_its_name_and_labels(service: Service) -> None:
    made = schedules.add(
        service, "0 2 * * *", spec_number(1), actor="ada", name="nightly", labels={"project": "X"}
    )  # fmt: skip
    bare = schedules.add(service, "0 2 * * *", spec_number(2), actor="ada")

    run, other = (schedules.run_now(service, one.name, actor="ada") for one in (made, bare))

    assert schedules.find_schedule(service, "nightly").labels == {"project": "X"}
    assert run.transfer_id is not None
    assert other.transfer_id is not None
    assert service.status(run.transfer_id).description == Description("nightly", {"project": "X"})
    assert service.status(other.transfer_id).description == Description(bare.name)
    assert schedules.history(service, "nightly")[0].data["labels"] == {"project": "X"}
    with pytest.raises(UsageError, match="cannot be the key"):
        schedules.add(service, "0 2 * * *", spec_number(3), actor="ada", labels={"A": "1"})


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_the_command_line_takes_and_shows_them(ferry: Ferry) -> None:
    ferry.fill({"run/a": 1})
    service, endpoint = ferry.service, ferry.reached.endpoint_url
    source, target = f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/"

    refused = command(service, "cp", source, target, "--name", "a\nb", "--endpoint-url", endpoint)
    assert refused.returncode == 2
    assert "The name of a transfer has 1 to 200 characters" in refused.stderr
    done = command(
        service, "cp", source, target, "--name", "Run 42", "--label", "project=X", "--label", "a/b=1", "--endpoint-url",
        endpoint,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "  name      Run 42\n" in done.stderr
    checked = command(service, "check", source, target, "--label", "project=Y", "--endpoint-url", endpoint)
    assert checked.returncode == 0, checked.stderr

    listed = command(service, "status", "--label", "project=X").stdout.splitlines()
    assert [line.split()[1] for line in listed[:1]] == ["NAME"]
    assert len(listed) == 2
    assert "  Run 42  done " in listed[1]
    assert len(command(service, "status", "--label", "project").stdout.splitlines()) == 3
    assert "No transfer matched." in command(service, "status", "--name", "other").stderr
    shown = command(service, "status", "Run 42").stdout
    assert "name      Run 42\nlabels    a/b=1, project=X\n" in shown
    facts = json.loads(command(service, "status", "Run 42", "--json").stdout)
    assert (facts["name"], facts["labels"]) == ("Run 42", {"a/b": "1", "project": "X"})
    assert json.loads(command(service, "report", "Run 42", "--format", "json").stdout)["name"] == "Run 42"


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_clients_over_http_give_them_and_filter_by_them(ferry: Ferry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ferry.reached.endpoint_url)
    ferry.fill({"run/a": 1})
    ferry.service.serves = True
    place = {"endpoint_url": ferry.reached.endpoint_url}
    body = {"source": f"s3://{ferry.source}/run/", "target": f"s3://{ferry.target}/in/", **place}
    described = {"name": "Run 42", "labels": {"project": "X"}}
    with http_of(ferry.service) as client:
        answer = client.post("/api/v1/transfers", json=body | described)
        assert answer.status_code == 202, answer.text
        transfer_id = answer.json()["id"]
        found = client.get(f"/api/v1/transfers/{transfer_id}").json()
        assert {key: found[key] for key in described} == described
        again = client.post("/api/v1/transfers", json=body | {"name": "Run 43"})
        assert (again.status_code, again.json()["id"]) == (200, transfer_id)
        others = {
            "moves": body | {"target": f"s3://{ferry.target}/moved/"},
            "checks": body | {"target": f"s3://{ferry.target}/checked/"},
            "removals": {"sources": [f"s3://{ferry.target}/gone/"], "recursive": True, **place},
            "cleanups": {"place": f"s3://{ferry.target}/", **place},
        }
        for verb, asked in others.items():
            answer = client.post(f"/api/v1/{verb}", json=asked | {"name": verb, "labels": {"project": "Y"}})
            assert answer.status_code == 202, answer.text

        def names(**filters: Any) -> list[str]:
            return [one["name"] for one in client.get("/api/v1/transfers", params=filters).json()["transfers"]]

        assert names(name="run") == ["Run 43"]
        assert set(names(label="project=Y")) == set(others)
        assert names(label=["project=X", "project"]) == ["Run 43"]
        assert client.get("/api/v1/transfers", params={"label": "A"}).status_code == 400
        assert client.get("/api/v1/transfers/Run%2043").status_code == 404, "over HTTP only ids count"
        for wrong in ({"name": "a\nb"}, {"labels": {"A": "1"}}, {"labels": {"a": "x" * 201}}):
            assert client.post("/api/v1/transfers", json=body | wrong).status_code == 400
        schedule = {"cron": "0 2 * * *", "name": "nightly", "transfer": body | {"labels": {"project": "Z"}}}
        made = client.post("/api/v1/schedules", json=schedule)
        assert (made.status_code, made.json()["labels"]) == (201, {"project": "Z"})


def test_a_transfer_is_renamed_and_labelled_after_its_start_and_after_its_end(ferry: Ferry) -> None:
    ferry.fill({"run/a": 1})
    service = ferry.service
    transfer_id = service.submit_or_resume(ferry.spec(), actor="ada", description=RUN).id
    control.set_description(service, transfer_id, actor="bob", labels={"site": None, "a/b": "c"})
    ferry.work()
    until_ended(service, transfer_id)

    control.set_description(service, transfer_id, actor="bob", name="Run 43", labels={"project": "Y"})
    control.set_description(service, transfer_id, actor="bob", name="Run 43")  # as it is
    control.set_description(service, transfer_id, actor="bob", name="")

    assert service.status(transfer_id).description == Description(None, {"a/b": "c", "project": "Y"})
    assert _described(service, transfer_id) == [
        {"name": "Run 42", "labels": dict(RUN.labels)},
        {"name": "Run 42", "labels": {"a/b": "c", "project": "X"}},
        {"name": "Run 43", "labels": {"a/b": "c", "project": "Y"}},
        {"name": None, "labels": {"a/b": "c", "project": "Y"}},
    ]
    assert [one.actor for one in service.events(transfer_id) if one.kind == "described"] == ["bob"] * 3
    assert list(auditing.verify(service.database, AuditCounts())) == []


def test_all_labels_are_replaced_at_once(service: Service) -> None:
    transfer_id = _submit(service, 1, None, **{f"old{number}": "x" for number in range(20)})
    given = {f"old{number}": None for number in range(20)} | {f"new{number}": "y" for number in range(20)}

    status = control.set_description(service, transfer_id, actor="ada", labels=given)

    assert status.description.labels == {f"new{number}": "y" for number in range(20)}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "a\nb"}, "name"),
        ({"name": " "}, "name"),
        ({"labels": {"A B": "x"}}, "A B"),
        ({"labels": {"A B": None}}, "A B"),
        ({"labels": {"a": "\u2028"}}, "label 'a'"),
        ({"labels": {f"k{n}": "x" for n in range(21)}}, "20 labels"),
    ],
)
def test_a_change_that_is_not_valid_changes_nothing(service: Service, change: dict[str, Any], named: str) -> None:
    transfer_id = _submit(service, 1, "Run 42", project="X")

    with pytest.raises(UsageError, match=named):
        control.set_description(service, transfer_id, actor="ada", **change)

    assert service.status(transfer_id).description == Description("Run 42", {"project": "X"})
    with pytest.raises(NotFoundError):
        control.set_description(service, "feed", actor="ada", name="x")


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_the_command_line_renames(service: Service) -> None:
    transfer_id = _submit(service, 1, "Run 42", project="X", site="lab1")

    done = command(service, "label", "Run 42", "--name", "Run 43", "--label", "project=Y", "--remove", "site")

    assert done.returncode == 0, done.stderr
    assert f"seqferry status {transfer_id}" in done.stderr
    assert service.status(transfer_id).description == Description("Run 43", {"project": "Y"})
    assert command(service, "label", "Run 43", "--label", "a=b", "--remove", "a").returncode == 2


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_clients_rename_over_http(service: Service) -> None:
    transfer_id = _submit(service, 1, "Run 42", project="X", site="lab1")
    with http_of(service) as client:
        path = f"/api/v1/transfers/{transfer_id}"

        answer = client.patch(path, json={"name": "Run 43", "labels": {"site": None, "new": "n"}, "priority": 3}).json()
        assert (answer["name"], answer["labels"], answer["priority"]) == ("Run 43", {"new": "n", "project": "X"}, 3)
        answer = client.patch(path, json={"name": None}).json()
        assert (answer["name"], answer["labels"], answer["priority"]) == (None, {"new": "n", "project": "X"}, 3)
        assert client.patch(path, json={"labels": {"A": "x"}}).status_code == 400
        for bad in ({"name": "a\nb"}, {"labels": {"A": "x"}}):  # of a change with two parts neither is done
            assert client.patch(path, json={"priority": 9, **bad}).status_code == 400
        assert client.patch(path, json={"name": "x", "max_bandwidth": "odd"}).status_code == 400
        kept = service.status(transfer_id)
        assert (kept.adjustment.priority, kept.description.name) == (3, None)
        assert client.patch(path, json={}).json()["labels"] == {"new": "n", "project": "X"}
