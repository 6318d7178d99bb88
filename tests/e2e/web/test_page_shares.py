"""The page of shares: what waits, what fails and why, and whether all files of a folder are in S3."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import PHONE, Tab
from support.gateways import WrittenShares, need_libnfs, written_share
from support.mover import Mover
from support.servers import S3Server


@pytest.fixture
def mover(make_mover: Callable[[S3Server], Mover], seaweedfs: S3Server) -> Mover:
    return make_mover(seaweedfs)


@pytest.fixture
def bucket(seaweedfs: S3Server, make_bucket: Callable[..., str]) -> str:
    name = make_bucket(seaweedfs)
    for number in range(12):
        seaweedfs.client().put_object(Bucket=name, Key=f"runs/run42/lane{number % 2}/{number}", Body=b"ACGT")
    seaweedfs.client().put_object(Bucket=name, Key="references/x", Body=b"ACGT")
    return name


@pytest.fixture
def shares(mover: Mover, bucket: str, seaweedfs: S3Server, tmp_path: Path) -> Iterator[WrittenShares]:
    """The share ``runs``, whose files wait until they are flushed, and ``references``, which is read-only."""
    need_libnfs()
    config = written_share("runs", f"s3://{bucket}/runs/", "settle = 86400")
    config += f'[[share]]\nname = "references"\nsource = "s3://{bucket}/references/"\n'
    served = WrittenShares(tmp_path, seaweedfs, config, more={"SEQFERRY_STATE_DIR": str(mover.state)})
    yield served
    served.close()


def _line(page: Page, name: str) -> Any:
    return page.get_by_role("listitem").filter(has=page.get_by_text(f"/{name}", exact=True))


def test_a_person_sees_what_waits_and_when_a_run_is_safe(
    mover: Mover,
    shares: WrittenShares,
    bucket: str,
    seaweedfs: S3Server,
    serve: Callable[..., Any],
    open_tab: Callable[..., Tab],
) -> None:
    seaweedfs.deny(bucket, "runs/run42/lane0/denied", actions=("s3:PutObject",))
    for name in ("lane0/new", "lane0/denied", "lane1/new"):
        shares.write(f"runs/run42/{name}", b"ACGT")
    shares.ask("flush", "/runs/run42/lane0/denied")
    server = serve(mover)
    page = open_tab(server.url).sign_in(server.token, "#/")
    page.get_by_role("link", name="Shares").click()

    expect(page.get_by_role("heading", name="Gateway")).to_contain_text(f"127.0.0.1:{shares.port}")
    runs = _line(page, "runs")
    expect(runs).to_contain_text("3 files wait, 12 B; the oldest for")
    expect(runs).to_contain_text("The oldest is run42/lane0/new.")
    expect(runs).to_contain_text(re.compile(r"failing\s+run42/lane0/denied: .*AccessDenied"))
    expect(runs).to_contain_text(f"s3://{bucket}/runs/")
    expect(_line(page, "references")).to_contain_text("read-only")

    runs.get_by_role("link", name="/runs").click()
    expect(page.get_by_role("status").filter(has_text="3 files wait here.")).to_be_visible()
    page.get_by_role("button", name="Count all files").click()
    expect(page.get_by_text("12 of 15 files are in S3.")).to_be_visible()
    folder = page.get_by_label("Folder or file of the share")
    folder.fill("/runs/run42/lane1/")
    folder.press("Enter")
    expect(page.get_by_text("6 of 7 files are in S3.")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Files in S3")).to_have_attribute("aria-valuenow", "85.7")
    expect(page.get_by_text("The oldest that waits is run42/lane1/new, for")).to_be_visible()
    assert page.url.endswith("?path=run42%2Flane1")
    page.get_by_role("navigation", name="Folders above").get_by_role("link", name="run42").click()
    expect(page.get_by_text("12 of 15 files are in S3.")).to_be_visible()
    lane = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="lane0/"))
    expect(lane).to_contain_text("1 waiting, 1 failing")

    seaweedfs.deny(bucket, "elsewhere/*")
    shares.ask("flush", "--wait")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("All 15 files are in S3.")).to_be_visible()
    expect(lane).to_contain_text("in S3")
    page.go_back()
    expect(page.get_by_text("All 7 files are in S3.")).to_be_visible()
    folder.fill("absent")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("no file or folder of this name")


def test_shares_of_a_gateway_that_was_killed_are_shown_as_they_were(
    mover: Mover, shares: WrittenShares, serve: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    server = serve(mover)
    page = open_tab(server.url, viewport=PHONE).sign_in(server.token, "#/shares")
    expect(_line(page, "runs")).to_contain_text("in S3")
    page.get_by_role("link", name="/runs").click()
    expect(page.get_by_text("Nothing of this folder waits.")).to_be_visible()

    shares.process.kill()
    with sqlite3.connect(mover.state / "seqferry.sqlite", timeout=30, isolation_level=None) as connection:
        connection.execute("UPDATE worker SET seen_at = seen_at - 4000 WHERE kind = 'gateway'")  # an hour goes by
    connection.close()

    expect(page.get_by_text("No heartbeat since")).to_be_visible()
    expect(page.get_by_role("button", name="Check")).to_have_count(0)
    shares.restart()
    page.get_by_role("link", name="The share is served by another gateway now.").click()
    expect(page.get_by_text("Nothing of this folder waits.")).to_be_visible()


def test_a_server_without_gateways_says_how_to_start_one(
    mover: Mover, serve: Callable[..., Any], open_tab: Callable[..., Tab]
) -> None:
    server = serve(mover)
    page = open_tab(server.url).sign_in(server.token, "#/shares")
    expect(page.get_by_text("No gateway is running.")).to_be_visible()
    expect(page.get_by_text("seqferry gateway serve")).to_be_visible()
