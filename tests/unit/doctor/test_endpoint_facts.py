"""The record of what endpoints can do: bounded, by endpoint and bucket, and careful with what it reads."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seqferry.doctor import endpoint_facts
from seqferry.doctor.capabilities import MEASURED
from seqferry.doctor.endpoint_facts import LIFETIME, MOST_ENDPOINTS, Answer
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec

_URL = "http://storage.example:9000"
_COMPATIBILITY = (Path(__file__).parents[3] / "docs/guarantees/compatibility.md").read_text()


def _place(bucket: str, url: str = _URL) -> S3Location:
    return S3Location(bucket, endpoint_url=url)


def _learned(state: Path, place: S3Location) -> list[str]:
    return [one.text for one in endpoint_facts.read(state, place).learned]


def test_the_newest_hundred_endpoints_are_kept(tmp_path: Path) -> None:
    for number in range(MOST_ENDPOINTS + 3):
        answers = {"versions": Answer("can be listed", float(number))}
        endpoint_facts.write_answers(tmp_path, _place(f"bucket-{number}"), "", answers)

    kept = json.loads((tmp_path / "endpoints.json").read_text())["endpoints"]
    assert {one["bucket"] for one in kept} == {f"bucket-{number}" for number in range(3, MOST_ENDPOINTS + 3)}


def test_a_bucket_at_two_endpoints_has_two_records(tmp_path: Path) -> None:
    endpoint_facts.write_answers(tmp_path, _place("data"), "", {"versions": Answer("here", 1.0)})
    endpoint_facts.write_answers(tmp_path, _place("data", "https://other.example"), "", {"versions": Answer("x", 1.0)})

    assert endpoint_facts.read(tmp_path, _place("data", f"{_URL}/")).answers["versions"].text == "here"
    assert endpoint_facts.read(tmp_path, _place("data", "https://third.example")).answers == {}


def test_what_is_learned_stays_beside_the_answers_of_a_look(tmp_path: Path) -> None:
    spec = TransferSpec(_place("from"), _place("to"))
    endpoint_facts.write_answers(tmp_path, spec.target, "proof", {"versions": Answer("can be listed", 1.0)})
    for _ in range(2):
        endpoint_facts.learn(tmp_path, spec, "s3://to: the endpoint does not list open uploads.")
    endpoint_facts.learn(tmp_path, spec, "s3://elsewhere: not a place of this transfer.")

    found = endpoint_facts.read(tmp_path, spec.target)
    assert (found.identity, found.answers["versions"].text) == ("proof", "can be listed")
    assert [one.text for one in found.learned] == ["the endpoint does not list open uploads."]
    assert _learned(tmp_path, spec.source) == []


def test_a_note_about_tags_is_one_about_the_source(tmp_path: Path) -> None:
    source, target = _place("data"), _place("data", "https://other.example")
    spec = TransferSpec(source, target)
    endpoint_facts.learn(tmp_path, spec, "s3://data: no tags of objects (GetObjectTagging NotImplemented).")
    endpoint_facts.learn(tmp_path, spec, "s3://data: does not offer this copy (CopyObject NotImplemented).")

    assert "no tags" in _learned(tmp_path, source)[0]
    assert "this copy" in _learned(tmp_path, target)[0]


def test_processes_that_learn_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    specs = [TransferSpec(_place("from"), _place(f"to-{number}")) for number in range(16)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda spec: endpoint_facts.learn(tmp_path, spec, f"s3://{spec.target.container}: x"), specs))

    assert all(_learned(tmp_path, spec.target) == ["x"] for spec in specs)


def test_an_address_with_a_password_is_not_kept(tmp_path: Path) -> None:
    place = _place("data", "https://ada:secret@storage.example")

    endpoint_facts.write_answers(tmp_path, place, "", {"versions": Answer("can be listed", 1.0)})

    assert not (tmp_path / "endpoints.json").exists()


@pytest.mark.parametrize(("age", "believed"), [(0.0, True), (LIFETIME, True), (LIFETIME + 1, False), (-1.0, False)])
def test_an_answer_is_believed_for_a_week(age: float, believed: bool) -> None:
    assert (Answer("x", 1e9).age(1e9 + age) is not None) is believed


def test_a_record_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    state = tmp_path / "state"
    state.mkdir()
    endpoint_facts.write_answers(tmp_path, _place("data"), "", {"versions": Answer("elsewhere", 1.0)})
    (tmp_path / "endpoints.json").rename(other)
    (state / "endpoints.json").symlink_to(other)
    before = other.read_text()

    assert endpoint_facts.read(state, _place("data")).answers == {}
    endpoint_facts.write_answers(state, _place("data"), "", {"versions": Answer("here", 2.0)})
    assert other.read_text() == before
    assert not (state / "endpoints.json").is_symlink()


@pytest.mark.parametrize("text", MEASURED.values())
def test_the_servers_that_count_as_measured_are_those_of_the_page(text: str) -> None:
    name, version = text.split()[:2]
    section = _COMPATIBILITY.split(f"\n### {name}\n")[1].split("\n### ")[0]

    assert f"{name} {version}" in _COMPATIBILITY
    assert "If-None-Match is honoured" in section
    assert "the service keeps CRC64NVME" in section
    assert "- Tags: works" in section or "- Tags: learned" in section
