"""``seqferry watch``."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from seqferry.cli import options
from seqferry.cli.session import Session, open_session
from seqferry.model.errors import UsageError
from seqferry.model.models import Status

_SEARCHED: Final = 1000
"""Newest transfers among which the unfinished one is searched."""

_NAMED_AT_MOST: Final = 5


def watch(
    transfer: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Transfer id or its beginning. Default: the only unfinished transfer."),
    ] = None,
    as_json: options.Json = False,
    no_progress: options.NoProgress = False,
    state_dir: options.StateDir = None,
) -> int:
    """Show the progress of a transfer. Ctrl-C stops watching, not the transfer."""
    with open_session(as_json=as_json, progress=not no_progress, state_dir=state_dir, reads=True) as session:
        found = session.service.status(transfer) if transfer is not None else _find_unfinished(session)
        return session.follow(found.id, work=False)


def _find_unfinished(session: Session) -> Status:
    """The one unfinished transfer.

    Raises:
        UsageError: no transfer is unfinished, or more than one is.
    """
    found = [one for one in session.service.transfers(_SEARCHED) if not one.ended]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError("No transfer is unfinished. See the recent ones with: seqferry status")
    ids = ", ".join(one.id for one in found[:_NAMED_AT_MOST])
    raise UsageError(f"{len(found)} transfers are unfinished; give the id of one: {ids}.")
