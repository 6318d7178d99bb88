"""``/api/v1/share-links``: create, list and revoke links that show a delivery without a token."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, status
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from seqferry.api.deps import ActorDep, IdentityDep, ServiceDep, full_id, is_client, is_own
from seqferry.api.openapi import problem_responses
from seqferry.model.errors import PolicyError, UsageError
from seqferry.service import share_links
from seqferry.service.service import Service
from seqferry.service.share_links import ShareLink, State
from seqferry.settings.tokens import Identity

router = APIRouter(prefix="/api/v1/share-links", tags=["share links"])


class ShareLinkRequest(BaseModel):
    """A link for one transfer, or for one label."""

    model_config = ConfigDict(extra="forbid")

    transfer: Annotated[str | None, Field(max_length=64)] = None
    """The whole id of a transfer. The link shows it with all transfers of its chain of retries."""
    label: Annotated[str | None, Field(max_length=300, examples=["project=X"])] = None
    """``key=value``, or ``key`` for any value. The link shows all transfers that have it."""
    expires: Annotated[str, Field(pattern=share_links.LIFETIME, examples=["14d"])] = "14d"
    """After this time the link shows nothing any more: at most a year."""


class ShareLinkOut(BaseModel):
    id: str
    transfer: str | None
    label: str | None
    state: State
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None
    revoked_by: str | None


class ShareLinkMade(ShareLinkOut):
    url: str
    """The link to send. It is shown only in this answer."""
    token: str
    """The token, the secret part of the URL."""


class ShareLinks(BaseModel):
    links: list[ShareLinkOut]
    """The newest first."""


@router.post(
    "", status_code=status.HTTP_201_CREATED, summary="Make a share link", responses=problem_responses(400, 404, 409)
)
def create_share_link(
    body: ShareLinkRequest, service: ServiceDep, actor: ActorDep, identity: IdentityDep
) -> ShareLinkMade:
    """A client of the role ``submit`` shares its own transfers; ``admin`` all, and labels."""
    if (body.transfer is None) == (body.label is None):
        raise UsageError("A share link needs a transfer or a label: give 'transfer' or 'label'.").about("label")
    transfer_id = None if body.transfer is None else full_id(body.transfer)
    _check_may_share(service, identity, transfer_id)
    share_links.base_url(service)  # before anything is made: a link without an address is of no use
    lifetime = share_links.parse_lifetime(body.expires)
    link, token = share_links.create(service, actor=actor, transfer_id=transfer_id, label=body.label, lifetime=lifetime)
    return ShareLinkMade(**_out(link).model_dump(), url=share_links.url(service, token), token=token)


@router.get("", summary="Share links, newest first", responses=problem_responses(404))
def list_share_links(
    service: ServiceDep,
    transfer: Annotated[
        Annotated[str, Field(max_length=64)] | SkipJsonSchema[None], Query(description="Only those of this transfer.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ShareLinks:
    """Expired and revoked ones too. Their tokens are not kept."""
    return ShareLinks(links=[_out(one) for one in share_links.list_links(service, transfer_id=transfer, limit=limit)])


@router.delete("/{link_id}", status_code=status.HTTP_204_NO_CONTENT, summary="Revoke a share link")
def revoke_share_link(link_id: str, service: ServiceDep, actor: ActorDep, identity: IdentityDep) -> None:
    """Takes effect immediately. A client of the role ``submit`` revokes its own links, ``admin`` all."""
    link = share_links.find_link(service, link_id)
    if not identity.may("admin") and not is_client(identity, link.created_by):
        raise PolicyError(
            f"The share link '{link.id}' was not made with the token '{identity.name}', and its role "
            f"'{identity.role}' allows changes to its own links only."
        )
    share_links.revoke(service, link.id, actor=actor)


def _check_may_share(service: Service, identity: Identity, transfer_id: str | None) -> None:
    if identity.may("admin"):
        return
    if transfer_id is None:
        raise PolicyError(f"A link for a label needs the role 'admin', and the token has '{identity.role}'.").about(
            "label"
        )
    for one in (transfer_id, share_links.find_chain_root(service, transfer_id)):
        if not is_own(service, identity, one):
            raise PolicyError(
                f"Transfer {one} was not started with the token '{identity.name}', and its role '{identity.role}' "
                "allows links for its own transfers only."
            ).about("transfer")


def _out(link: ShareLink) -> ShareLinkOut:
    def time(seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    return ShareLinkOut(
        id=link.id,
        transfer=link.transfer_id,
        label=link.label,
        state=link.state,
        created_at=time(link.created_at),
        created_by=link.created_by,
        expires_at=time(link.expires_at),
        revoked_at=None if link.revoked_at is None else time(link.revoked_at),
        revoked_by=link.revoked_by,
    )
