"""The description of the API (OpenAPI): each answer that a route may give, problems among them.

A route names what is its own with ``responses=problem_responses(409, ...)``; what any route may answer is added here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from seqferry.api.authentication import OPEN, needs_no_token
from seqferry.api.problems import OF_FIELDS

PROBLEM_TYPE: Final = "application/problem+json"

MEANINGS: Final[Mapping[int, tuple[str, Mapping[str, str]]]] = {
    400: ("The request is not valid, or the storage refuses it permanently", {
        "usage": "a value is not valid, or values contradict each other",
        "bad_request": "the body is not JSON in UTF-8, or ended too early",
        "storage": "a bucket is missing or a permission: see `error_code` and `operation`",
    }),
    401: ("The token is missing or not known", {"unauthorized": "send `Authorization: Bearer <token>`"}),
    403: ("The token's role or the server's policy does not allow it", {
        "forbidden": "the role of the token is not enough",
        "not_allowed": "the policy of the server does not allow it",
    }),
    404: ("Not found", {"not_found": "no such transfer, object or page"}),
    405: ("The path does not support this method", {"method_not_allowed": "see the header `Allow`"}),
    408: ("The body came too slowly", {"request_timeout": "20 s without a byte, or 300 s in all"}),
    409: ("The state of the resource does not allow it", {
        "conflict": "for example: the transfer has ended, or the idempotency key was used for another transfer",
        "unsupported": "the transfer needs another version of Seqferry",
    }),
    413: ("The body is too large", {"too_large": "more bytes or values than the limit"}),
    422: ("The request does not match its schema", {"invalid_request": "`errors` names each place"}),
    429: ("Too many requests with this share link", {"too_many_requests": "see the header `Retry-After`"}),
    500: ("An internal error; the log of the server has the cause", {
        "internal": "unexpected",
        "access": "this process is not the identity that the transfer needs",
    }),
    502: ("The storage cannot be reached, or fails", {"storage": "see `error_code` and `operation`"}),
    503: ("Temporarily unavailable: try again later", {
        "busy": "too many requests are under way; see the header `Retry-After`",
        "config": "the database or the state folder cannot be used",
        "worker_busy": "another worker holds the state folder",
    }),
    504: ("The storage has not answered in time", {"storage_timeout": "nothing was started"}),
}  # fmt: skip
"""Status, its meaning, and the codes that come with it. Codes are stable: clients may rely on them."""

_ERRORS: Final = {
    "description": "The places in the request; for other statuses than 422 the one place, where it is known.",
    "type": "array",
    "items": {
        "type": "object",
        "required": ["where", "message", "text"],
        "properties": {
            "where": {"type": "string"},
            "message": {"type": "string"},
            "text": {"description": "The message for readers of a page.", "type": "string"},
        },
    },
}
_OF_STORAGE: Final = {
    "error_class": {"description": "With `storage`: the class of the failure.", "type": "string"},
    "error_code": {"description": "With `storage`: the code of the service.", "type": "string"},
    "operation": {"description": "With `storage`: the S3 operation.", "type": "string"},
}
_STORAGE: Final = frozenset({"storage", "storage_timeout"})


def _schema(status: int) -> dict[str, Any]:
    """The schema of the problems of one status: the status limits which codes there are."""
    meaning, codes = MEANINGS[status]
    invalid = "invalid_request" in codes
    properties: dict[str, Any] = {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer", "const": status},
        "code": {"type": "string", "enum": sorted(codes)},
        "detail": {"type": "string"},
        "text": {"description": "`detail` for readers of a page: options by the labels of its form.", "type": "string"},
    }
    if invalid or status in OF_FIELDS:
        properties["errors"] = _ERRORS
    if not _STORAGE.isdisjoint(codes):
        properties |= _OF_STORAGE
    return {
        "title": _name(status),
        "description": f"{meaning} (RFC 9457). `code` is stable, `detail` is for a person.",
        "type": "object",
        "required": ["type", "title", "status", "code", *(["errors"] if invalid else [])],
        "properties": properties,
    }


def _name(status: int) -> str:
    return f"Problem{status}"


_ALWAYS: Final = (401, 405, 422, 500, 503)
_WITH_BODY: Final = (400, 408, 413)
_READING: Final = frozenset({"get", "head", "options"})


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route that may answer with problems of these statuses."""
    return {status: _answer(status) for status in statuses}


def _answer(status: int) -> dict[str, Any]:
    meaning, codes = MEANINGS[status]
    listed = "; ".join(f"`{code}`: {text}" for code, text in codes.items())
    return {
        "description": f"{meaning}. {listed}.",
        "content": {PROBLEM_TYPE: {"schema": {"$ref": f"#/components/schemas/{_name(status)}"}}},
    }


def install(app: FastAPI) -> None:
    """Have the description of the application name the problems of each route."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(
                get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            )
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= {_name(status): _schema(status) for status in MEANINGS}
    schemas["Problem"] = {"oneOf": [{"$ref": f"#/components/schemas/{_name(status)}"} for status in MEANINGS]}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            statuses = {*_ALWAYS, *([404] if "{" in path else [])}
            if "requestBody" in operation:
                statuses.update(_WITH_BODY)
            if method not in _READING:
                statuses.add(403)
            if path in OPEN:
                statuses -= {422}
            if needs_no_token(path):
                statuses = (statuses | {404}) - {401, 403}
                if "security" in operation:
                    operation["security"].append({})  # without it the answer is that of a link that is not valid
            responses = operation["responses"]
            operation["responses"] = {str(status): _answer(status) for status in statuses} | {
                code: given for code, given in responses.items() if code != "422"
            }
            if 422 in statuses:
                operation["responses"]["422"] = _answer(422)
            operation["responses"] = dict(sorted(operation["responses"].items()))
    return schema
