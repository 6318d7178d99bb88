"""Authentication of a request: name and role of its token. Nothing of the body has been read by then."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqferry.api.problems import problem
from seqferry.settings.tokens import Identity, Role, TokenStore

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""Paths that need no token, for requests without a body. Without one their answers hold no data of a user."""

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_STREAMS: Final = 200
"""Streams of events under way; more are answered with 503. Each waits for most of its life, and holds a connection."""

MAX_AT_ONCE: Final = 128
"""Requests with a token under way; more are answered with 503. Far fewer than connections may be open, so that there
is always one for a question that needs no token."""

STREAMS: Final = "/events"
"""The end of the paths of streams."""

WITHOUT_TOKENS: Final = Identity("", "admin")
"""The client of a server without tokens."""


class Guard:
    """Refuses requests without a known token, and changes by clients that may only read.

    ``scope["state"]["identity"]`` is the client's from here on, and missing on open paths without a token.

    Args:
        tokens: known tokens; None: no request needs one.
    """

    def __init__(self, app: ASGIApp, tokens: TokenStore | None) -> None:
        self._app = app
        self._tokens = tokens
        self._at_once = {False: 0, True: 0}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        with_body = has_body(scope)
        if with_body:
            receive, send = _closing_unread(receive, send)
        identity = WITHOUT_TOKENS if self._tokens is None else _identity(scope, self._tokens)
        if identity is not None:
            scope.setdefault("state", {})["identity"] = identity
        # A body would be read into memory before the route is looked up.
        if scope["path"] in OPEN and (identity is not None or not with_body):
            await self._app(scope, receive, send)
            return
        if identity is None:
            refusal = problem(
                401,
                "A token is needed: send it as 'Authorization: Bearer <token>'. The token of the server's owner is in "
                "the file 'token' of its state folder; `seqferry token add` makes others.",
                "unauthorized",
                {"WWW-Authenticate": "Bearer", "Connection": "close"},
            )
            await refusal(scope, receive, send)
            return
        needed: Role = "read" if scope["method"] in _READING else "submit"
        if not identity.may(needed):
            await problem(403, role_needed(identity, needed), "forbidden")(scope, receive, send)
            return
        is_stream = scope["path"].endswith(STREAMS) and scope["method"] == "GET"
        most = MAX_STREAMS if is_stream else MAX_AT_ONCE
        if self._at_once[is_stream] >= most:
            what = "streams" if is_stream else "requests"
            busy = problem(503, f"{most} {what} are under way; try again.", "busy", {"Retry-After": "1"})
            await busy(scope, receive, send)
            return
        self._at_once[is_stream] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._at_once[is_stream] -= 1


def role_needed(identity: Identity, needed: Role) -> str:
    """The refusal of a client whose role is not enough."""
    return f"The token '{identity.name}' has the role '{identity.role}', and this needs the role '{needed}'."


def has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


def _identity(scope: Scope, tokens: TokenStore) -> Identity | None:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    # Two of them would let each program along the way believe another one.
    if len(given) != 1 or given[0][:7].lower() != b"bearer ":
        return None
    return tokens.identify(given[0][7:].strip())


def _closing_unread(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Have the connection closed after an answer that did not wait for the whole body: nothing reads the rest."""
    whole = False

    async def watched() -> Message:
        nonlocal whole
        message = await receive()
        whole = whole or not message.get("more_body", False)
        return message

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start" and not whole:
            headers = [(name, value) for name, value in message.get("headers", []) if name.lower() != b"connection"]
            message = {**message, "headers": [*headers, (b"connection", b"close")]}
        await send(message)

    return watched, closing
