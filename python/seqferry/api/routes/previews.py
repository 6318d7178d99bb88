"""``/api/v1/previews``: what a transfer would do, without doing or recording anything."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from seqferry.api.deps import ContextDep
from seqferry.api.openapi import problem_responses
from seqferry.api.schemas import PreflightCause, TransferRequest, spec_of_request
from seqferry.model import prices
from seqferry.model.errors import errors_about
from seqferry.model.models import PlannedCopy, ResolvedSpec
from seqferry.planning.removal_rules import RemovalRefusal
from seqferry.service.service import Service

router = APIRouter(prefix="/api/v1/previews", tags=["transfers"])

_SECONDS: Final = 60.0
"""Time limit of a preview: the answer then covers a part of the objects, and says so."""


class PreviewObject(BaseModel):
    source_key: str
    target_key: str
    size: int
    action: Literal["copy", "skip", "compare", "refuse", "leave_out"]
    """``compare``: the listings do not suffice; the transfer compares both objects (HEAD) and may skip it."""
    because: str


class EstimateOut(BaseModel):
    requests: dict[str, int]
    """By operation of S3."""
    total_requests: int
    seconds: float
    based_on: str
    request_dollars: float | None
    """At list prices of AWS; null for other services."""
    egress_dollars: float | None
    """At most, where the bytes leave AWS."""
    month_dollars: float | None
    """For a month of storage of the copies."""
    price_region: str | None
    """Region of AWS whose prices apply."""
    datasync_basic_dollars: float | None
    datasync_enhanced_dollars: float | None
    """Price of AWS DataSync for the same bytes, by mode."""


class Preview(BaseModel):
    objects: list[PreviewObject]
    """The first of them, up to the requested number."""
    complete: bool
    """True when the totals are of all objects: a preview ends after a minute."""
    totals: dict[str, Any]
    estimate: EstimateOut
    removals: list[str]
    """Keys at the target that would be removed, up to the requested number."""
    kept: str | None
    """The reason why nothing would be removed although it was requested."""
    looked_up: int
    """Objects that were read as a test, of those that would be copied."""
    sampled: bool
    """True where not all of them were read: all up to 10,000, and then a sample."""
    causes: list[PreflightCause]
    """Causes for which objects would fail, the most frequent first."""
    nearest: list[str]
    """The most similar keys, if nothing is selected."""


@router.post("", summary="Preview a transfer and its cost", responses=problem_responses(400, 502, 504))
async def preview_transfer(
    body: TransferRequest,
    context: ContextDep,
    limit: Annotated[int, Query(ge=0, le=10_000)] = 1000,
    price: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
) -> Preview:
    """Compares source and target as the transfer would, and tests access: one byte of each object that would be copied
    is read, and a multipart upload is created at the target and aborted. Nothing is copied or recorded.

    `price` names a region of AWS whose list prices apply, whatever the storage is.
    """
    if price is not None:
        with errors_about("price"):
            prices.read_shipped(price)
    body.description().check()
    spec = await context.resolve(await context.spec_of_sources(body, spec_of_request))
    await context.checks.check(spec)
    return await run_in_threadpool(_preview, context.service, spec, limit, price)


def _preview(service: Service, spec: ResolvedSpec, limit: int, price: str | None) -> Preview:
    from seqferry.preflight.forecast import Forecast  # a server that starts need not wait for it

    forecast, shown, complete = Forecast(spec), list[PreviewObject](), True
    deadline = time.monotonic() + _SECONDS
    with errors_about("source"):
        for planned in service.preview(spec, forecast.findings, for_client=True):
            forecast.add(planned)
            if len(shown) < limit:
                shown.append(_object(planned))
            if time.monotonic() > deadline:
                complete = False
                break
    removals, kept = list[str](), None
    if spec.removal.delete and complete:
        with errors_about("target"):
            for removed in service.preview_target_removals(spec, forecast):
                if isinstance(removed, RemovalRefusal):
                    kept = removed.reason
                    break
                forecast.removed += 1
                if len(removals) < limit:
                    removals.append(removed)
    estimate = service.estimate(forecast, price)
    return Preview(
        objects=shown,
        complete=complete,
        totals=forecast.totals(),
        estimate=EstimateOut(total_requests=estimate.total_requests, **asdict(estimate)),
        removals=removals,
        kept=kept,
        **forecast.check_data(),
        nearest=[] if forecast.source_objects else service.nearest_keys(spec),
    )


def _object(planned: PlannedCopy) -> PreviewObject:
    action: Any = planned.action if planned.refusal is None else "leave_out" if planned.left_out else "refuse"
    return PreviewObject(
        source_key=planned.source_key,
        target_key=planned.target_key,
        size=planned.size,
        action=action,
        because=planned.reason,
    )
