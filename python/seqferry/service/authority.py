"""Authority of clients over HTTP for work that begins later: a retry, a paused transfer, a run of a schedule, a queue.

What a client was allowed at its submission may not be allowed any more. So each start of work on behalf of a token is
compared with the present policy and tokens.

What must stay true: what a command of this machine's user has begun and has go on is not bound by it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from seqferry.db import actors
from seqferry.model.errors import PolicyError
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.places import endpoints
from seqferry.service import tokens
from seqferry.service.base import Base
from seqferry.settings import policy
from seqferry.settings.config import Settings
from seqferry.settings.tokens import ENVIRONMENT, OWNER
from seqferry.spec import identity, run, verification

_STARTING: Final = ("submit", "admin")
"""Roles that may start transfers."""

_WITHOUT: Final = "from"
"""Word that follows ``http`` in the actor of a server without tokens."""


def check_policy(settings: Settings, spec: TransferSpec, *, addresses: bool = False, places_only: bool = False) -> None:
    """Check that a client may start this transfer now; of a list, each line.

    Args:
        addresses: also see that no endpoint leads to an address that is never contacted; asks the resolver.
        places_only: only where it reads and writes: what this process calls its own endpoint may not be the server's.

    Raises:
        PolicyError: today's policy does not allow it.
    """
    resolved = set[str | None]()
    for one in _each_place(spec):
        asked = identity.unresolve(one)
        if places_only:
            settings.policy.check_places(asked)
        else:
            settings.policy.check(asked)
        endpoint = {endpoints.resolve(place) for place in (one.source, one.target) if isinstance(place, S3Location)}
        if addresses and not endpoint <= resolved:
            policy.check_addresses(one)
            resolved |= endpoint


def _each_place(spec: TransferSpec) -> Iterable[TransferSpec]:
    if spec.kind.verifies_record:
        return verification.place_specs(spec)
    return run.line_specs(spec) if spec.kind.runs_list else (spec,)


def check_start(settings: Settings, spec: TransferSpec, *, created_by: str, actor: str) -> None:
    """Check that recorded work may start or continue now.

    Work requested over HTTP is compared with the whole policy, whichever actor continues it. Work requested by a
    command of this machine, which a client continues, is compared with the places that clients may read and write: this
    machine's user named the endpoint and the profile.

    Args:
        created_by: the actor that requested it.
        actor: the actor that starts or continues it.

    Raises:
        PolicyError: today's policy does not allow it.
    """
    if actors.is_http(created_by):
        check_policy(settings, spec, addresses=True)
    elif actors.is_http(actor):
        check_policy(settings, spec, places_only=True)


def token_name(actor: str) -> str | None:
    """Name of an actor's token; None for a command, or a client of a server without tokens."""
    words = actor.split(" ")
    if words[0] != "http" or len(words) < 2 or (words[1] == _WITHOUT and words[2:3] != [_WITHOUT]):
        return None
    return words[1]


def token_fault(service: Base, actor: str) -> str | None:
    """Reason why no work may start on behalf of an actor, as text; None: work may start.

    All servers at a database share its tokens. With PostgreSQL a name that it never had is of a server whose state
    folder was not yet opened by this version, which takes the tokens of its file over.
    """
    name = token_name(actor)
    if name is None or name in (OWNER, ENVIRONMENT):
        return None  # of the server's owner, who may replace it at any time
    found = tokens.find_tokens(service, name)
    if isinstance(found, str):
        is_elsewhere = found == "unknown" and not service.is_local
        return None if is_elsewhere else f"the token '{name}' was removed"
    valid = [one for one in found if not one.expired(time.time())]
    if not valid:
        return f"the token '{name}' has expired"
    if not any(one.role in _STARTING for one in valid):
        return f"the token '{name}' has the role '{valid[0].role}' by now, which starts nothing"
    return None


def check_token(service: Base, actor: str, what: str) -> None:
    """Refuse to begin what an actor requested whose token is not valid any more.

    Raises:
        PolicyError: the token was removed, has expired, or may only read.
    """
    if (fault := token_fault(service, actor)) is not None:
        raise PolicyError(f"{what} does not begin: {fault}. Add it again with a valid token, or as a command.")
