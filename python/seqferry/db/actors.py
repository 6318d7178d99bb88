"""Actors of transfers: clients over HTTP, whose tokens name them, and users of the command line."""

from __future__ import annotations


def client_of(actor: str) -> str:
    """An actor; over HTTP the name of its token, wherever it is."""
    return actor.rpartition(" from ")[0] if is_http(actor) and " from " in actor else actor


def is_http(actor: str) -> bool:
    """True when an actor is a client over HTTP."""
    return actor.partition(" ")[0] == "http"
