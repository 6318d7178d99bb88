"""Actors of transfers: clients over HTTP, and users of the command line."""

from __future__ import annotations

import pytest

from seqferry.db import actors


@pytest.mark.parametrize(
    ("actor", "client", "is_http"),
    [
        ("http ada from 10.1.2.3", "http ada", True),
        ("http ada from ::1", "http ada", True),
        ("http ada", "http ada", True),
        ("http", "http", True),
        ("http from 10.1.2.3", "http", True),
        # Names of tokens are free: the last word counts.
        ("http from from 10.1.2.3", "http from", True),
        ("ada@lab", "ada@lab", False),
        ("ada from lab@host", "ada from lab@host", False),
        ("https from x", "https from x", False),
        ("worker host-1-0badcafe", "worker host-1-0badcafe", False),
        ("", "", False),
    ],
)
def test_a_client_is_the_name_of_its_token_wherever_it_is(actor: str, client: str, is_http: bool) -> None:
    assert actors.is_http(actor) is is_http
    assert actors.client_of(actor) == client
    assert actors.client_of(client) == client
