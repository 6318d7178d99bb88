"""The page as a browser shows it: sign-in in place, below any prefix, and nothing of other hosts."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Error, expect

from support.browser import Tab
from support.mover import Mover
from support.prefix_proxy import PrefixProxy
from support.run import ROOT, SCRIPTS

ServeFactory = Callable[..., Any]
TabFactory = Callable[..., Tab]


def test_sign_in_appears_in_place_and_the_view_stays(mover: Mover, serve: ServeFactory, open_tab: TabFactory) -> None:
    server = serve(mover)
    tab = open_tab(server.url)
    page = tab.open("#/?text=run42")
    page.get_by_label("Token").fill("a-token-that-is-not-known")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("The server does not know this token")).to_be_visible()

    page.get_by_label("Token").fill(server.token)
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("heading", name="Transfers")).to_be_visible()
    assert page.url.endswith("#/?text=run42")
    page.reload()
    expect(page.get_by_role("heading", name="Transfers")).to_be_visible()
    assert server.token not in page.evaluate("() => document.cookie + location.href")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()


def test_the_page_works_below_a_prefix_and_asks_for_nothing_outside(
    mover: Mover, serve: ServeFactory, open_tab: TabFactory
) -> None:
    server = serve(mover)
    with PrefixProxy(urlsplit(server.url).port or 0) as proxy:
        page = open_tab(proxy.url).sign_in(server.token)
        expect(page.get_by_text("No transfers yet")).to_be_visible()
        expect(page.get_by_role("button", name="live")).to_be_visible()

        assert page.request.get(f"{proxy.url}licenses.md").ok
        assert not proxy.strays


def test_the_policy_lets_no_text_become_markup(mover: Mover, serve: ServeFactory, browser: Browser) -> None:
    server = serve(mover)
    tab = Tab(browser, server.url)  # its troubles are wanted
    page = tab.open()
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("() => { document.body.innerHTML = '<img src=x>' }")
    tab.context.close()


def test_a_distribution_holds_the_page_and_the_documentation(browser: Browser, tmp_path: Path) -> None:
    # The same list (`include`) says what is in a wheel, which takes minutes to compile.
    command = [SCRIPTS / "maturin", "sdist", "--out", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)

    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as packed:
        found = packed.getnames()
    names = [name.partition("/python/seqferry/api/page/")[2] for name in found]
    assert any(name.endswith("/python/seqferry/api/docs/search/search_index.json") for name in found)
    for pattern in (
        "index.html",
        "index.html.br",
        "icon.svg",
        "licenses.md",
        "assets/index-*.js",
        "assets/index-*.css.gz",
    ):
        assert any(Path(name).match(pattern) for name in names if name), (pattern, names)
