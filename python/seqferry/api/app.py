"""The FastAPI application. Holds no logic: see ``routes`` for what there is, ``problems`` for errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from seqferry.api import metrics, openapi, page_files, problems
from seqferry.api.authentication import Authentication
from seqferry.api.body import BodyLimit
from seqferry.api.checks import StorageChecks
from seqferry.api.deps import DOCUMENTED, Context, require_admin
from seqferry.api.file_status import FileStatus
from seqferry.api.link_rate import LinkRate
from seqferry.api.page_files import PageFile
from seqferry.api.readiness import Readiness
from seqferry.api.routes import (
    control,
    delivery,
    health,
    mirror,
    notices,
    places,
    previews,
    proof,
    schedules,
    server,
    share_links,
    shares,
    transfers,
    verbs,
    workers,
)
from seqferry.api.streams import EventHub
from seqferry.engine.engine import version
from seqferry.service.service import Service
from seqferry.service.tokens import TokenStore
from seqferry.settings.config import Settings

PLANNING_SECONDS: Final = 600.0
"""Seconds that the S3Mirror routes wait for the listing: a million objects take about a minute."""


def create_app(
    settings: Settings,
    service: Service,
    tokens: TokenStore | None,
    *,
    allow_crash: bool = False,
    planning_timeout: float = PLANNING_SECONDS,
    checks: StorageChecks | None = None,
    hub: EventHub | None = None,
    defaults: Mapping[str, Any] | None = None,
    page: Mapping[str, PageFile] | None = None,
    docs: Mapping[str, PageFile] | None = None,
) -> FastAPI:
    """The application over an open service; the caller keeps the service open and closes it.

    Args:
        tokens: those that clients may present; None: no request needs one.
        allow_crash: add ``POST /crash_application`` and ``/crash``, which end the process as a crash would.
        planning_timeout: seconds that the S3Mirror routes wait for the listing of the source.
        checks: looks at storage; usual ones when not given.
        hub: serves streams of events; one that the caller closes when the server stops.
        defaults: values of fields that requests leave open (``job_defaults``).
        page: files of the page; those that were built when not given.
        docs: files of the documentation; those that were built when not given.
    """
    app = FastAPI(
        title="Seqferry",
        version=version(),
        summary="Moves sequencing data between S3 buckets: fast, durable, observable, provable.",
        # The interactive pages load scripts from elsewhere; sites are often air-gapped.
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.context = Context(
        settings=settings,
        service=service,
        planning_timeout=planning_timeout,
        readiness=Readiness(lambda: service.transfers(limit=1)),
        checks=checks or StorageChecks(service),
        hub=hub or EventHub(service),
        metrics=metrics.registry(service),
        files=FileStatus(),
        mail_rate=LinkRate(),
        defaults=defaults or {},
    )
    problems.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(Authentication, tokens=tokens)  # added last, so that it comes first
    app.include_router(health.router)
    app.include_router(control.router, dependencies=[DOCUMENTED])
    app.include_router(control.actions, dependencies=[DOCUMENTED])
    app.include_router(health.metrics_router, dependencies=[DOCUMENTED])
    app.include_router(transfers.router, dependencies=[DOCUMENTED])
    app.include_router(transfers.feed, dependencies=[DOCUMENTED])
    app.include_router(previews.router, dependencies=[DOCUMENTED])
    app.include_router(proof.router, dependencies=[DOCUMENTED])
    app.include_router(verbs.router, dependencies=[DOCUMENTED])
    app.include_router(schedules.router, dependencies=[DOCUMENTED])
    app.include_router(workers.router, dependencies=[DOCUMENTED])
    app.include_router(shares.router, dependencies=[DOCUMENTED])
    app.include_router(share_links.router, dependencies=[DOCUMENTED])
    app.include_router(delivery.router)
    app.include_router(proof.tickets)
    app.include_router(server.router, dependencies=[DOCUMENTED])
    app.include_router(places.router, dependencies=[DOCUMENTED])
    app.include_router(notices.router, dependencies=[DOCUMENTED])
    app.include_router(mirror.router, dependencies=[DOCUMENTED])
    if allow_crash:
        app.include_router(mirror.crash_router, dependencies=[DOCUMENTED, Depends(require_admin)])
    app.include_router(page_files.router(page_files.read_page() if page is None else page))
    app.include_router(page_files.docs_router(page_files.read_page(page_files.DOCS) if docs is None else docs))
    openapi.install(app)
    return app


def _operation_id(route: APIRoute) -> str:
    """The name of the route's function: generated clients make their names of it. A test sees that each is unique."""
    return route.name
