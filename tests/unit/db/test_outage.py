"""Errors of a database: which of them pass by themselves."""

from __future__ import annotations

import pytest

from seqferry.db import outage
from seqferry.model.errors import ConfigError


def _error(text: str, *, of_driver: bool = True) -> ConfigError:
    error = ConfigError(f"The database postgresql://db/lab cannot be used: {text}")
    error.__cause__ = OSError(text) if of_driver else None
    return error


@pytest.mark.parametrize(
    "text",
    [
        "connection to server at db, port 5432 failed: Connection refused",
        "connection failed: timeout expired",
        "connection timed out",
        "No route to host",
        "Network is unreachable",
        "could not translate host name: Temporary failure in name resolution",
        "server closed the connection unexpectedly",
        "could not receive data from server: Connection reset by peer",
        "FATAL:  the database system is starting up",
        "FATAL:  the database system is shutting down",
        "FATAL:  the database system is in recovery mode",
        "the database system is not yet accepting connections",
        "terminating connection due to administrator command",
        "sorry, too many clients already",
        "FATAL: too many connections for role ada",
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ],
)
def test_an_outage_that_passes_is_waited_for(text: str) -> None:
    assert outage.is_unavailable(_error(text))


@pytest.mark.parametrize(
    "text",
    [
        'FATAL:  password authentication failed for user "ada"',
        'FATAL:  database "lab" does not exist',
        'FATAL:  no pg_hba.conf entry for host "10.1.2.3"',
        "permission denied for schema public",
        "could not translate host name: Name or service not known",
        "",
    ],
)
def test_an_error_that_waiting_does_not_cure_is_told(text: str) -> None:
    assert not outage.is_unavailable(_error(text))


def test_a_finding_of_ours_is_no_outage_whatever_its_words() -> None:
    assert not outage.is_unavailable(_error("connection refused", of_driver=False))
