"""Errors as problem documents (RFC 9457). No traceback and nothing that a client sent gets out."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException

from seqferry.api.wrong_field import find_field
from seqferry.model.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    OverloadError,
    PolicyError,
    SeqferryError,
    StorageError,
    StorageTimeoutError,
    UnsupportedError,
    UsageError,
    WorkerBusyError,
)
from seqferry.model.messages.steps import page_text

OF_FIELDS: Final = frozenset({400, 403, 409})
"""Statuses of refusals that may be about one field of the request, besides 422."""

log: Final = logging.getLogger("seqferry.api")

_STATUS: Final[Mapping[type[SeqferryError], int]] = {
    UsageError: 400,
    NotFoundError: 404,
    ConflictError: 409,
    UnsupportedError: 409,
    ConfigError: 503,
    WorkerBusyError: 503,
    OverloadError: 503,
    PolicyError: 403,
    StorageError: 502,
    StorageTimeoutError: 504,
}

_MOST_ERRORS: Final = 20
_MOST_ECHOED: Final = 200
"""Characters of what a client, or a storage of the client's choice, has sent: enough to see which of them is meant."""

_MOST_DETAIL: Final = 2000
_MOST_OF_STORAGE: Final = 600
"""Characters of a message of the storage, with our operation and advice. Its text may come from a hostile server."""

_LONG_WORD: Final = re.compile(rf"\S{{{_MOST_ECHOED + 1},}}")


class _Problem(JSONResponse):
    media_type = "application/problem+json"

    def render(self, content: Any) -> bytes:
        # Only ASCII, with JSON's escapes for the rest: a message may hold halves of characters that a client sent.
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def problem(
    status: int, detail: str | None, code: str, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A problem document. ``code`` is stable and machine-readable, ``detail`` is for a person, ``text`` for a page."""
    content: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    if detail is not None:
        content |= {"detail": shorten(detail), "text": shorten(page_text(detail))}
    return _Problem(
        content | {"code": code} | more,
        status_code=status,
        headers=dict(headers) if headers else None,
    )


def shorten(text: str, most: int = _MOST_DETAIL) -> str:
    """``text`` in a length that is fit for an answer, with its long words (keys, addresses) cut."""
    cut = _LONG_WORD.sub(lambda word: f"{word[0][:_MOST_ECHOED]}...", text[: 2 * most])
    return cut if len(text) <= 2 * most and len(cut) <= most else f"{cut[:most]}..."


def install(app: FastAPI) -> None:
    app.add_exception_handler(SeqferryError, _seqferry_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _answer_unexpected)


def status_of(error: SeqferryError) -> int:
    if isinstance(error, StorageError) and error.error_class == "person":
        # A missing bucket, a permission: what was asked cannot be done, however often it is asked.
        return 400
    for kind in type(error).__mro__:
        if kind in _STATUS:
            return _STATUS[kind]
    return 500


async def _seqferry_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SeqferryError)
    status, detail = status_of(error), shorten(error.message)
    more: dict[str, Any] = {}
    if isinstance(error, StorageError):
        detail = shorten(error.message, _MOST_OF_STORAGE)
        more = {
            "error_class": error.error_class,
            "error_code": _cut(error.error_code),
            "operation": error.operation,
        }
    place = find_field(request, error) if status in OF_FIELDS else None
    if place is not None:
        more["errors"] = [{"where": _cut(place), "message": detail, "text": page_text(detail)}]
    return problem(status, detail, error.code, None, **more)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    errors = [
        {
            "where": _cut(".".join(str(part) for part in one["loc"])),
            "message": _cut(str(one["msg"])),
            # Of a check of our own, the message has the kind of the error before the text.
            "text": _cut(str(one.get("ctx", {}).get("error", one["msg"]))),
        }
        for one in found[:_MOST_ERRORS]
    ]
    shown = "; ".join(f"{one['where']}: {one['message']}" for one in errors)
    more = f"; and {len(found) - _MOST_ERRORS} more" if len(found) > _MOST_ERRORS else ""
    detail = f"The request is not valid: {shown}{more}."
    return problem(422, detail, "invalid_request", errors=errors)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_ECHOED else f"{text[:_MOST_ECHOED]}..."


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).name.lower()
    headers = error.headers
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Starlette names the methods of the first route only that has this path.
        headers = {**(headers or {}), "Allow": ", ".join(_methods(request))}
    return problem(error.status_code, error.detail, code, headers)


def _methods(request: Request) -> list[str]:
    """The methods that the path of a request has."""
    path = request.scope["path"]
    routes = (route for route in iter_route_contexts(request.app.routes) if route.path_regex is not None)
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})


async def _answer_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "Something went wrong in the server; its log tells what.", "internal")
