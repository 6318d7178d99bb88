"""The page of one transfer: what it does, why objects failed, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import PHONE, Tab
from support.mover import Mover
from support.servers import S3Server
from support.sim import Simulator

ServeFactory = Callable[..., Any]
TabFactory = Callable[..., Tab]
MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]

DENIED = "run42/S1_L001_R1_denied.fastq.gz"


@pytest.fixture
def denied(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, serve: ServeFactory
) -> tuple[Any, str, str, str]:
    """A server, the id of an ended transfer of which one of three files was denied, its source and its target."""
    vendor, ours = make_bucket(seaweedfs), make_bucket(seaweedfs)
    for key in ("run42/a.bam", "run42/b.bam", DENIED):
        seaweedfs.client().put_object(Bucket=vendor, Key=key, Body=key.encode() * 100)
    seaweedfs.deny(vendor, DENIED, actions=("s3:GetObject",))
    server = serve(make_mover(seaweedfs))
    given = {"name": "Run 42", "labels": {"project": "X"}, "preflight": False}
    transfer = server.submit(f"s3://{vendor}/run42/", f"s3://{ours}/run42/", **given)
    return server, transfer, vendor, ours


def titled(page: Page, name: str) -> Locator:
    return page.get_by_role("heading", name=name, exact=True)


def test_unknown_ids_and_tokens_that_only_read_are_told(
    denied: tuple[Any, str, str, str], open_tab: TabFactory
) -> None:
    server, transfer, *_ = denied
    added = server.mover.start("token", "add", "viewer", "--role", "read")
    assert added.wait() == 0, str(added)
    page = open_tab(server.url, viewport=PHONE).sign_in(added.stdout.strip(), "#/t/no-such-one")
    expect(titled(page, "Transfer not found")).to_be_visible()

    page.goto(f"{server.url}#/t/{transfer}")
    expect(titled(page, "Run 42")).to_be_visible()
    expect(page.get_by_role("button", name="Retry this one")).to_be_disabled()
    expect(page.get_by_role("button", name="Share")).to_be_disabled()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_running_one_shows_its_course_and_takes_limits_and_a_pause(
    make_mover: Callable[[Simulator], Mover],
    make_simulator: Callable[..., Simulator],
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    simulator = make_simulator("--bucket", "vendor=keys=run42/{i:04}.bam;count=40;total=2TiB", "--bucket", "ours")
    server = serve(make_mover(simulator))
    transfer = server.submit("s3://vendor/run42/", "s3://ours/run42/", endpoint_url=simulator.endpoint_url)
    page = open_tab(server.url, color_scheme="dark").sign_in(server.token, f"#/t/{transfer}")
    expect(page.get_by_text("running").first).to_be_visible()

    chart = page.get_by_role("img", name=re.compile("Throughput over time. Now .* a second, at most .* 1 worker"))
    expect(chart).to_be_visible(timeout=20_000)
    expect(chart.locator("canvas")).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.get_by_role("columnheader", name="Throttled")).to_be_visible()
    expect(page.get_by_text(re.compile(r"\d requests? in flight, by 1 worker"))).to_be_visible()

    page.get_by_role("button", name="Limits").click()
    page.get_by_label("Bytes per second").fill("fast")
    page.get_by_role("button", name="Change").click()
    wrong = re.compile("^“Bytes per second”: 'fast' is not a size")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text(wrong)
    page.get_by_label("Bytes per second").fill("50MB")
    expect(page.get_by_text(f"seqferry set {transfer} --max-bandwidth 50MB")).to_be_visible()
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert server.http.get(f"/api/v1/transfers/{transfer}").json()["max_bandwidth"] == "50MB"

    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text(f"seqferry pause {transfer}")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused: nothing is copied")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("cancelled").first).to_be_visible()


def test_objects_come_in_pages_and_are_found_by_prefix_and_state(
    make_mover: Callable[[Simulator], Mover],
    make_simulator: Callable[..., Simulator],
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    simulator = make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=450;total=1MiB")
    simulator.client().create_bucket(Bucket="ours")
    denied = {"error": [403, "AccessDenied"]}
    simulator.set_faults({"fault": denied, "operation": "CopyObject", "key_prefix": "run42/044"})
    server = serve(make_mover(simulator))
    options = {"endpoint_url": simulator.endpoint_url, "preflight": False}
    transfer = server.submit("s3://vendor/run42/", "s3://ours/run42/", **options)
    page = open_tab(server.url).sign_in(server.token, f"#/t/{transfer}")

    page.get_by_role("link", name="and 7 more").click()
    expect(page.get_by_text("1 to 10 of 10").first).to_be_visible()
    page.get_by_label("State").select_option("")
    expect(page.get_by_text("1 to 200 of 450").first).to_be_visible()
    page.get_by_role("button", name="Next").first.click()
    expect(page.get_by_text("201 to 400 of 450").first).to_be_visible()
    page.get_by_role("button", name="Next").first.click()
    expect(page.get_by_role("list", name="Objects").get_by_role("listitem")).to_have_count(50)
    page.go_back()
    expect(page.get_by_text("201 to 400 of 450").first).to_be_visible()
    page.reload()
    expect(page.get_by_text("201 to 400 of 450").first).to_be_visible()

    page.get_by_label("Go to row").fill("445")
    page.get_by_label("Go to row").press("Enter")
    expect(page.get_by_role("list", name="Objects").get_by_role("button").first).to_contain_text("run42/0444.bam")
    page.get_by_label("Order").select_option("largest first")
    expect(page.get_by_text("1 to 200 of 450").first).to_be_visible()

    page.get_by_label("Key begins with").fill("run42/0123")
    expect(page.get_by_role("list", name="Objects").get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Key begins with").fill("<b>none")
    expect(page.get_by_text("No object begins with “<b>none”.")).to_be_visible()


def test_the_retry_of_a_verification_says_that_it_copies_nothing(
    seaweedfs: S3Server, denied: tuple[Any, str, str, str], open_tab: TabFactory
) -> None:
    server, transfer, _, ours = denied
    page = open_tab(server.url).sign_in(server.token, f"#/t/{transfer}?tab=verification")
    expect(page.get_by_text("2 of 3 objects")).to_be_visible(timeout=20_000)
    seaweedfs.client().delete_object(Bucket=ours, Key="run42/a.bam")
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_text("1 of 2 objects are as they were received.")).to_be_visible(timeout=20_000)
    page.get_by_role("link", name="The verification as a transfer of its own").click()

    page.get_by_role("button", name="Retry 1 object").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("A new verification checks what was not as received again. It copies nothing")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Failures").click()
    expect(page.get_by_text("1 object, 1.07 KiB: it is not at the target")).to_be_visible()
    expect(page.get_by_role("button", name="Text for the sender")).to_have_count(0)
    page.get_by_role("button", name="Retry this one").click()
    expect(dialog).to_contain_text("A new verification checks it again. It copies nothing")
    dialog.get_by_role("button", name="Retry 1 object").click()

    expect(page.get_by_role("navigation", name="Attempts").get_by_role("link")).to_have_count(2)
    page.get_by_role("link", name="Verification").click()
    expect(page.get_by_text("0 of 1 object is as it was received.")).to_be_visible(timeout=20_000)
    kinds = [one["operation"] for one in server.http.get("/api/v1/transfers").json()["transfers"]]
    assert kinds == ["verify", "verify", "transfer"]
    assert "run42/a.bam" not in [one["Key"] for one in seaweedfs.client().list_objects_v2(Bucket=ours)["Contents"]]


def test_a_phone_shows_the_heads_of_pages_in_one_row_and_a_bar_that_is_not_full_before_the_end(
    make_mover: Callable[[Simulator], Mover],
    make_simulator: Callable[..., Simulator],
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    simulator = make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=1;total=8MiB")
    simulator.client().create_bucket(Bucket="ours")
    simulator.client().put_object(Bucket="vendor", Key="run42/last.bam", Body=b"1")
    denied = {"error": [403, "AccessDenied"]}
    simulator.set_faults({"fault": denied, "operation": "CopyObject", "key_prefix": "run42/last"})
    server = serve(make_mover(simulator))
    options = {"endpoint_url": simulator.endpoint_url, "preflight": False}
    transfer = server.submit("s3://vendor/run42/", "s3://ours/run42/", **options)
    page = open_tab(server.url, viewport=PHONE).sign_in(server.token, f"#/t/{transfer}")

    expect(page.get_by_text("1 of 2 objects")).to_be_visible()
    tops = "(all) => all.map((one) => Math.round(one.getBoundingClientRect().top + one.offsetHeight / 2))"
    heads = page.locator("header .brand, header nav a, header button")
    assert len(set(heads.evaluate_all(tops))) == 1
    expect(page.get_by_role("button", name="live")).to_be_visible()
    rest = "(one) => one.offsetWidth - one.firstElementChild.offsetWidth"
    assert page.get_by_role("progressbar").evaluate(rest) >= 4
