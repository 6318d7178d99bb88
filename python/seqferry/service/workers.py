"""Orders to workers as processes."""

from __future__ import annotations

from typing import Final

from seqferry.db import changes, worker_rows
from seqferry.model.errors import ConflictError, NotFoundError
from seqferry.model.workers import WORKING_KINDS, ProcessStatus
from seqferry.service.service import Service

_SHORTEST: Final = 4
"""Characters of the start of a name that stands for it."""


def drain(service: Service, name: str) -> ProcessStatus:
    """Let a worker exit after its current batches. A second call changes nothing.

    Args:
        name: as ``seqferry workers`` shows it, its whole id, its host, or a start of it. Of several the one that is
            alive.

    Raises:
        NotFoundError: no worker has this name, or several have.
        ConflictError: it is not alive, or does no work for others.
    """
    found = _find_by_name(service, name)
    process = found.process
    if process.kind not in WORKING_KINDS:
        raise ConflictError(f"{process.name} takes no transfers ({process.kind}); stop it where it was started.")
    if found.activity.facts.get("own_work"):
        raise ConflictError(f"{process.name} is a command that does its own transfer; stop it where it was started.")
    if not found.alive:
        raise ConflictError(f"{process.name} is not alive; others take over what it has left.")
    with service.database.write() as connection:
        worker_rows.drain(connection, process.id)
        if not service.is_local:
            changes.notify(connection)
    return found


def is_running(service: Service, worker_id: str) -> bool:
    """True until a worker has exited or was killed."""
    return any(one.process.id == worker_id and one.alive for one in service.workers())


def _find_by_name(service: Service, name: str) -> ProcessStatus:
    all_known = service.workers()
    found = [one for one in all_known if name in (one.process.id, one.process.name)]
    if not found:
        found = [one for one in all_known if name == one.process.host]
    if not found and len(name) >= _SHORTEST:
        found = [one for one in all_known if one.process.name.startswith(name)]
    if len(found) > 1:  # rows of killed ones stay for a week
        found = [one for one in found if one.alive] or found
    if len(found) > 1:
        raise NotFoundError(f"Several workers have names that begin with '{name[:80]}'; give more of it.")
    if not found:
        more = f" A start of a name has at least {_SHORTEST} characters." if len(name) < _SHORTEST else ""
        raise NotFoundError(f"There is no worker '{name[:80]}'.{more} See all with: seqferry workers")
    return found[0]
