"""The page of a new transfer: written or browsed, checked, started once, and repeated on a schedule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Route, expect

from support.axe import grave_violations
from support.browser import PHONE, Tab
from support.mover import Mover
from support.servers import S3Server

ServeFactory = Callable[..., Any]
TabFactory = Callable[..., Tab]
MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def filled(seaweedfs: S3Server, make_bucket: BucketFactory) -> tuple[str, str]:
    """A bucket with a run of three objects, and one to which the first has come already."""
    source, target = make_bucket(seaweedfs), make_bucket(seaweedfs)
    for key in ("run41/old.bam", "run42/a.fastq.gz", "run42/b.fastq.gz", "run42/c.fastq.gz"):
        seaweedfs.client().put_object(Bucket=source, Key=key, Body=b"reads" * 1000)
    seaweedfs.client().put_object(Bucket=target, Key="in/a.fastq.gz", Body=b"reads" * 1000)
    return source, target


def beside(page: Page, label: str) -> Any:
    """What is said to be wrong beside a field."""
    return page.locator(".field", has=page.get_by_label(label, exact=True)).locator(".wrong")


def test_a_transfer_is_browsed_checked_and_started_once(
    seaweedfs: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    source, target = filled(seaweedfs, make_bucket)
    server = serve(make_mover(seaweedfs))
    page = open_tab(server.url).sign_in(server.token)
    page.get_by_role("link", name="New transfer").click()

    page.get_by_role("button", name="Browse From").click()
    page.get_by_role("button", name=source).click()
    page.get_by_role("button", name="run42").click()
    expect(page.get_by_text("3 objects", exact=True)).to_be_visible()
    expect(page.get_by_label("From", exact=True)).to_have_value(f"s3://{source}/run42/")
    page.get_by_label("To", exact=True).fill(f"s3://{target}/in/")
    page.get_by_label("Transfer name").fill("Run 42")
    page.get_by_label("Labels").fill("project=X")

    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("2 objects, 9.77 KiB, would be copied.")).to_be_visible()
    result = page.get_by_role("region", name="Preview")
    expect(result).to_contain_text(re.compile(r"skipped\s*1 "))
    expect(result).to_contain_text(re.compile(r"requests\s*about \d"))
    command = f"seqferry cp s3://{source}/run42/ s3://{target}/in/ --name 'Run 42' --label project=X"
    expect(page.get_by_text(command)).to_be_visible()
    assert grave_violations(page) == []
    page.get_by_label("Transfer name").fill("Run 42 again")
    expect(page.get_by_text("The form has changed.")).to_be_visible()

    # The first answer is lost on its way, as on a bad line: the second click sends the same submission.
    lost: list[str] = []

    def lose(route: Route) -> None:
        if route.request.method == "POST" and not lost:
            lost.append(route.fetch().json()["id"])
            route.abort()
        else:
            route.continue_()

    page.route("**/api/v1/transfers", lose)
    page.get_by_role("button", name="Start").dblclick()
    expect(page.get_by_role("alert").filter(has_text="does not answer")).to_be_visible()
    expect(page.get_by_role("button", name="Start")).to_be_enabled()
    page.get_by_role("button", name="Start").dblclick()
    page.wait_for_url(re.compile(r"#/t/[0-9a-f-]{36}$"))

    [transfer] = server.http.get("/api/v1/transfers").json()["transfers"]
    assert page.url.endswith(f"#/t/{transfer['id']}")
    assert lost == [transfer["id"]]
    assert (transfer["name"], transfer["labels"]) == ("Run 42 again", {"project": "X"})


def test_a_check_finds_what_the_transfer_would_be_refused(
    seaweedfs: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    source, target = filled(seaweedfs, make_bucket)
    seaweedfs.deny(source, "run42/b*", actions=["s3:GetObject"])
    server = serve(make_mover(seaweedfs))
    page = open_tab(server.url).sign_in(server.token, f"#/new?source=s3://{source}/run42/&target=s3://{target}/in/")

    page.get_by_role("button", name="Check").click()

    result = page.get_by_role("region", name="Preview")
    expect(result).to_contain_text(re.compile(r"refused\s*1"))
    expect(result).to_contain_text(re.compile(r"tried\s*2 objects"))
    expect(result).to_contain_text("1 object: AccessDenied (GetObject)")
    expect(result).to_contain_text("Next: ")
    assert grave_violations(page) == []


def test_what_is_wrong_is_said_beside_its_field_before_and_after_sending(
    seaweedfs: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    source, target = filled(seaweedfs, make_bucket)
    server = serve(make_mover(seaweedfs))
    page = open_tab(server.url, viewport=PHONE, color_scheme="dark").sign_in(
        server.token, f"#/new?source=s3://{source}/run42/"
    )
    expect(page.get_by_label("From", exact=True)).to_have_value(f"s3://{source}/run42/")
    page.get_by_text("More options", exact=True).click()
    page.get_by_label("Find an option").fill("depth")
    page.get_by_label("Max depth").fill("0")

    page.get_by_role("button", name="Start").click()
    expect(beside(page, "To")).to_have_text("Say where it is to go, as s3://bucket/run42/.")
    expect(beside(page, "Max depth")).to_have_text("The minimum is 1.")
    expect(page.get_by_label("To", exact=True)).to_be_focused()
    page.get_by_label("Find an option").fill("")
    assert grave_violations(page) == []
    page.get_by_label("Max depth").fill("")
    page.get_by_label("To", exact=True).fill("s3://no-such-bucket-of-ours/in/")
    expect(page.locator(".wrong")).to_have_count(0)

    page.get_by_role("button", name="Start").click()
    expect(beside(page, "To")).to_contain_text("no-such-bucket-of-ours")
    page.get_by_label("To", exact=True).fill(f"s3://{target}/in/")
    page.get_by_label("Find an option").fill("ACL")
    page.get_by_label("ACL", exact=True).fill("x" * 2049)
    page.get_by_role("button", name="Check").click()
    expect(beside(page, "ACL")).to_contain_text("2048")
    page.get_by_label("ACL", exact=True).fill("")
    for option, value, said in (
        ("Minimum age", "long", "'long' is not an age"),
        ("Source endpoint URL", "nonsense", "'nonsense' is not an endpoint URL"),
        ("Target region", "nowhere!", "'nowhere!' is not a region"),
        ("SSE-C key", "/etc/shadow", "A client may name keys of SSE-C only"),
        ("Rename", "all", "'all' is not a rule"),
    ):
        page.get_by_label("Find an option").fill(option)
        page.get_by_label(option, exact=True).fill(value)
        page.get_by_role("button", name="Check").click()
        expect(beside(page, option)).to_contain_text(said)
        page.get_by_label(option, exact=True).fill("")

    assert server.http.get("/api/v1/transfers").json()["transfers"] == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_transfer_is_repeated_on_a_schedule_that_is_paused_and_removed(
    seaweedfs: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    serve: ServeFactory,
    open_tab: TabFactory,
) -> None:
    source, target = filled(seaweedfs, make_bucket)
    server = serve(make_mover(seaweedfs))
    view = f"#/new?source=s3://{source}/run41/&target=s3://{target}/nightly/"
    page = open_tab(server.url).sign_in(server.token, view)
    page.get_by_role("button", name="Repeat this transfer").click()
    page.get_by_label("Times").fill("nightly")
    page.get_by_role("button", name="Add schedule").click()
    expect(beside(page, "Times")).to_contain_text("Write five fields")
    page.get_by_label("Times").fill("99 2 * * *")
    page.get_by_label("Name of the schedule").fill("nightly")
    page.get_by_role("button", name="Add schedule").click()
    expect(beside(page, "Times")).to_contain_text("'99 2 * * *' is not a cron expression")
    expect(page.get_by_label("Times")).to_have_attribute("aria-describedby", "cron-wrong")
    page.get_by_label("Times").fill("0 2 * * *")
    page.get_by_role("button", name="Add schedule").click()

    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    [made] = server.http.get("/api/v1/schedules").json()["schedules"]
    assert (made["cron"], made["timezone"], made["state"]) == ("0 2 * * *", "Europe/Berlin", "active")
    assert (made["source"], made["target"]) == (f"s3://{source}/run41/", f"s3://{target}/nightly/")
    page.get_by_role("button", name="Pause nightly").click()
    expect(page.get_by_role("button", name="Resume nightly")).to_be_visible()
    page.get_by_role("button", name="Remove nightly").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()

    expect(page.get_by_role("heading", name="nightly")).to_have_count(0)
    assert server.http.get("/api/v1/schedules").json()["schedules"] == []
