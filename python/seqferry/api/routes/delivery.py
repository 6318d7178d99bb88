"""``/api/v1/delivery``: what the holder of a share link sees, without a sign-in.

The header ``Authorization`` carries the token of the link. One that has expired or was revoked, one that was made up,
and none at all have the same answer.
"""

from __future__ import annotations

import math
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, Security, status
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from seqferry.api import link_rate
from seqferry.api.delivery_schemas import DeliveryPageOut, page_out
from seqferry.api.deps import ContextDep
from seqferry.api.openapi import problem_responses
from seqferry.api.routes.proof import TicketOut, ticket_for
from seqferry.api.streams import EventStream
from seqferry.model.errors import NotFoundError
from seqferry.proof import report as proof_report
from seqferry.service import delivery_mails, share_links
from seqferry.service.report_tickets import ReportTicket
from seqferry.service.share_links import ShareLink

REFUSED: Final = "This link is not valid, or not any more. Ask for a new one where you got it."

LINK: Final = Security(
    HTTPBearer(auto_error=False, scheme_name="ShareLink", description="The token of a share link (`seqferry share`).")
)
router = APIRouter(prefix="/api/v1/delivery", tags=["delivery"], dependencies=[LINK])


async def _link(request: Request, context: ContextDep) -> ShareLink:
    """The valid link whose token the request carries.

    Raises:
        NotFoundError: it carries none, or one that is not valid.
    """
    given = request.headers.getlist("authorization")
    link = None
    if len(given) == 1 and given[0][:7].lower() == "bearer ":
        link = await run_in_threadpool(share_links.find_by_token, context.service, given[0][7:].strip())
    if link is None:
        raise NotFoundError(REFUSED)
    return link


LinkDep = Annotated[ShareLink, Depends(_link)]


@router.get("", summary="How the deliveries of a share link are doing")
async def get_delivery(link: LinkDep, context: ContextDep, response: Response) -> DeliveryPageOut:
    """All that the link shows: no id, no bucket, and nothing of other transfers."""
    response.headers["Cache-Control"] = "no-store"
    return page_out(await run_in_threadpool(context.hub.deliveries.pages.page, link))


@router.get(
    "/events",
    summary="The same as it happens",
    response_class=EventStream,
    responses={status.HTTP_200_OK: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_delivery(link: LinkDep, context: ContextDep) -> EventStream:
    """Server-sent events: ``delivery`` with all of ``GET /api/v1/delivery``, first immediately, then when something has
    changed, at most once a second; ``gone`` and the end, when the link is not valid any more. A comment is sent each
    15 seconds when there is nothing else."""
    return EventStream(context.hub.deliveries.frames(link))


Key = Annotated[str, Field(pattern="^[0-9a-f]{16}$"), Query(description="Of a receipt of the delivery.")]


@router.post("/report-ticket", status_code=status.HTTP_201_CREATED, summary="A receipt, to be downloaded once")
async def create_delivery_ticket(
    link: LinkDep,
    context: ContextDep,
    key: Key,
    format: proof_report.Format = "html",  # noqa: A002
    page: Annotated[int, Query(ge=1, le=2**31)] = 1,
) -> TicketOut:
    """A path, relative to the page, that answers once within a minute with the receipt."""
    found = await run_in_threadpool(context.hub.deliveries.pages.find_transfer, link, key)
    if found is None:
        raise NotFoundError(REFUSED)
    wanted = ReportTicket(found.id, format, None, page)
    return await run_in_threadpool(ticket_for, context.service, wanted, link=link.id)


class MailIn(BaseModel):
    key: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    """Of the delivery."""
    address: Annotated[str, Field(pattern=delivery_mails.ADDRESS, max_length=delivery_mails.LONGEST_ADDRESS)]


@router.post(
    "/mail",
    status_code=status.HTTP_204_NO_CONTENT,
    summary="A mail when a delivery has ended",
    responses=problem_responses(409, 429),
)
async def ask_for_mail(link: LinkDep, context: ContextDep, body: MailIn) -> None:
    """One mail to the address when the delivery has ended, however, where `GET /api/v1/delivery` says `mail`.

    The answer does not tell whether the address was there. It is forgotten once the mail is sent.
    """
    wait = context.mail_rate.admit(link.id)
    if wait > 0:
        seconds = math.ceil(wait)
        detail = f"This link has requested {link_rate.MAX_REQUESTS} mails within a minute; try again in {seconds} s."
        raise HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, detail, {"Retry-After": str(seconds)})
    pages = context.hub.deliveries.pages
    await run_in_threadpool(delivery_mails.request_mail, context.service, pages, link, body.key, body.address)
