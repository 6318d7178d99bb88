"""``seqferry doctor`` and the preflight of a transfer, on real servers."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli, Places

from seqferry.doctor.doctor import file_system
from support.proxy import Proxy, access_denied, error
from support.servers import S3Server


@pytest.fixture
def proxy(cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]) -> Proxy:
    """The storage as the command reaches it."""
    made = make_proxy(places.server)
    cli.server = made.server
    return made


@pytest.mark.every_server
def test_doctor_finds_nothing_where_all_is_well(cli: Cli, places: Places) -> None:
    places.fill(["a"])

    ran = cli.run("doctor", *places.uris, "--json")

    found = {one["topic"]: one for one in ran.events}
    assert ran.code == 0, ran.out + ran.err
    assert {"versions", "state folder", "disk", "database", "open files", "memory", "credentials"} <= found.keys()
    assert found["endpoint"]["level"] == "ok", found["endpoint"]
    assert found["source: read"]["level"] == "ok"
    key = places.server.environment()["AWS_ACCESS_KEY_ID"]
    assert f"the access key {key} of the environment" in found["credentials"]["text"]
    assert f"with the access key {key} " in found["source"]["text"]
    assert places.server.environment()["AWS_SECRET_ACCESS_KEY"] not in ran.out


def test_doctor_says_what_to_do_about_each_trouble(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(["a"])
    proxy.rule("HeadObject", access_denied())
    ids = cli.run("cp", *places.uris, "--detach").out.strip()
    assert ids

    ran = cli.run("doctor", places.uris[0], "s3://no-such-bucket-here/", "--json")

    found = {one["topic"]: one for one in ran.events}
    assert ran.code == 1
    assert all(one["advice"] for one in ran.events if one["level"] != "ok")
    assert found["source: read"]["level"] == "problem"
    assert "no-such-bucket-here" in found["target"]["text"]
    assert "seqferry worker" in found["worker"]["advice"]
    unreachable = cli.run("doctor", places.uris[0], "--endpoint-url", "http://127.0.0.1:9")
    assert (unreachable.code, "http://127.0.0.1:9" in unreachable.out) == (1, True)


def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\nbad line\n")

    assert file_system(tmp_path / "state", str(mounts)) == "nfs4"
    assert file_system(Path("/elsewhere"), str(mounts)) == "ext4"
    assert file_system(tmp_path, str(tmp_path / "none")) is None


def test_a_preflight_groups_what_would_fail_by_cause_and_moves_nothing(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill([f"lane{number:02d}" for number in range(12)])
    proxy.rule("GetObject", access_denied(), key="run42/lane0*")

    shown = cli.run("preflight", *places.uris)
    told = cli.run("preflight", *places.uris, "--json").events[-1]

    assert shown.code == 1
    assert "12 objects checked, 10 would fail." in shown.out
    assert "10 objects: AccessDenied (GetObject)" in shown.out
    assert "run42/lane07" in shown.out
    assert (told["objects"], told["objects_failed"]) == (12, 10)
    assert [(one["error_code"], one["count"]) for one in told["causes"]] == [("AccessDenied", 10)]
    refused = cli.run("cp", *places.uris, "--preflight")
    assert refused.code == 1
    assert "Nothing was started" in refused.err
    assert places.arrived() == {}
    proxy.clear_rules()
    assert cli.run("cp", *places.uris, "--preflight").code == 0
    assert len(places.arrived()) == 12
    assert json.loads(cli.run("preflight", *places.uris, "--json").out)["objects_failed"] == 0


_PROBES = {"ListObjectVersions", "ListMultipartUploads", "GetObject"}
_TOPICS = {"versions", "open uploads", "lifecycle", "object", "ranges"}


def _doctor(cli: Cli, proxy: Proxy, *arguments: str) -> tuple[dict[str, dict[str, Any]], Counter[str]]:
    """The findings by topic, and the requests that were made for them."""
    proxy.clear_log()
    ran = cli.run("doctor", *arguments, "--json")
    assert ran.code == 0, ran.out + ran.err
    return {one["topic"]: one for one in ran.events}, Counter(one.operation for one in proxy.log())


def _kept(cli: Cli) -> list[dict[str, Any]]:
    with sqlite3.connect(cli.state / "seqferry.sqlite") as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("select * from endpoint_fact")]


def _write(cli: Cli, answers: str) -> None:
    with sqlite3.connect(cli.state / "seqferry.sqlite") as database:
        database.execute("update endpoint_fact set answers = ?", (answers,))


@pytest.mark.every_server
def test_doctor_asks_once_what_an_endpoint_can_do_and_again_on_demand(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(["a"])
    source = places.uris[0]

    first, asked = _doctor(cli, proxy, source)
    second, asked_later = _doctor(cli, proxy, source)
    shown = cli.run("doctor", source).out
    third, asked_again = _doctor(cli, proxy, source, "--refresh")

    assert asked.keys() >= _PROBES
    assert not asked_later.keys() & _PROBES
    assert asked_later["HeadObject"] == 1 < asked["HeadObject"] == asked_again["HeadObject"]
    assert {name: asked[name] for name in _PROBES} == {name: asked_again[name] for name in _PROBES}
    for topic in _TOPICS:
        assert first[f"source: {topic}"]["age_seconds"] == third[f"source: {topic}"]["age_seconds"] == 0.0
        assert second[f"source: {topic}"]["age_seconds"] > 0.0
        assert second[f"source: {topic}"]["text"].startswith(first[f"source: {topic}"]["text"])
    assert shown.count("--refresh checks again") == len(_TOPICS)
    assert first["source: versions"]["text"] == "can be listed; the first page shows that none are kept"
    assert first["source: ranges"]["text"] == "one byte of an object can be read"
    assert first["source: object"]["text"].startswith("HeadObject shows ")
    assert "as measured" in first["source: server"]["text"]
    assert all(one["age_seconds"] is None for one in first.values() if not one["topic"].startswith("source: "))


def test_doctor_looks_again_when_a_week_has_passed_or_the_record_is_damaged(
    cli: Cli, places: Places, proxy: Proxy
) -> None:
    places.fill(["a"])
    source = places.uris[0]
    _doctor(cli, proxy, source)
    answers = json.loads(_kept(cli)[0]["answers"])
    for one in answers.values():
        one["at"] -= 8 * 86400
    for text in (json.dumps(answers), "{", "[7]", "[" * 100_000, "\x00"):
        _write(cli, text)
        _, asked = _doctor(cli, proxy, source)
        assert asked.keys() >= _PROBES, text[:80]
        assert len(_kept(cli)) == 1


def test_the_record_of_endpoints_holds_no_secret(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(["a"])

    _doctor(cli, proxy, *places.uris)

    assert {one["bucket"] for one in _kept(cli)} == {places.source, places.target}
    for secret in ("moversecret", "adminsecret"):
        assert secret not in json.dumps(_kept(cli))


def test_what_these_credentials_may_not_ask_is_not_kept(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(["a"])
    rule = proxy.rule("ListMultipartUploads", access_denied())

    refused, _ = _doctor(cli, proxy, *places.uris)
    proxy.remove_rule(rule)
    allowed, asked = _doctor(cli, proxy, *places.uris)

    assert refused["source: open uploads"]["level"] == "ok"
    assert refused["target: open uploads"]["level"] == "warning"
    assert "s3:ListBucketMultipartUploads" in refused["target: open uploads"]["advice"]
    assert allowed["target: open uploads"]["text"] == "can be listed"
    assert asked["ListMultipartUploads"] == 2
    assert asked["ListObjectVersions"] == 0


@pytest.mark.every_server
def test_what_the_service_lacks_is_kept(cli: Cli, places: Places, proxy: Proxy) -> None:
    proxy.rule("ListObjectVersions", error(501, "NotImplemented"))

    lacking, _ = _doctor(cli, proxy, places.uris[1])
    later, asked = _doctor(cli, proxy, places.uris[1])

    assert lacking["source: versions"]["text"] == "not offered (ListObjectVersions NotImplemented)"
    assert later["source: versions"]["text"].startswith("not offered (ListObjectVersions NotImplemented) (checked")
    assert asked["ListObjectVersions"] == 0


@pytest.mark.every_server
def test_doctor_tells_what_transfers_have_learned_and_how_they_copied(cli: Cli, places: Places, proxy: Proxy) -> None:
    places.fill(["a"])
    unknown, _ = _doctor(cli, proxy, *places.uris)
    proxy.rule("CopyObject", error(501, "NotImplemented"))
    assert cli.run("cp", *places.uris).code == 0
    assert len(places.arrived()) == 1

    found, _ = _doctor(cli, proxy, *places.uris)

    assert "no copy within this storage" in unknown["target: copies"]["text"]
    assert "target: learned" not in unknown
    assert "the endpoint does not offer this copy (CopyObject NotImplemented)" in found["target: learned"]["text"]
    assert found["target: learned"]["age_seconds"] >= 0.0
    assert "source: learned" not in found
    assert (
        found["target: copies"]["text"] == "within this storage by the bytes passing through this process, as on record"
    )
