"""An application behind a real HTTP server in this process, and a client for it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx
import uvicorn.server
from fastapi import FastAPI
from starlette.types import ASGIApp

from seqferry.api import create_app
from seqferry.api.connections import server
from seqferry.service import tokens
from seqferry.service.service import Service
from seqferry.settings.tokens import owner_token
from support.waiting import eventually


class _Hurried:
    """``asyncio`` for uvicorn, which looks each 0.1 s whether it is to end, and once more before it does."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def plain_client(address: str, token: str | None = None, **options: Any) -> httpx.Client:
    """A client without TLS: reading the certificates of authorities would take longer than most requests."""
    return httpx.Client(base_url=address, trust_env=False, verify=False, headers=token and bearer(token), **options)


@contextmanager
def http_of(service: Service, **options: Any) -> Iterator[httpx.Client]:
    """A client with the token of the state folder, of the application over ``service``."""
    folder = service.settings.state_dir
    token = owner_token(folder)
    store = tokens.TokenStore(service)
    with http(create_app(service.settings, service, store, **options), token) as client:
        yield client


@contextmanager
def http(app: ASGIApp, token: str | None = None, **options: Any) -> Iterator[httpx.Client]:
    """A client of ``app``, served as ``serve`` does on a free port of loopback until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener, patch.object(uvicorn.server, "asyncio", _Hurried()):
        running = server(app, **options)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: running.started, what="the HTTP server", every=0.002)
            with plain_client(f"http://127.0.0.1:{listener.getsockname()[1]}", token, timeout=60) as client:
                yield client
        finally:
            running.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
            _await_no_reader(app)


def _await_no_reader(app: ASGIApp) -> None:
    """Wait for threads that still read for streams which have ended: the caller closes the database next."""
    if isinstance(app, FastAPI):
        pool: Any = app.state.context.service.database.engine.pool
        eventually(lambda: not pool.checkedout(), what="the last look of a stream", every=0.002)
