"""A request is checked once and each of its places is resolved once, from the command line or HTTP to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from http_client import http_of

from seqferry.cli.app import run
from seqferry.model.locations import Location, S3Location
from seqferry.model.models import TransferSpec
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec import identity, properties
from support.servers import S3Server

ONCE = {"checks": 1, "resolutions": 2}
"""One whole check, and a resolution of the source and of the target."""


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, versitygw: S3Server) -> Counter[str]:
    """What was done to specs so far: whole checks, and resolutions of places in S3."""
    found = Counter[str]()
    look, check = identity.resolve_place, properties.check

    def counted_look(place: Location) -> Location:
        # Without a bucket it stands for what this process can do.
        found["resolutions"] += isinstance(place, S3Location) and place.access is None and place.bucket != ""
        return look(place)

    def counted_check(spec: TransferSpec) -> None:
        found["checks"] += 1
        check(spec)

    for name, value in versitygw.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(identity, "resolve_place", counted_look)
    monkeypatch.setattr(properties, "check", counted_check)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cp s3://A/run/ s3://B/", ONCE),
        ("cp s3://A/run/ s3://B/ --attempts 3", ONCE),
        ("cp s3://A/run/ s3://B/ --no-preflight", ONCE),
        ("cp s3://A/run/ s3://B/ --preflight --tpslimit 90", ONCE),
        ("cp s3://A/run/ s3://B/ --detach --attempts 3", ONCE),
        ("cp s3://A/run/ s3://B/ --dry-run --attempts 3 --no-preflight", ONCE),
        ("sync s3://A/run/ s3://B/ --attempts 3 --no-preflight", ONCE),
        ("mv s3://A/run/ s3://B/ --attempts 3", ONCE),
        ("cp s3://A/run/ FOLDER/ --attempts 3", {"checks": 1, "resolutions": 1}),
        ("pack s3://A/run/ s3://B/run.tar", ONCE),
        ("rm s3://A/run/ --recursive --yes", ONCE),
        ("cleanup s3://A/ --dry-run", ONCE),
        ("schedule add @daily sync s3://A/run/ s3://B/", ONCE),
        # Each line, and the list of both.
        ("run LIST", {"checks": 3, "resolutions": 4}),
    ],
)
def test_a_command_is_checked_and_resolved_once(
    line: str,
    expected: dict[str, int],
    done: Counter[str],
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"A": make_bucket(versitygw), "B": make_bucket(versitygw)}
    for key in ("run/a", "run/b"):
        versitygw.client().put_object(Bucket=names["A"], Key=key, Body=b"hello")
    monkeypatch.setenv("SEQFERRY_STATE_DIR", str(tmp_path / "state"))
    lines = [f"cp s3://{names['A']}/run/{key} s3://{names['B']}/{key}" for key in "ab"]
    (tmp_path / "list").write_text("\n".join(lines))
    words = line.replace("FOLDER", str(tmp_path / "to")).replace("LIST", str(tmp_path / "list"))
    for short, bucket in names.items():
        words = words.replace(f"s3://{short}/", f"s3://{bucket}/")

    assert run(words.split()) == 0

    assert dict(done) == expected


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/transfers", {"source": "s3://A/run/", "target": "s3://B/"}),
        ("/api/v1/transfers", {"source": "s3://A/run/", "target": "s3://B/", "preflight": False, "tpslimit": 90}),
        ("/api/v1/transfers", {"source": "s3://A/run/", "target": "s3://B/run.tar", "operation": "pack"}),
        ("/api/v1/moves", {"source": "s3://A/run/", "target": "s3://B/"}),
        ("/api/v1/removals", {"sources": ["s3://A/run/"], "recursive": True}),
        ("/api/v1/checks", {"source": "s3://A/run/", "target": "s3://B/"}),
    ],
)
def test_a_request_over_http_is_checked_and_resolved_once(
    path: str,
    body: dict[str, object],
    headers: dict[str, str],
    done: Counter[str],
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    sqlite_settings: Settings,
) -> None:
    names = {"A": make_bucket(versitygw), "B": make_bucket(versitygw)}

    def named(value: object) -> object:
        if isinstance(value, list):
            return [named(one) for one in value]
        if not isinstance(value, str):
            return value
        for short, bucket in names.items():
            value = value.replace(f"s3://{short}/", f"s3://{bucket}/")
        return value

    with Service.open(sqlite_settings) as service, http_of(service) as client:
        answer = client.post(path, json={key: named(value) for key, value in body.items()}, headers=headers)

    assert answer.status_code == 202, answer.text
    assert dict(done) == ONCE
