"""``/api/v1/server``: facts about the server, and about the client that asks."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from seqferry.api.deps import ContextDep, IdentityDep
from seqferry.engine.engine import version
from seqferry.settings.tokens import Role

router = APIRouter(prefix="/api/v1", tags=["server"])


class ClientOut(BaseModel):
    name: str
    """Of its token, as in the record; empty without one."""
    role: Role


class ServerOut(BaseModel):
    version: str
    """Of Seqferry. A page that was made for another one is to be loaded again."""
    client: ClientOut
    public_url: str | None
    """Address of the page, where the configuration names one."""


@router.get("/server", summary="Version of the server, and role of the client")
async def get_server(identity: IdentityDep, context: ContextDep) -> ServerOut:
    client = ClientOut(name=identity.name, role=identity.role)
    return ServerOut(version=version(), client=client, public_url=context.settings.public_url)
