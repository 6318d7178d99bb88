"""Dependencies of the routes: service, identity and actor of a request, ids of transfers.

Functions that wait for nothing are ``async``: FastAPI would have others wait for a thread of the pool.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, HTTPException, Request, Security, status
from fastapi.security import HTTPBearer
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from seqferry.api.authentication import role_refusal
from seqferry.api.checks import StorageChecks
from seqferry.api.file_status import FileStatus
from seqferry.api.link_rate import LinkRate
from seqferry.api.readiness import Readiness
from seqferry.api.schemas import SourcesBody
from seqferry.api.streams import EventHub
from seqferry.model.errors import NotFoundError, PolicyError
from seqferry.model.frozen import frozen
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.preflight import start
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.tokens import Identity
from seqferry.spec.identity import resolve

Body = TypeVar("Body", bound=BaseModel)
Sources = TypeVar("Sources", bound=SourcesBody)


@frozen
class Context:
    settings: Settings
    service: Service
    planning_timeout: float
    readiness: Readiness
    checks: StorageChecks
    hub: EventHub
    metrics: CollectorRegistry
    files: FileStatus
    mail_rate: LinkRate
    defaults: Mapping[str, Any]
    """Values of fields that a request leaves open (``job_defaults``)."""

    def spec_of(self, body: Body, build: Callable[[Body], TransferSpec]) -> TransferSpec:
        """The spec of a request, if the policy allows what it asks for, with the defaults for what it leaves open.

        Raises:
            PolicyError: the policy does not allow it.
            UsageError: it is not valid.
        """
        if isinstance(body, SourcesBody):
            body.take_folders(self.settings.policy)
        spec = build(body)
        self.settings.policy.check(spec)
        whole = self._with_defaults(body)
        return spec if whole is body else build(whole)

    async def spec_of_sources(
        self, body: Sources, build: Callable[[Sources], TransferSpec], *, key: str | None = None, actor: str = ""
    ) -> TransferSpec:
        """``spec_of``, with what ``recursive`` asks for: sources that are prefixes get their last slash.

        A submission that is repeated with its idempotency key means what it meant before, whatever has become of the
        sources.

        Raises:
            PolicyError, UsageError: as ``spec_of``.
            StorageError, StorageTimeoutError, OverloadError: as ``StorageChecks.check``.
        """
        spec = self.spec_of(body, build)
        given = self._with_defaults(body).recursive_arguments()
        if given is None:
            return spec
        earlier = None
        if key:
            earlier = await run_in_threadpool(self.service.submitted_spec, key, actor=actor)
        if earlier is not None:
            found = start.reuse_prefixes(earlier, given)
        else:
            look = partial(start.resolve_prefixes, self.service.engine, given)
            found = await self.checks.run(spec, look, operation="HeadObject")
        return self.spec_of(body.model_copy(update={"source": found}), build)

    async def resolve(self, spec: TransferSpec) -> ResolvedSpec:
        """The spec as it would be recorded; for all that follows it is resolved once. Reads files of the AWS tools.

        Raises:
            UsageError: it is not valid with the locations of this server.
        """
        return await run_in_threadpool(resolve, spec)

    def _with_defaults(self, body: Body) -> Body:
        known = type(body).model_fields
        left = {name: value for name, value in self.defaults.items() if name in known}
        left = {name: value for name, value in left.items() if name not in body.model_fields_set}
        return body.model_copy(update=left) if left else body


async def _context(request: Request) -> Context:
    return request.app.state.context


ContextDep = Annotated[Context, Depends(_context)]


async def _service(context: ContextDep) -> Service:
    return context.service


ServiceDep = Annotated[Service, Depends(_service)]


async def _identity(request: Request) -> Identity:
    return request.scope["state"]["identity"]


IdentityDep = Annotated[Identity, Depends(_identity)]


async def _actor(request: Request, identity: IdentityDep) -> str:
    address = f" from {request.client.host}" if request.client is not None else ""
    return f"{_name_of(identity)}{address}"


def _name_of(identity: Identity) -> str:
    return f"http {identity.name}".rstrip()


ActorDep = Annotated[str, Depends(_actor)]
"""The actor, for the record of events: the name of the token, and beside it the address of the client."""


def full_id(transfer_id: str) -> str:
    """Whole id of a transfer that is to be changed: the start of an id could mean another transfer.

    Raises:
        NotFoundError: the text is not a whole id.
    """
    try:
        return str(uuid.UUID(transfer_id))
    except ValueError:
        raise NotFoundError(f"'{transfer_id}' is not the whole id of a transfer; give all 36 characters.") from None


async def _full_id(transfer_id: str) -> str:
    return full_id(transfer_id)


FullIdDep = Annotated[str, Depends(_full_id)]


def _changeable_id(transfer_id: FullIdDep, service: ServiceDep, identity: IdentityDep) -> str:
    """Id of a transfer that this client may change: with the role ``submit`` its own, with ``admin`` any.

    Raises:
        NotFoundError: no transfer has this id.
        PolicyError: another client, or a person at the command line, has started it.
    """
    if not is_own(service, identity, transfer_id):
        raise PolicyError(
            f"Transfer {transfer_id} was not started with the token '{identity.name}', and its role "
            f"'{identity.role}' allows changes to its own transfers only."
        )
    return transfer_id


def is_own(service: Service, identity: Identity, transfer_id: str) -> bool:
    """True when the client may change this transfer: as an admin, or as the one that submitted it.

    Raises:
        NotFoundError: no transfer has this id.
    """
    return identity.may("admin") or is_client(identity, service.status(transfer_id).created_by)


def is_client(identity: Identity, actor: str) -> bool:
    """True when an actor on record is this client."""
    # Names of tokens hold no space, so that none is the start of another one here.
    return actor.startswith(f"{_name_of(identity)} ")


ChangeableIdDep = Annotated[str, Depends(_changeable_id)]

DOCUMENTED: Final = Security(
    HTTPBearer(
        auto_error=False,
        description="The token in the file 'token' of the server's state folder, SEQFERRY_TOKEN, or a named token "
        "(`seqferry token add`).",
    )
)
"""Names the token in the OpenAPI description. ``authentication.Authentication`` checks it before the body is read."""


async def require_admin(identity: IdentityDep) -> None:
    if not identity.may("admin"):
        raise HTTPException(status.HTTP_403_FORBIDDEN, role_refusal(identity, "admin"))
