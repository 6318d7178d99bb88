"""The page and the documentation: files of ``api/page`` and ``api/docs``, served from memory without a token.

They are built from ``web/`` and ``docs/`` and read once. The page asks the API, with the token of its user.
"""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastapi import APIRouter, HTTPException, Request, Response, status
from fastapi.responses import RedirectResponse

from seqferry.model.frozen import frozen

_READS: Final = 5
"""A build takes seconds, and reading a page some milliseconds: a second look finds the new one."""
FOLDER: Final = Path(__file__).with_name("page")
DOCS: Final = Path(__file__).with_name("docs")

_MISSING: Final = """\
This Seqferry was built without its page. The API under /api/v1 and the command line do the same.
To have the page: install Node 20.19 or newer, then run `make build` in the checkout, or install a released wheel.
"""
_MISSING_DOCS: Final = """\
This Seqferry was built without its documentation as a site.
To have it: run `make docs` in the checkout, or install a released wheel.
"""

_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'; "
    "require-trusted-types-for 'script'; trusted-types svelte-trusted-html"
)
"""Nothing from elsewhere, no script in markup, and no text that becomes markup (``{@html}``, ``innerHTML``)."""

_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
_ALWAYS_NEW: Final = "no-cache"
_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"
"""Names of assets hold a hash of what is in them."""

_ENCODINGS: Final = (("br", ".br"), ("gzip", ".gz"))
"""The better one first. Browsers take ``br`` over TLS only."""

_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".svg": "image/svg+xml",
}


@frozen
class PageFile:
    """A file of the page in each encoding there is; the key ``identity`` is the file itself."""

    media_type: str
    bodies: Mapping[str, bytes]
    etag: str

    @classmethod
    def read(cls, path: Path) -> PageFile:
        bodies = {"identity": path.read_bytes()}
        for encoding, suffix in _ENCODINGS:
            packed = path.with_name(path.name + suffix)
            if packed.is_file():
                bodies[encoding] = packed.read_bytes()
        media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return cls(media_type, bodies, hashlib.sha256(bodies["identity"]).hexdigest()[:32])

    def answer(self, request: Request, cache: str) -> Response:
        encoding = _best(request.headers.get("accept-encoding", ""), self.bodies)
        etag = f'"{self.etag}-{encoding}"'
        headers = {**_HEADERS, "Cache-Control": cache, "ETag": etag}
        known = (one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(","))
        if any(one in (etag, "*") for one in known):
            return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
        if encoding != "identity":
            headers["Content-Encoding"] = encoding
        return Response(self.bodies[encoding], headers=headers, media_type=self.media_type)


def read_page(folder: Path = FOLDER) -> Mapping[str, PageFile]:
    """The files of a built page, or of the documentation, by their names in its folder; none where none was built.

    All are of one build: a build replaces the folder as a whole, and what was read of two is read again.
    """
    for _ in range(_READS):
        with contextlib.suppress(FileNotFoundError):
            before = folder.stat()
            files = _read(folder)
            if os.path.samestat(before, folder.stat()):
                return files
    return {}


def _read(folder: Path) -> Mapping[str, PageFile]:
    if not (folder / "index.html").is_file():
        return {}
    packed = tuple(suffix for _, suffix in _ENCODINGS)
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(packed))
    return {path.relative_to(folder).as_posix(): PageFile.read(path) for path in files}


def is_page_path(path: str) -> bool:
    """True for paths of the page and of the documentation, which need no token."""
    return path in ("/", "/icon.svg", "/licenses.md", "/docs") or path.startswith(("/assets/", "/docs/"))


def router(files: Mapping[str, PageFile]) -> APIRouter:
    """The routes of the page. They are no part of the description of the API."""
    routes = APIRouter(include_in_schema=False)

    async def index(request: Request) -> Response:
        found = files.get("index.html")
        if found is None:
            return Response(_MISSING, 404, headers=_HEADERS, media_type="text/plain")
        return found.answer(request, _ALWAYS_NEW)

    async def asset(request: Request, name: str) -> Response:
        return _existing(files, f"assets/{name}").answer(request, _FOR_A_YEAR)

    async def icon(request: Request) -> Response:
        return _existing(files, "icon.svg").answer(request, _ALWAYS_NEW)

    async def licenses(request: Request) -> Response:
        return _existing(files, "licenses.md").answer(request, _ALWAYS_NEW)

    for path, route in (("/", index), ("/assets/{name}", asset), ("/icon.svg", icon), ("/licenses.md", licenses)):
        routes.add_api_route(path, route, methods=["GET", "HEAD"], response_model=None)
    return routes


def docs_router(files: Mapping[str, PageFile]) -> APIRouter:
    """The routes of the documentation, below ``/docs/``."""
    routes = APIRouter(include_in_schema=False)

    async def folder() -> Response:
        return RedirectResponse("docs/")  # relative: a proxy may serve this under a prefix

    async def document(request: Request, name: str) -> Response:
        if not files:
            return Response(_MISSING_DOCS, 404, headers=_HEADERS, media_type="text/plain")
        return _existing(files, name or "index.html").answer(request, _ALWAYS_NEW)

    for path, route in (("/docs", folder), ("/docs/{name:path}", document)):
        routes.add_api_route(path, route, methods=["GET", "HEAD"], response_model=None)
    return routes


def _existing(files: Mapping[str, PageFile], name: str) -> PageFile:
    found = files.get(name)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such file; load the page again.")
    return found


def _best(accepted: str, bodies: Mapping[str, bytes]) -> str:
    wanted: set[str] = set()
    for one in accepted.lower().split(","):
        name, _, weight = one.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            wanted.add(name.strip())
    return next((name for name, _ in _ENCODINGS if name in wanted and name in bodies), "identity")
