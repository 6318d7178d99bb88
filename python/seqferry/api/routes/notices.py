"""``/api/v1/notices``: channels of notices, and the delivery of the notices to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Query
from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema

from seqferry.api.deps import ContextDep
from seqferry.api.problems import shorten

router = APIRouter(prefix="/api/v1/notices", tags=["notices"])

State = Literal["pending", "sent", "given_up"]


class ChannelOut(BaseModel):
    name: str
    to: str
    """Scheme and host of its address; the rest may be a secret."""
    events: list[str]
    """Kinds of notices that are sent to it."""


class NoticeOut(BaseModel):
    subject_kind: str
    """``transfer``, ``worker``, or ``mail``: requested by the holder of a share link."""
    subject_id: str
    kind: str
    channel: str
    state: str
    """``pending``, ``sent`` or ``given_up``."""
    attempts: int
    created_at: datetime
    next_at: datetime | None
    """Time of the next attempt if the notice is pending."""
    sent_at: datetime | None
    error: str | None
    """Error of the last attempt, without secrets."""

    @classmethod
    def of(cls, row: sa.Row[Any]) -> NoticeOut:
        def time(seconds: float) -> datetime:
            return datetime.fromtimestamp(seconds, UTC)

        return cls(
            subject_kind=row.subject_kind,
            subject_id=row.subject_id,
            kind=row.kind,
            channel=row.channel,
            state=row.state,
            attempts=row.attempts,
            created_at=time(row.created_at),
            next_at=time(row.next_at) if row.state == "pending" else None,
            sent_at=None if row.sent_at is None else time(row.sent_at),
            error=None if row.error is None else shorten(row.error),
        )


class Notices(BaseModel):
    channels: list[ChannelOut]
    notices: list[NoticeOut]
    """The newest first."""


@router.get("", summary="Channels of notices, and the notices to them")
def list_notices(
    context: ContextDep,
    state: Annotated[State | SkipJsonSchema[None], Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Notices:
    """Channels are those of this server's configuration; another process may send to others."""
    channels = [
        ChannelOut(name=one.name, to=one.shown, events=list(one.events)) for one in context.settings.notices.channels
    ]
    return Notices(channels=channels, notices=[NoticeOut.of(one) for one in context.service.notices(state, limit)])
