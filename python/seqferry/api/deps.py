"""What routes get handed in."""

from __future__ import annotations

import hmac
import uuid
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Request, status
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from seqferry.config import Settings
from seqferry.errors import NotFoundError
from seqferry.service import Service


@dataclass(frozen=True, slots=True)
class Context:
    settings: Settings
    service: Service
    planning_timeout: float


def _context(request: Request) -> Context:
    return request.app.state.context


ContextDep = Annotated[Context, Depends(_context)]


def _service(context: ContextDep) -> Service:
    return context.service


ServiceDep = Annotated[Service, Depends(_service)]


def _actor(request: Request) -> str:
    return f"http {request.client.host}" if request.client is not None else "http"


ActorDep = Annotated[str, Depends(_actor)]
"""Who asks, for the record of events."""


def _full_id(transfer_id: str) -> str:
    """For what changes something: the start of an id, enough where a person looks on, could mean another transfer.

    Raises:
        NotFoundError: it is not a whole id.
    """
    try:
        return str(uuid.UUID(transfer_id))
    except ValueError:
        raise NotFoundError(f"'{transfer_id}' is not the whole id of a transfer; give all 36 characters.") from None


FullIdDep = Annotated[str, Depends(_full_id)]

_bearer = HTTPBearer(auto_error=False, description="The token that the server was started with (SEQFERRY_TOKEN).")


def require_token(context: ContextDep, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
    """Let nobody in without the token, when the server has one."""
    token = context.settings.token
    if token is None:
        return
    if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
        raise HTTPException(
            status.HTTP_401_UNAUTHORIZED,
            "A token is needed: send it as 'Authorization: Bearer <token>'.",
            headers={"WWW-Authenticate": "Bearer"},
        )
