"""The files of the page and the documentation: open, cached, compressed, under a policy that lets nothing else in."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from http_client import http

from seqferry.api import create_app
from seqferry.api.page_files import PageFile, read_page
from seqferry.service import tokens
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.tokens import owner_token

SCRIPT = b"console.log('page')"


@pytest.fixture
def service(sqlite_settings: Settings) -> Iterator[Service]:
    with Service.open(sqlite_settings) as found:
        yield found


@pytest.fixture
def client(service: Service, tmp_path: Path) -> Iterator[httpx.Client]:
    """Without a token, of a server with a small page and a small documentation."""
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Seqferry</title>")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "licenses.md").write_text("# Licences")
    (folder / "assets" / "index-1a2b.js").write_bytes(SCRIPT)
    (folder / "assets" / "index-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT))
    docs = tmp_path / "docs"
    (docs / "use").mkdir(parents=True)
    (docs / "index.html").write_text("<!doctype html><title>Documentation</title>")
    (docs / "use" / "mount.html").write_text("<!doctype html><title>Mount</title>")
    settings = service.settings
    owner_token(settings.state_dir)
    store = tokens.TokenStore(service)
    with http(create_app(settings, service, store, page=read_page(folder), docs=read_page(docs))) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "media_type", "cache"),
    [
        ("/", "text/html; charset=utf-8", "no-cache"),
        ("/icon.svg", "image/svg+xml", "no-cache"),
        ("/licenses.md", "text/markdown; charset=utf-8", "no-cache"),
        ("/assets/index-1a2b.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
        ("/docs/", "text/html; charset=utf-8", "no-cache"),
        ("/docs/use/mount.html", "text/html; charset=utf-8", "no-cache"),
    ],
)
def test_files_of_the_page_need_no_token_and_are_answered_anew_only_when_changed(
    client: httpx.Client, path: str, media_type: str, cache: str
) -> None:
    found = client.get(path)
    head = client.head(path)
    known = client.get(path, headers={"If-None-Match": f'"other", W/{found.headers["etag"]}'})

    assert (found.status_code, found.headers["content-type"], found.headers["cache-control"]) == (
        200,
        media_type,
        cache,
    )
    policy = found.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", found.headers["etag"])
    assert head.headers["content-length"] == found.headers["content-length"]
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", found.headers["etag"])


def test_a_file_comes_in_an_encoding_that_the_client_takes(client: httpx.Client) -> None:
    path = "/assets/index-1a2b.js"
    packed = client.get(path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    plain = [client.get(path, headers={"Accept-Encoding": one}) for one in ("identity", "gzip;q=0", "zstd", "")]

    assert (packed.headers["content-encoding"], packed.content) == ("gzip", SCRIPT)
    assert packed.headers["vary"] == "Accept-Encoding"
    for one in plain:
        assert ("content-encoding" in one.headers, one.content) == (False, SCRIPT)
        assert one.headers["etag"] != packed.headers["etag"]


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/assets/",
        "/assets/../index.html",
        "/api/v1/transfers",
        "/openapi.json",
        "/icon.svg/x",
        "/docs/none",
        "/docsx",
    ],
)
def test_what_is_no_file_of_the_page_asks_for_a_token(client: httpx.Client, path: str) -> None:
    found = client.get(path)

    assert found.status_code in (401, 404)
    assert found.headers["content-type"] == "application/problem+json"


def test_the_documentation_is_found_without_the_last_slash(client: httpx.Client) -> None:
    found = client.get("/docs")

    assert (found.status_code, found.headers["location"]) == (307, "docs/")
    assert "<title>Documentation</title>" in client.get("/docs/").text


@pytest.mark.parametrize("name", ["index-0000.js", "index-1a2b.js.gz", "..%2Findex.html", "%00", "x" * 2000])
def test_unknown_assets_are_not_found(client: httpx.Client, name: str) -> None:
    assert client.get(f"/assets/{name}").status_code in (401, 404)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_guarded_as_before(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/").status_code == 401
    assert client.request(method, "/", content=b"x").status_code == 401


def test_without_its_page_or_documentation_the_server_says_how_to_get_them(service: Service, tmp_path: Path) -> None:
    none = read_page(tmp_path / "none")
    app = create_app(service.settings, service, None, page=none, docs=none)
    with http(app) as client:
        docs = client.get("/docs/")
        found = client.get("/")
        asset = client.get("/assets/index-1a2b.js")

    assert found.status_code == 404
    assert "install Node 20.19 or newer" in found.text
    assert asset.status_code == 404
    assert (docs.status_code, "run `make docs`" in docs.text) == (404, True)


def _built(folder: Path, number: int) -> Path:
    (folder / "assets").mkdir(parents=True)
    for one in range(20):
        (folder / "assets" / f"a{one}-{number}.js").write_text(f"{number}")
    (folder / "index.html").write_text(f"{number}")
    (folder / "index.html.gz").write_bytes(gzip.compress(f"{number}".encode()))
    return folder


def test_a_page_that_is_built_anew_while_it_is_read_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build replaces the folder once, at each file in turn that is read."""
    read = PageFile.read
    for at in range(21):
        page, seen = _built(tmp_path / f"page{at}", 1), iter(range(100))

        def replaced(path: Path, page: Path = page, at: int = at, seen: Iterator[int] = seen) -> PageFile:
            if next(seen) == at:
                newer = _built(page.with_name(f"{page.name}-built"), 2)
                page.rename(page.with_name(f"{page.name}-replaced"))
                newer.rename(page)
                shutil.rmtree(page.with_name(f"{page.name}-replaced"))
            return read(path)

        monkeypatch.setattr(PageFile, "read", replaced)
        files = read_page(page)

        assert {body for one in files.values() for kind, body in one.bodies.items() if kind == "identity"} == {b"2"}
        assert gzip.decompress(files["index.html"].bodies["gzip"]) == b"2"
        assert len(files) == 21
