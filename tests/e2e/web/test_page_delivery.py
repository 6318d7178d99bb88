"""The page of a delivery as the holder of a share link sees it: without sign-in, on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from support.browser import PHONE, Tab
from support.mail_server import mail_server
from support.mover import Mover
from support.sim import Simulator
from support.waiting import eventually

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
    expect(page.get_by_text("1 file is missing: it was not found.")).to_be_visible()
    page.get_by_text("What is missing").click()
    expect(page.get_by_text("<b>lost.bam", exact=True)).to_be_visible()
    expect(page.get_by_label("Token")).to_have_count(0)
    assert "run42/" not in page.inner_text("main"), "the page names no place"
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= PHONE["width"]

    page.get_by_role("button", name="Receipt").click()
    expect(page.get_by_text("0001.bam").first).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]

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


def test_the_holder_of_a_link_is_told_by_mail_when_it_is_done(
    make_mover: MoverFactory,
    make_simulator: Callable[..., Simulator],
    serve: ServeFactory,
    open_tab: TabFactory,
    tmp_path: Path,
) -> None:
    simulator = make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=2;total=2MiB")
    simulator.client().create_bucket(Bucket="ours")
    simulator.set_faults({"fault": "slow_down", "operation": "CopyObject", "key_prefix": "run42/0001"})
    with mail_server() as (mails, channel):
        config = tmp_path / "config.toml"
        config.write_text(f'[notices.mail]\nurl = "{channel.url}"\n')
        config.chmod(0o600)
        mover = make_mover(simulator)
        mover.env["SEQFERRY_CONFIG"] = str(config)
        server = serve(mover)
        # Tried so often that it does not end, with which the form goes, while the address is written on a busy machine.
        options = {"endpoint_url": simulator.endpoint_url, "attempts": 100}
        transfer = server.submit("s3://vendor/run42/", "s3://ours/run42/", name="Run 42 <b>", **options)
        made = server.http.post("/api/v1/share-links", json={"transfer": transfer}).json()
        page = open_tab(server.url, viewport=PHONE).open(f"#/d/{made['token']}")
        page.get_by_role("button", name="Mail me when it is done").click()
        address, send = page.get_by_label("Your address, for one mail"), page.get_by_role("button", name="Mail me")

        for bad in ("", "bob", "<script>window.ran=1</script>@example.org", "a@example.org, b@example.org"):
            address.fill(bad)
            send.click()
            expect(page.get_by_role("alert")).to_have_text("Write one mail address, as ada@example.org.")
            expect(address).to_have_attribute("aria-invalid", "true")
            expect(address).to_be_focused()
        address.fill(" bob@example.net ")
        expect(page.get_by_role("alert")).to_have_count(0)
        send.click()
        expect(page.get_by_text("When it has ended, one mail goes to bob@example.net.")).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]

        simulator.set_faults()
        expect(page.get_by_text(re.compile("Complete. 2 files, all verified"))).to_be_visible(timeout=60_000)
        expect(page.get_by_text("one mail goes to")).to_have_count(0)
        to_bob = ["bob@example.net"]
        eventually(lambda: to_bob in mails.receivers, what="the mail", deadline=60)
    # The channel tells its own receiver of the end as well, before or after.
    assert mails.receivers.count(to_bob) == 1
    assert mails.text(mails.receivers.index(to_bob)).startswith(
        "Run 42 <b>: complete\nComplete. 2 files, all verified."
    )
