"""Shares of all gateways on record, and questions to a gateway about a folder of one.

The state of the shares is that of the last heartbeats. A question goes through the database to the gateway, wherever it
runs (``share_answers``).
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

from seqferry.db import gateway_question_rows
from seqferry.model.errors import ConfigError, ConflictError, NotFoundError, OverloadError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.model.workers import IS_DRAINING, SHARES, WAITING, ProcessStatus
from seqferry.service.service import Service
from seqferry.service.share_answers import ANSWER_SECONDS
from seqferry.settings import policy
from seqferry.spec.addresses import parse_uri

MAX_QUESTIONS: Final = 64
"""Questions whose clients wait, of all servers of the database."""

_LONGEST_PATH: Final = 1024
"""Bytes: those of a key."""


@frozen
class ShareStatus:
    """A share at the last heartbeat of its gateway.

    Attributes:
        writing: facts of a share that is written (``model.workers.WAITING``, ``model.workers.SHARES``); None: it is
            read-only.
    """

    name: str
    source: str | None
    read_bytes: int
    fetched_bytes: int
    writing: dict[str, Any] | None


@frozen
class GatewayStatus:
    """A gateway, or a mount that is written, with its shares."""

    status: ProcessStatus
    is_draining: bool
    shares: tuple[ShareStatus, ...]

    @property
    def name(self) -> str:
        return self.status.process.name


def read(service: Service) -> list[GatewayStatus]:
    """Gateways on record, with those that were killed within the last week unless another one took their place."""
    found = (one for one in service.workers() if one.process.kind == "gateway" and not one.gone)
    return [_gateway(one) for one in found]


def _gateway(status: ProcessStatus) -> GatewayStatus:
    facts = status.activity.facts
    named: list[str] = list(facts.get("shares", ()))
    waiting, details = facts.get(WAITING, {}), facts.get(SHARES, {})
    shares = tuple(_share(name, details.get(name, {}), waiting.get(name)) for name in named)
    return GatewayStatus(status, bool(facts.get(IS_DRAINING)), shares)


def _share(name: str, details: dict[str, Any], waiting: dict[str, Any] | None) -> ShareStatus:
    return ShareStatus(
        name,
        details.get("source"),
        details.get("read_bytes", 0),
        details.get("fetched_bytes", 0),
        None if waiting is None else {**details, **waiting},
    )


def find_place(service: Service, gateway_id: str, share: str, path: str) -> S3Location:
    """The place in S3 that a folder of a share shows.

    Raises:
        NotFoundError: no such gateway or share is on record.
        ConflictError: nothing waits in it ever, or its gateway does not run.
    """
    found = next((one for one in read(service) if one.status.process.id == gateway_id), None)
    if found is None:
        raise NotFoundError("This gateway is not on record any more. See all with: seqferry workers")
    named = next((one for one in found.shares if one.name == share), None)
    if named is None:
        raise NotFoundError(f"The gateway {found.name} has no share /{share[:200]}.")
    if named.writing is None:
        raise ConflictError(f"The share /{share} is read-only: its files are those of the bucket.")
    if not found.status.alive or named.source is None:
        raise ConflictError(f"The gateway {found.name} does not run; start it to see what waits in /{share}.")
    bucket, prefix = parse_uri(named.source)
    top = f"{prefix.rstrip('/')}/" if prefix else ""
    return S3Location(bucket, f"{top}{path}/" if path else top)


def clean_path(path: str) -> str:
    """A path below a share, without slashes at its ends.

    Raises:
        UsageError: no file can have it.
    """
    path = path.strip("/")
    if "\0" in path or len(path.encode(errors="replace")) > _LONGEST_PATH:
        raise UsageError(f"A path has at most {_LONGEST_PATH} bytes, and no NUL.").about("path")
    if policy.leads_out(path):
        raise UsageError("A path has no '.' or '..' between slashes; write that of the folder itself.").about("path")
    return path


def ask(service: Service, gateway_id: str, share: str, path: str, *, counts: bool) -> str:
    """Ask a gateway about a folder or file of a share; returns the id of the question, for ``read_answer``.

    Args:
        counts: count the files in the bucket as well, by up to 100 requests.

    Raises:
        OverloadError: too many clients wait for answers.
    """
    question_id = uuid.uuid4().hex
    with service.database.write(durable=False) as connection:
        if gateway_question_rows.count(connection) >= MAX_QUESTIONS:
            raise OverloadError(f"{MAX_QUESTIONS} requests wait for gateways to answer; try again later.")
        whole = f"/{share}/{path}".rstrip("/")
        gateway_question_rows.add(connection, question_id, gateway_id, whole, counts=counts, seconds=ANSWER_SECONDS)
    return question_id


def read_answer(service: Service, question_id: str) -> dict[str, Any] | None:
    """The answer to a question; None: there is none yet.

    Raises:
        ConfigError: the gateway refuses to answer, with its reason.
        NotFoundError: the share has no such file or folder.
    """
    with service.database.read() as connection:
        text = gateway_question_rows.read_answer(connection, question_id)
    if text is None:
        return None
    found: dict[str, Any] = json.loads(text)
    if "error" in found:
        raise ConfigError(found["error"])
    if found["kind"] is None:
        raise NotFoundError("The share has no file or folder of this name.")
    return found


def withdraw(service: Service, question_id: str) -> None:
    """Remove a question, answered or not."""
    with service.database.write(durable=False) as connection:
        gateway_question_rows.remove(connection, question_id)
