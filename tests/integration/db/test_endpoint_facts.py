"""The record of what endpoints can do: bounded, by endpoint and bucket, and careful with what it reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from seqferry.db import endpoint_facts
from seqferry.db.database import Database
from seqferry.db.endpoint_facts import LIFETIME, MAX_ENDPOINTS, EndpointFact
from seqferry.db.tables import endpoint_fact
from seqferry.doctor.capabilities import MEASURED
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.service.service import Service

_URL = "http://storage.example:9000"
_COMPATIBILITY = (Path(__file__).parents[3] / "docs/guarantees/compatibility.md").read_text()


def _place(bucket: str, url: str = _URL) -> S3Location:
    return S3Location(bucket, endpoint_url=url)


@pytest.fixture
def database(service: Service) -> Database:
    return service.database


def _learned(database: Database, place: S3Location) -> list[str]:
    return [one.text for one in endpoint_facts.read(database, place).learned]


def test_the_newest_hundred_endpoints_are_kept(database: Database) -> None:
    for number in range(MAX_ENDPOINTS + 3):
        answers = {"versions": EndpointFact("can be listed", float(number))}
        endpoint_facts.write_answers(database, _place(f"bucket-{number}"), "", answers)

    with database.read() as connection:
        kept = connection.execute(sa.select(endpoint_fact.c.bucket)).scalars().all()
    assert set(kept) == {f"bucket-{number}" for number in range(3, MAX_ENDPOINTS + 3)}


def test_a_bucket_at_two_endpoints_has_two_records(database: Database) -> None:
    endpoint_facts.write_answers(database, _place("data"), "", {"versions": EndpointFact("here", 1.0)})
    endpoint_facts.write_answers(
        database, _place("data", "https://other.example"), "", {"versions": EndpointFact("x", 1.0)}
    )

    assert endpoint_facts.read(database, _place("data", f"{_URL}/")).answers["versions"].text == "here"
    assert endpoint_facts.read(database, _place("data", "https://third.example")).answers == {}


def test_what_is_learned_stays_beside_the_answers_of_a_look(database: Database) -> None:
    spec = TransferSpec(_place("from"), _place("to"))
    endpoint_facts.write_answers(database, spec.target, "proof", {"versions": EndpointFact("can be listed", 1.0)})
    for _ in range(2):
        endpoint_facts.record_warning(database, spec, "s3://to: the endpoint does not list open uploads.")
    endpoint_facts.record_warning(database, spec, "s3://elsewhere: not a place of this transfer.")

    found = endpoint_facts.read(database, spec.target)
    assert (found.identity, found.answers["versions"].text) == ("proof", "can be listed")
    assert [one.text for one in found.learned] == ["the endpoint does not list open uploads."]
    assert _learned(database, spec.source) == []


def test_a_note_about_tags_is_one_about_the_source(database: Database) -> None:
    source, target = _place("data"), _place("data", "https://other.example")
    spec = TransferSpec(source, target)
    endpoint_facts.record_warning(database, spec, "s3://data: no tags of objects (GetObjectTagging NotImplemented).")
    endpoint_facts.record_warning(database, spec, "s3://data: does not offer this copy (CopyObject NotImplemented).")

    assert "no tags" in _learned(database, source)[0]
    assert "this copy" in _learned(database, target)[0]


@pytest.mark.every_database
def test_processes_that_learn_at_the_same_time_lose_nothing(database: Database) -> None:
    specs = [TransferSpec(_place("from"), _place(f"to-{number}")) for number in range(16)]

    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda spec: endpoint_facts.record_warning(database, spec, f"s3://{spec.target.container}: x"), specs
            )
        )

    assert all(_learned(database, spec.target) == ["x"] for spec in specs)


def test_an_address_with_a_password_is_not_kept(database: Database) -> None:
    place = _place("data", "https://ada:secret@storage.example")

    endpoint_facts.write_answers(database, place, "", {"versions": EndpointFact("can be listed", 1.0)})

    with database.read() as connection:
        assert connection.execute(sa.select(endpoint_fact)).all() == []


@pytest.mark.parametrize(("age", "believed"), [(0.0, True), (LIFETIME, True), (LIFETIME + 1, False), (-1.0, False)])
def test_an_answer_is_believed_for_a_week(age: float, believed: bool) -> None:
    assert (EndpointFact("x", 1e9).age(1e9 + age) is not None) is believed


@pytest.mark.parametrize("text", ["{", '{"versions": 7}', "[" * 100_000, '{"versions": {"text": "x", "at": NaN}}'])
def test_a_damaged_entry_counts_as_none_and_is_written_anew(database: Database, text: str) -> None:
    endpoint_facts.write_answers(database, _place("data"), "", {"versions": EndpointFact("here", 1.0)})
    with database.write() as connection:
        connection.execute(endpoint_fact.update().values(answers=text))

    assert endpoint_facts.read(database, _place("data")).answers == {}
    endpoint_facts.write_answers(database, _place("data"), "", {"versions": EndpointFact("here", 2.0)})
    assert endpoint_facts.read(database, _place("data")).answers["versions"].at == 2.0


@pytest.mark.parametrize("text", MEASURED.values())
def test_the_servers_that_count_as_measured_are_those_of_the_page(text: str) -> None:
    name, version = text.split()[:2]
    section = _COMPATIBILITY.split(f"\n### {name}\n")[1].split("\n### ")[0]

    assert f"{name} {version}" in _COMPATIBILITY
    assert "If-None-Match is honoured" in section
    assert "the service keeps CRC64NVME" in section
    assert "- Tags: works" in section or "- Tags: learned" in section
