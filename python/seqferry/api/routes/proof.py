"""Proof: reports of transfers, their audit, and the objects at the target today."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Response, status
from fastapi import Path as ApiPath
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from seqferry.api.authentication import REPORT_TICKET, TICKETS
from seqferry.api.deps import ActorDep, ChangeableIdDep, ServiceDep, require_admin
from seqferry.api.openapi import problem_responses
from seqferry.api.schemas import Submitted
from seqferry.api.verb_bodies import VerificationRequest
from seqferry.model import prices
from seqferry.model.models import DONE_STATES, TransferState
from seqferry.proof import receipt_page
from seqferry.proof import report as proof_report
from seqferry.service import control, report_tickets
from seqferry.service.report_tickets import ReportTicket
from seqferry.service.service import Service

router = APIRouter(prefix="/api/v1", tags=["proof"])
tickets = APIRouter(prefix=TICKETS.rstrip("/"), tags=["proof"])

MOST_FINDINGS = 1000
"""Entries in an answer; the total number is in another field."""

_DOCUMENT_HEADERS: Final = {
    # ``sandbox`` gives it an origin of its own: the tokens of the page are out of its reach.
    "Content-Security-Policy": f"{receipt_page.POLICY}; frame-ancestors 'none'; sandbox",
    "Referrer-Policy": "no-referrer",
}

KeyHeader = Annotated[Annotated[str, Field(min_length=1, max_length=255)] | SkipJsonSchema[None], Header()]


class FindingOut(BaseModel):
    kind: str
    message: str
    transfer_id: str | None
    row: str
    key: str | None


class AuditOut(BaseModel):
    intact: bool
    findings: list[FindingOut]
    count: int
    """Of all findings: at most 1,000 are named."""
    transfers: int
    objects: int
    events: int
    entries: int
    open_batches: int
    """Batches that have not ended, and so are not covered."""
    keyed: bool
    anchors: int
    """Heads that were found in the bucket of anchors, and compared."""
    head: str


class HeadOut(BaseModel):
    head: str
    count: int
    hash: str


@router.get(
    "/transfers/{transfer_id}/report",
    summary="The report of a transfer",
    response_class=StreamingResponse,
    responses=problem_responses(400)
    | {200: {"content": {kind.partition(";")[0]: {} for kind in proof_report.MEDIA_TYPES.values()}}},
)
def get_report(
    transfer_id: str,
    service: ServiceDep,
    format: proof_report.Format = "json",  # noqa: A002
    price: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    page: Annotated[int, Query(ge=1, le=2**31)] = 1,
) -> StreamingResponse:
    """Streams the report as JSON that can be checked by itself, as CSV, or as HTML with 10,000 objects a page.

    The record is checked first; the header `Seqferry-Record` says `intact`, or `changed` if it differs from what was
    written. `price` names a region of AWS whose list prices apply, whatever the storage is.
    """
    if price is not None:
        prices.read_shipped(price)
    return _stream_report(service, ReportTicket(service.status(transfer_id).id, format, price, page))


def _stream_report(service: Service, wanted: ReportTicket) -> StreamingResponse:
    findings = service.record_findings(wanted.transfer_id)
    report = service.report(wanted.transfer_id, wanted.format, findings, wanted.price, wanted.page)
    pieces = (piece.encode("utf-8", "backslashreplace") for piece in report)
    name = f'attachment; filename="seqferry-{wanted.transfer_id}.{wanted.format}"'
    headers = {"Seqferry-Record": "changed" if findings else "intact"}
    if wanted.format == "html":
        headers |= _DOCUMENT_HEADERS
    else:
        headers["Content-Disposition"] = name
    return StreamingResponse(pieces, media_type=proof_report.MEDIA_TYPES[wanted.format], headers=headers)


class TicketOut(BaseModel):
    path: str
    """Address of the download, relative to the server's: valid for one request within a minute."""
    expires_at: datetime


@router.post(
    f"/transfers/{{transfer_id}}{REPORT_TICKET}",
    status_code=status.HTTP_201_CREATED,
    summary="A report, to be downloaded once without a token",
    responses=problem_responses(400),
)
def create_report_ticket(
    transfer_id: str,
    service: ServiceDep,
    format: proof_report.Format = "json",  # noqa: A002
    price: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    page: Annotated[int, Query(ge=1, le=2**31)] = 1,
) -> TicketOut:
    """For links in a page, which cannot send a header. The role ``read`` is enough."""
    if price is not None:
        prices.read_shipped(price)
    return ticket_for(service, ReportTicket(service.status(transfer_id).id, format, price, page))


def ticket_for(service: Service, wanted: ReportTicket, *, link: str | None = None) -> TicketOut:
    """A ticket for a report that its asker may have; ``link`` as of ``report_tickets.issue``.

    Raises:
        OverloadError: too many tickets wait to be used.
    """
    text, ends = report_tickets.issue(service, wanted, link=link)
    return TicketOut(path=f"{TICKETS.lstrip('/')}{text}", expires_at=datetime.fromtimestamp(ends, UTC))


@tickets.get(
    "/{ticket}",
    summary="The report of a ticket, once",
    response_class=StreamingResponse,
    responses=problem_responses(400, 404)
    | {200: {"content": {kind.partition(";")[0]: {} for kind in proof_report.MEDIA_TYPES.values()}}},
)
def redeem_ticket(ticket: Annotated[str, ApiPath(max_length=64)], service: ServiceDep) -> StreamingResponse:
    """As the report that the ticket was made for. No token is needed."""
    answer = _stream_report(service, report_tickets.redeem(service, ticket))
    answer.headers["Cache-Control"] = "no-store"
    return answer


class DifferenceOut(BaseModel):
    key: str
    outcome: str
    recorded: str
    found: str


class VerificationOut(BaseModel):
    id: str
    """Of the verification, which is a transfer: it is followed, paused and cancelled as one."""
    transfer_id: str
    """Of the transfer that is verified."""
    state: TransferState
    intact: bool | None
    """Null while it has not ended, and where it was stopped."""
    objects: int
    same: int
    missing: int
    changed: int
    unreadable: int
    """The storage does not return their attributes or their bytes."""
    content: int
    """Of those that are the same: all bytes were read, and have the digest on record."""
    size_only: int
    """Of those that are the same: compared by their size alone."""
    differences: list[DifferenceOut]
    """At most 1,000 of them."""
    record: list[FindingOut]
    """Changes to the receipt itself; at most 1,000 of them. Checked when the verification has ended."""


@router.post(
    "/transfers/{transfer_id}/verify",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Verify the target again",
    responses=problem_responses(400, 409)
    | {status.HTTP_200_OK: {"model": Submitted, "description": "The same verification is unfinished and goes on"}},
)
def start_verification(
    transfer_id: ChangeableIdDep,
    service: ServiceDep,
    actor: ActorDep,
    response: Response,
    content: bool = False,
    body: VerificationRequest | None = None,
    idempotency_key: KeyHeader = None,
) -> Submitted:
    """Starts a transfer that compares size and ETag of each object at the target (HEAD) with the receipt.

    With `content` all bytes are read and compared with the checksums in the receipt. A body selects objects, limits
    requests, or says how the target is reached. The answer is the id of the verification;
    `GET /api/v1/verifications/{id}` has its result, which the record notes at its end.
    """
    given = {} if body is None else body.arguments()
    given["content"] = content or bool(given.get("content"))
    found = control.verify(service, transfer_id, actor=actor, idempotency_key=idempotency_key, **given)
    if found.goes_on:
        response.status_code = status.HTTP_200_OK
    response.headers["Location"] = f"{router.prefix}/verifications/{found.id}"
    return Submitted(id=found.id)


@router.get("/verifications/{transfer_id}", summary="The result of a verification", responses=problem_responses(409))
def get_verification(transfer_id: str, service: ServiceDep) -> VerificationOut:
    """By its id: what was found so far, or at its end."""
    found = service.status(transfer_id)
    look = service.verification(found)
    named = [DifferenceOut(**asdict(one)) for one in islice(look.differences, MOST_FINDINGS)]
    record = [FindingOut(**asdict(one)) for one in look.record[:MOST_FINDINGS]]
    intact = not look.counts.differ and not look.record if found.state in DONE_STATES else None
    return VerificationOut(
        id=found.id,
        transfer_id=look.verified,
        state=found.state,
        intact=intact,
        differences=named,
        record=record,
        **asdict(look.counts),
    )


Heads = Annotated[list[Annotated[str, Field(pattern=r"^[0-9]{1,15}-[0-9a-f]{64}$")]], Query(max_length=100)]


@router.get(
    "/audit",
    summary="Check the record of all transfers",
    dependencies=[Depends(require_admin)],
    responses=problem_responses(400, 403),
)
def get_audit(service: ServiceDep, head: Heads = []) -> AuditOut:  # noqa: B006 - FastAPI copies it
    """Compares everything on record with its hashes, and with heads of the ledger that were kept elsewhere."""
    return _audit(service, None, head)


@router.get(
    "/transfers/{transfer_id}/audit", summary="Check the record of one transfer", responses=problem_responses(400)
)
def get_audit_of_transfer(transfer_id: str, service: ServiceDep, head: Heads = []) -> AuditOut:  # noqa: B006
    """As ``/audit``, for one transfer; the ledger is checked as a whole."""
    return _audit(service, service.status(transfer_id).id, head)


@router.get("/audit/head", summary="The head of the ledger over all transfers")
def get_audit_head(service: ServiceDep) -> HeadOut:
    """Kept elsewhere, it shows later that nothing before it was changed or removed."""
    found = service.ledger_head()
    return HeadOut(head=str(found), count=found.count, hash=found.hash)


def _audit(service: ServiceDep, transfer_id: str | None, heads: list[str]) -> AuditOut:
    audited, count, named = service.audit(heads, transfer_id=transfer_id), 0, list[FindingOut]()
    for finding in audited.findings:
        count += 1
        if count <= MOST_FINDINGS:
            named.append(FindingOut(**asdict(finding)))
    facts: dict[str, Any] = asdict(audited.counts) | {"head": str(audited.counts.head)}
    anchored = audited.heads - len(heads)
    return AuditOut(intact=not count, findings=named, count=count, anchors=anchored, **facts)
