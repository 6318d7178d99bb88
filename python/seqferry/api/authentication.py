"""Authentication of a request: name and role of its token. Nothing of the body has been read by then."""

from __future__ import annotations

from itertools import product
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqferry.api.page_files import is_page_path
from seqferry.api.problems import problem
from seqferry.api.request_queue import Limit, RequestQueue
from seqferry.model.errors import ConfigError
from seqferry.service.tokens import TokenStore
from seqferry.settings.tokens import Identity, Role

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""Paths of the API that need no token, for requests without a body. Without one their answers hold no data of a user.
"""

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_STREAMS: Final = 200
"""Streams of events under way; more are answered with 503. Each waits for most of its life, and holds a connection."""

MAX_REQUESTS: Final = 128
MAX_WAITING: Final = 256
WAIT_SECONDS: Final = 10.0
"""Requests with a token under way; more wait for so many seconds, and are then answered with 503. Far fewer than
connections may be open, so that there is always one for a question that needs no token."""

STREAMS: Final = "/events"
"""The end of the paths of streams."""

DELIVERY: Final = "/api/v1/delivery"
"""Start of the paths for holders of share links. Their routes look for the token of the link."""

TICKETS: Final = "/api/v1/tickets/"
"""Start of the paths that need no token: the ticket stands for it."""

DELIVERY_MAIL: Final = f"{DELIVERY}/mail"
"""The one path that accepts a body without a token, of at most a KiB. The address is in the body, so no log has it."""

REPORT_TICKET: Final = "/report-ticket"
"""The end of paths that are asked with POST, and change nothing: what can be read is to be downloaded."""

MAX_WITH_LINKS: Final = 32
MAX_STREAMS_WITH_LINKS: Final = 200
"""Requests and streams under way with share links and tickets, which do not count against those with a token."""

MAX_BODIES_WITH_LINKS: Final = 8
"""Requests with a body and a share link: slow senders take no room from readers."""

WITHOUT_TOKENS: Final = Identity("", "admin")
"""The client of a server without tokens."""


class Authentication:
    """Middleware that refuses requests without a known token, changes with a token of the role ``read``, and too many
    concurrent requests.

    ``scope["state"]["identity"]`` is the client's from here on, and missing on open paths without a token.

    Args:
        tokens: known tokens; None: no request needs one.
    """

    def __init__(self, app: ASGIApp, tokens: TokenStore | None) -> None:
        self._app = app
        self._tokens = tokens
        self._queues = {kind: RequestQueue(_limit(*kind)) for kind in product((False, True), repeat=3)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        with_body = has_body(scope)
        if with_body:
            receive, send = _closing_unread(receive, send)
        # A body would be read into memory before the route is looked up.
        if _is_open(scope) and not with_body:
            self._note(scope, self._identify_from_memory(scope))
            await self._app(scope, receive, send)
            return
        try:
            identity = await self._identity(scope)
        except ConfigError as why:
            await problem(503, why.message, why.code, {"Retry-After": "1"})(scope, receive, send)
            return
        self._note(scope, identity)
        if _is_open(scope) and identity is not None:
            await self._app(scope, receive, send)
            return
        is_mail = scope["path"] == DELIVERY_MAIL and scope["method"] == "POST"
        with_link = needs_no_token(scope["path"]) and (is_mail or not with_body)
        if with_link:
            await self._within_limits(scope, receive, send, holder=None)
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
        reads = scope["method"] in _READING or (scope["method"] == "POST" and scope["path"].endswith(REPORT_TICKET))
        needed: Role = "read" if reads else "submit"
        if not identity.may(needed):
            await problem(403, role_refusal(identity, needed), "forbidden")(scope, receive, send)
            return
        await self._within_limits(scope, receive, send, holder=identity.name)

    async def _identity(self, scope: Scope) -> Identity | None:
        """The client.

        Raises:
            ConfigError: its token cannot be looked up now.
        """
        if self._tokens is None:
            return WITHOUT_TOKENS
        token = _bearer(scope)
        return None if token is None else await self._tokens.identify(token)

    def _identify_from_memory(self, scope: Scope) -> Identity | None:
        """The client of a path that needs no token: it waits for no database."""
        if self._tokens is None:
            return WITHOUT_TOKENS
        token = _bearer(scope)
        return None if token is None else self._tokens.identify_from_memory(token)

    @staticmethod
    def _note(scope: Scope, identity: Identity | None) -> None:
        if identity is not None:
            scope.setdefault("state", {})["identity"] = identity

    async def _within_limits(self, scope: Scope, receive: Receive, send: Send, *, holder: str | None) -> None:
        """Args: ``holder`` is the name of the token; None with a share link or ticket: the address counts then."""
        with_link = holder is None
        is_stream = scope["path"].endswith(STREAMS) and scope["method"] == "GET"
        with_body = with_link and has_body(scope)
        queue = self._queues[is_stream, with_link, with_body]
        holder = _address(scope) if holder is None else holder
        if not await queue.enter(holder):
            what = "streams" if is_stream else "requests"
            of_one = queue.count(holder)
            whose = "" if of_one is None else " of this address" if with_link else " with this token"
            count = queue.limit.most if of_one is None else of_one
            busy = problem(503, f"{count} {what}{whose} are under way; try again.", "busy", {"Retry-After": "1"})
            await busy(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            queue.leave(holder)


def _address(scope: Scope) -> str:
    """The address of the client, or of the proxy before it."""
    client = scope.get("client")
    return "" if client is None else str(client[0])


def _limit(is_stream: bool, with_link: bool, with_body: bool) -> Limit:
    """The limit of a kind of requests. With a link: a share link or a ticket stands for the token."""
    if with_body:
        return Limit(MAX_BODIES_WITH_LINKS)
    if with_link:
        return Limit(MAX_STREAMS_WITH_LINKS if is_stream else MAX_WITH_LINKS)
    return Limit(MAX_STREAMS) if is_stream else Limit(MAX_REQUESTS, MAX_WAITING, WAIT_SECONDS)


def needs_no_token(path: str) -> bool:
    """True for paths where a share link or a ticket stands for the token."""
    return path == DELIVERY or path.startswith((f"{DELIVERY}/", TICKETS))


def role_refusal(identity: Identity, needed: Role) -> str:
    """The refusal of a client whose role is not enough."""
    return f"The token '{identity.name}' has the role '{identity.role}', and this needs the role '{needed}'."


def has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


def _is_open(scope: Scope) -> bool:
    if scope["path"] in OPEN:
        return True
    return scope["method"] in ("GET", "HEAD") and is_page_path(scope["path"])


def _bearer(scope: Scope) -> bytes | None:
    """The token of a request; None when it has none."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    # Two of them would let each program along the way believe another one.
    if len(given) != 1 or given[0][:7].lower() != b"bearer ":
        return None
    return given[0][7:].strip()


def _closing_unread(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Close the connection after an answer that did not wait for the whole body: nothing reads the rest."""
    whole = False

    async def receive_and_watch() -> Message:
        nonlocal whole
        message = await receive()
        whole = whole or not message.get("more_body", False)
        return message

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start" and not whole:
            headers = [(name, value) for name, value in message.get("headers", []) if name.lower() != b"connection"]
            message = {**message, "headers": [*headers, (b"connection", b"close")]}
        await send(message)

    return receive_and_watch, closing
