"""A server with its page, and tabs that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from seqferry.settings import tokens
from support.browser import Tab
from support.mover import Mover
from support.processes import RunningProcess
from support.servers import S3Server
from support.sim import Simulator


@dataclass
class ServedPage:
    """``seqferry serve`` as a process, and a client of its API."""

    url: str
    """With the last slash."""
    token: str
    http: httpx.Client
    process: RunningProcess
    mover: Mover

    def submit(self, source: str, target: str, **options: Any) -> str:
        answer = self.http.post("/api/v1/transfers", json={"source": source, "target": target, **options})
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """``open_tab(url, **options)``: a tab; at the end of the test all have to be without troubles."""
    tabs: list[Tab] = []

    def make(url: str, **options: Any) -> Tab:
        tabs.append(Tab(browser, url, **options))
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.context.close()
    for tab in tabs:
        tab.assert_untroubled()


@pytest.fixture
def mover(make_mover: Callable[[S3Server | Simulator], Mover], make_simulator: Callable[..., Simulator]) -> Mover:
    """A state folder with nothing in it, and the simulator."""
    return make_mover(make_simulator())


@pytest.fixture
def serve() -> Iterator[Callable[..., ServedPage]]:
    """``serve(mover)``: a server of the mover's state folder."""
    clients: list[httpx.Client] = []

    def make(mover: Mover, *options: str) -> ServedPage:
        running = mover.start("serve", "--port", "0", *options)
        address = running.wait_for_line("http://").partition("http://")[2].split()[0]
        url = f"http://{address}/"
        token = tokens.owner_file(mover.state).read_text().strip()
        client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False)
        clients.append(client)
        return ServedPage(url, token, client, running, mover)

    yield make
    for client in clients:
        client.close()
