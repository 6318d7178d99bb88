"""Values of settings, read from their texts; addresses of databases are in ``test_config``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from seqferry.settings import values

_PLACE, _ENDPOINT, _RETENTION, _MODE, _NUMBER = (
    values.anchor_place,
    values.endpoint_url,
    values.retention,
    values.lock_mode,
    values.whole_number,
)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (_PLACE, "s3://anchors", "s3://anchors"),
        (_PLACE, "s3://anchors/", "s3://anchors"),
        (_PLACE, "s3://a.b_c-1/lab/ledger/", "s3://a.b_c-1/lab/ledger"),
        (_PLACE, "s3://anchors/Läufe und mehr", "s3://anchors/Läufe und mehr"),
        (_ENDPOINT, "https://s3.example.org", "https://s3.example.org"),
        (_ENDPOINT, "http://[::1]:9000/path", "http://[::1]:9000/path"),
        (_RETENTION, "1h", "1h"),
        (_RETENTION, "99999y", "99999y"),
        (_RETENTION, "90d", "90d"),
        (_RETENTION, "4w", "4w"),
        (_MODE, "compliance", "COMPLIANCE"),
        (_MODE, "Governance", "GOVERNANCE"),
        (_NUMBER, "0", 0),
        (_NUMBER, "007", 7),
        (_NUMBER, " 42 ", 42),
        (_NUMBER, "9" * 18, int("9" * 18)),
    ],
)
def test_a_value_is_read(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (_PLACE, ""),
        (_PLACE, "anchors"),
        (_PLACE, "s3://"),
        (_PLACE, "s3://a"),
        (_PLACE, "s3://-a"),
        (_PLACE, "s3://Anchors"),
        (_PLACE, f"s3://{'a' * 64}"),
        (_PLACE, "s3://anchors/*"),
        (_PLACE, "s3://anchors/a?"),
        (_PLACE, "https://anchors/x"),
        (_ENDPOINT, ""),
        (_ENDPOINT, "s3.example.org"),
        (_ENDPOINT, "ftp://s3.example.org"),
        (_ENDPOINT, "https:///path"),
        (_ENDPOINT, "https://user:secret@s3.example.org"),
        (_RETENTION, ""),
        (_RETENTION, "0d"),
        (_RETENTION, "010d"),
        (_RETENTION, "90"),
        (_RETENTION, "90m"),
        (_RETENTION, "100000d"),
        (_RETENTION, "-1d"),
        (_RETENTION, "90d\n"),
        (_MODE, ""),
        (_MODE, "legal"),
        (_NUMBER, ""),
        (_NUMBER, "-1"),
        (_NUMBER, "+1"),
        (_NUMBER, "1.0"),
        (_NUMBER, "1e3"),
        (_NUMBER, "1_000"),
        (_NUMBER, "²"),
        (_NUMBER, "9" * 19),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError):
        read(text)


def test_an_endpoint_with_credentials_is_not_shown() -> None:
    with pytest.raises(ValueError) as refused:
        values.endpoint_url("https://user:secret@s3.example.org")

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("postgres://db", "postgresql+psycopg://db"),
        (" postgresql://ada@db/lab ", "postgresql+psycopg://ada@db/lab"),
        ("postgresql://a,b/lab", "postgresql+psycopg:///lab?host=a,b&port=5432,5432"),
        ("postgresql://ada:x@a:1,[::1]:2", "postgresql+psycopg://ada:x@/?host=a,::1&port=1,2"),
        ("postgresql://a,b/lab?sslmode=require", "postgresql+psycopg:///lab?host=a,b&port=5432,5432&sslmode=require"),
        ("postgresql://a:,b:7/lab", "postgresql+psycopg:///lab?host=a,b&port=5432,7"),
        # A comma of a password makes no hosts.
        ("postgresql://ada:x,y@db/lab", "postgresql+psycopg://ada:x,y@db/lab"),
    ],
)
def test_several_hosts_become_options(written: str, read: str) -> None:
    assert values.postgres_address(written) == read
