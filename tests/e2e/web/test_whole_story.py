"""A first user with nothing but the page: a delivery is started, found incomplete, put right, proved and shared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from support.browser import PHONE, Tab
from support.mover import Mover
from support.servers import S3Server

ServeFactory = Callable[..., Any]
TabFactory = Callable[..., Tab]
MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]

DENIED = "run42/S1_L001_R1_denied.fastq.gz"


def test_a_delivery_is_started_understood_put_right_proved_and_shared_with_the_page_alone(
    seaweedfs: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    vendor, ours = make_bucket(seaweedfs), make_bucket(seaweedfs)
    for key in ("run42/a.bam", "run42/b.bam", DENIED):
        seaweedfs.client().put_object(Bucket=vendor, Key=key, Body=key.encode() * 100)
    seaweedfs.deny(vendor, DENIED, actions=("s3:GetObject",))
    server = serve(make_mover(seaweedfs))
    page = open_tab(server.url).sign_in(server.token)

    transfer = _start_by_browsing(page, vendor, ours)
    _understand_what_is_missing(page)
    phone = open_tab(server.url, viewport=PHONE).open(_share(page).removeprefix(server.url))
    expect(phone.get_by_role("heading", name="Run 42")).to_be_visible()
    expect(phone.get_by_text("The delivery has ended. 2 of 3 files have arrived; 1 file is missing.")).to_be_visible()
    expect(phone.get_by_text("1 file is missing: reading it, or writing it here, was denied.")).to_be_visible()
    expect(phone.get_by_label("Token")).to_have_count(0)

    seaweedfs.client().delete_bucket_policy(Bucket=vendor)  # the sender has allowed it
    _retry(page, transfer)
    assert seaweedfs.client().get_object(Bucket=ours, Key=DENIED)["Body"].read() == DENIED.encode() * 100

    # The phone was not touched meanwhile.
    expect(phone.get_by_text(re.compile("Complete. 3 files, all verified"))).to_be_visible()
    expect(phone.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "100 %")
    expect(phone.get_by_text("is missing")).to_have_count(0)
    assert phone.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]

    _prove(page)
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Revoke").click()
    expect(phone.get_by_text("This link is not valid, or not any more")).to_be_visible()


def _start_by_browsing(page: Page, vendor: str, ours: str) -> str:
    """Start a transfer from one bucket to the other; returns its id, which the page shows in its address."""
    page.get_by_role("link", name="New transfer").click()
    page.get_by_role("button", name="Browse From").click()
    page.get_by_role("button", name=vendor).click()
    page.get_by_role("button", name="run42").click()
    expect(page.get_by_text("3 objects", exact=True)).to_be_visible()
    page.get_by_role("button", name="Browse To").click()
    page.get_by_role("button", name=ours).click()
    target = page.get_by_label("To", exact=True)
    expect(target).to_have_value(f"s3://{ours}/")
    target.press("End")
    target.press_sequentially("run42/")
    page.get_by_label("Transfer name").fill("Run 42")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(r"#/t/[0-9a-f-]{36}$"))
    return page.url.rpartition("/")[2]


def _cause(page: Page) -> Locator:
    return page.get_by_role("article")


def _understand_what_is_missing(page: Page) -> None:
    """The page opens on the failures: what has arrived, the cause in words, advice, the key, a text for the sender."""
    expect(page.get_by_role("heading", name="Run 42", exact=True)).to_be_visible()
    expect(page.get_by_text("done with failures").first).to_be_visible()
    expect(page.get_by_text("2 of 3 objects")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", re.compile(r"^(?!100 %)"))
    cause = _cause(page)
    expect(cause.get_by_text(re.compile(r"1 object, .*: reading it, or writing it here, was denied"))).to_be_visible()
    expect(cause.get_by_text("AccessDenied").first).to_be_visible()
    expect(cause.get_by_text("What to do:")).to_be_visible()
    expect(cause.get_by_text(DENIED, exact=True)).to_be_visible()
    cause.get_by_role("button", name="Text for the sender").click()
    letter = page.get_by_role("textbox")
    expect(letter).to_have_value(re.compile("“Run 42”.*1 file .* is missing: reading it.* was denied", re.DOTALL))
    expect(letter).to_have_value(re.compile(f"File:\n  {re.escape(DENIED)}\n"))
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_text("Copied.", exact=True)).to_be_visible()
    page.get_by_role("button", name="Close").click()


def _share(page: Page) -> str:
    """Make a share link; returns it."""
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Make a link").click()
    link = page.get_by_label("The link").input_value()
    assert "#/d/" in link
    page.get_by_role("button", name="Close").click()
    return link


def _retry(page: Page, transfer: str) -> None:
    _cause(page).get_by_role("button", name="Retry this one").click()
    expect(page.get_by_text(f"seqferry retry {transfer}")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Retry 1 object").click()
    expect(page.get_by_text("3 of 3 objects")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "100 %")
    expect(page.get_by_role("navigation", name="Attempts").get_by_role("link")).to_have_count(2)


def _prove(page: Page) -> None:
    """The fate of the object, the record, the target today, and the receipt of the retry."""
    page.get_by_role("link", name="Objects").click()
    page.get_by_role("button", name=DENIED).click()
    expect(page.get_by_text("The ETag, a digest of the content, is equal at both sides.")).to_be_visible()
    page.get_by_role("link", name="Events").click()
    page.get_by_role("button", name="Check the record").click()
    expect(page.get_by_text("The record is intact")).to_be_visible()
    expect(page.get_by_text("submitted the transfer")).to_be_visible()
    page.get_by_role("link", name="Verification").click()
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_text("The object is as it was received.")).to_be_visible(timeout=20_000)
    expect(page.get_by_role("listitem").filter(has_text="1 object as received").get_by_text("done")).to_be_attached()
    page.get_by_role("link", name="Transfers").click()
    expect(page.get_by_role("listitem").filter(has_text="verification:")).to_be_visible()
    page.go_back()
    page.get_by_text("Receipt", exact=False).first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    receipt = json.loads(download.value.path().read_text())
    assert [one["source_key"] for one in receipt["objects"]] == [DENIED]
