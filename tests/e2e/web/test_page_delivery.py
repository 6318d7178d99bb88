"""The page of a delivery as the holder of a share link sees it: without sign-in, on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from support.browser import PHONE, Tab
from support.mover import Mover
from support.sim import Simulator

ServeFactory = Callable[..., Any]
TabFactory = Callable[..., Tab]
MoverFactory = Callable[[Simulator], Mover]

NOT_VALID = "This link is not valid, or not any more"


def linked(make_mover: MoverFactory, make_simulator: Callable[..., Simulator], serve: ServeFactory) -> tuple[Any, Any]:
    """A server with a transfer of three files, of which one is not there, and a link to it."""
    simulator = make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=2;total=2MiB")
    simulator.client().create_bucket(Bucket="ours")
    server = serve(make_mover(simulator))
    keys = ["run42/0000.bam", "run42/0001.bam", "run42/<b>lost.bam"]
    place = {"endpoint_url": simulator.endpoint_url, "keys": [key.removeprefix("run42/") for key in keys]}
    transfer = server.submit("s3://vendor/run42/", "s3://ours/run42/", name="Run 42", **place)
    made = server.http.post("/api/v1/share-links", json={"transfer": transfer, "expires": "14d"})
    assert made.status_code == 201, made.text
    return server, made.json()


def test_the_holder_of_a_link_sees_what_arrived_and_what_is_missing(
    make_mover: MoverFactory, make_simulator: Callable[..., Simulator], serve: ServeFactory, open_tab: TabFactory
) -> None:
    server, link = linked(make_mover, make_simulator, serve)
    page = open_tab(server.url, viewport=PHONE).open(f"#/d/{link['token']}")

    expect(page.get_by_role("heading", name="Run 42")).to_be_visible()
    expect(page.get_by_text("The delivery has ended. 2 of 3 files have arrived; 1 file is missing.")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", re.compile(r"^(?!100 %)"))
    expect(page.get_by_text("1 file is missing: it is not there any more.")).to_be_visible()
    page.get_by_text("What is missing").click()
    expect(page.get_by_text("<b>lost.bam", exact=True)).to_be_visible()
    expect(page.get_by_label("Token")).to_have_count(0)
    assert "run42/" not in page.inner_text("main"), "the page names no place"
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= PHONE["width"]

    page.get_by_role("button", name="Receipt").click()
    expect(page.get_by_text("0001.bam").first).to_be_visible()

    # The link opens the receipt in a tab of somebody who is signed in, as well.
    other = open_tab(server.url).sign_in(server.token)
    expect(other.get_by_role("heading", name="Ended")).to_be_visible()
    other.goto(f"{server.url}#/d/{link['token']}")
    other.get_by_role("button", name="Receipt").click()
    expect(other.get_by_text("0001.bam").first).to_be_visible()


def test_links_that_are_revoked_or_forged_show_one_sentence(
    make_mover: MoverFactory, make_simulator: Callable[..., Simulator], serve: ServeFactory, open_tab: TabFactory
) -> None:
    server, link = linked(make_mover, make_simulator, serve)
    page = open_tab(server.url, viewport=PHONE).open(f"#/d/{link['token']}")
    expect(page.get_by_role("heading", name="Run 42")).to_be_visible()

    assert server.http.delete(f"/api/v1/share-links/{link['id']}").status_code == 204
    expect(page.get_by_text(NOT_VALID)).to_be_visible()
    expect(page.get_by_role("heading", name="Run 42")).to_have_count(0)
    forged = open_tab(server.url).open(f"#/d/{'0' * 55}")
    expect(forged.get_by_text(NOT_VALID)).to_be_visible()
