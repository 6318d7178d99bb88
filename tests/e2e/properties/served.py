"""``seqferry serve`` as a process with its worker, and a client of its API."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from seqferry.settings import tokens
from support.mover import Mover
from support.waiting import eventually


@dataclass(frozen=True)
class ServedApi:
    http: httpx.Client

    def carry(self, source: str, target: str, **options: Any) -> dict[str, Any]:
        """The transfer once it has ended."""
        answer = self.http.post("/api/v1/transfers", json={"source": source, "target": target, **options})
        assert answer.status_code == 202, answer.text
        place = answer.headers["Location"]

        def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = self.http.get(place).json()
            return found if found["state"] in ("done", "done_with_failures", "failed", "cancelled") else None

        found = eventually(ended, what="the end of the transfer", deadline=120.0, every=0.1)
        assert found is not None
        return found

    def failures(self, transfer_id: str) -> str:
        return self.http.get(f"/api/v1/transfers/{transfer_id}/failures").text


@contextmanager
def served(mover: Mover) -> Generator[ServedApi]:
    running = mover.start("serve", "--port", "0")
    address = running.wait_for_line("http://").partition("http://")[2].split()[0]
    token = tokens.owner_file(mover.state).read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"http://{address}", headers=headers, timeout=60, trust_env=False) as client:
        yield ServedApi(client)


EndpointMoverFactory = Callable[[Any], Mover]
