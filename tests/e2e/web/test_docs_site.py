"""The documentation under /docs: its search and its pages, under the policy of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from seqferry.api.page_files import DOCS
from support.browser import PHONE, Tab
from support.mover import Mover
from support.run import MissingToolError


@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desk", "phone"])
def test_the_search_finds_a_section_and_asks_no_other_host(
    mover: Mover, serve: Callable[..., Any], open_tab: Callable[..., Tab], viewport: dict[str, int] | None
) -> None:
    if not (DOCS / "index.html").is_file():
        raise MissingToolError("the documentation is not built: run `make docs`")
    server = serve(mover)
    page = open_tab(server.url, **({"viewport": viewport} if viewport else {})).open("docs")
    expect(page).to_have_title("Seqferry")
    assert page.get_by_role("main").get_by_role("img").first.evaluate("image => image.naturalWidth") > 0

    page.keyboard.press("/")
    page.keyboard.type("backup restore")
    results = page.get_by_role("search").get_by_role("listitem")
    results.get_by_role("link", name="Backup and restore").first.click()
    expect(page).to_have_url(f"{server.url}docs/operate/operations.html#backup-and-restore")
    expect(page.get_by_role("heading", name="Backup and restore")).to_be_in_viewport()

    page.get_by_label("Search").fill("nothinghasthisword")
    expect(results).to_have_text(["No section has all of these words."])
    page.keyboard.press("Escape")
    expect(results).to_have_count(0)
