"""An application behind a real HTTP server in this process, and a client for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI

from support.waiting import eventually


@contextmanager
def http(app: FastAPI) -> Iterator[httpx.Client]:
    """A client of ``app``, served on a free port of loopback until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: server.started, what="the HTTP server")
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
