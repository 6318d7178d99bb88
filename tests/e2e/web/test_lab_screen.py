"""The page of a delivery on the screen of a lab: large, for days, and nobody touches it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route, expect

from support.browser import Tab
from support.mover import Mover
from support.run import ROOT
from support.sim import Simulator

SCREEN: Final = {"width": 1920, "height": 1080}
PAGE: Final = ROOT / "python" / "seqferry" / "api" / "page"
NOT_VALID: Final = "This link is not valid, or not any more"
ROUNDS: Final = 60
MAIL: Final = '[notices.mail]\nurl = "mailto://127.0.0.1:9/?from=a@example.org&to=b@example.org&mode=insecure"\n'
"""A channel, so that the page offers a mail; none is sent, since the delivery does not end."""
MOST_GROWN: Final = 1024 * 1024
"""Bytes of the page's memory that a run of ``ROUNDS`` reconnects may add: what is not kept is not added."""


class Lab:
    """A server with a delivery that runs, and its page on the screen."""

    def __init__(self, serve: Callable[..., Any], mover: Mover, open_tab: Callable[..., Tab]) -> None:
        self.serve, self.mover = serve, mover
        self.server = serve(mover)
        # Tried so often that it does not end meanwhile.
        place = {"endpoint_url": mover.server.endpoint_url, "preflight": False, "attempts": 100}
        self.transfer = self.server.submit("s3://vendor/run42/", "s3://ours/run42/", name="Run 42", **place)
        self.link = self.server.http.post("/api/v1/share-links", json={"transfer": self.transfer}).json()
        self.page: Page = open_tab(self.server.url, viewport=SCREEN).open(f"#/d/{self.link['token']}")
        self.shows("Run 42")

    def shows(self, name: str) -> None:
        expect(self.page.get_by_role("heading", name=name, exact=True)).to_be_visible(timeout=60_000)

    def rename(self, name: str) -> None:
        """A change that the screen has to show by itself."""
        answer = self.server.http.patch(f"/api/v1/transfers/{self.transfer}", json={"name": name})
        assert answer.status_code == 200, answer.text
        self.shows(name)

    def restart(self, *, is_told: bool = False) -> None:
        """Kill the server, which the screen says, and start the one of ``mover`` at the same address.

        Where the screen ``is_told`` by its network that it can be reached, it does not wait until it looks again.
        """
        port = self.server.url.rstrip("/").rpartition(":")[2]
        self.server.process.kill()
        expect(self.page.get_by_text("Not updated since")).to_be_visible(timeout=60_000)
        self.server = self.serve(self.mover, "--port", port)
        if is_told:
            self.page.evaluate("() => { dispatchEvent(new Event('online')) }")
        expect(self.page.get_by_text("Not updated since")).to_have_count(0, timeout=60_000)


@pytest.fixture
def lab(
    make_mover: Callable[[Simulator], Mover],
    make_simulator: Callable[..., Simulator],
    serve: Callable[..., Any],
    open_tab: Callable[..., Tab],
    tmp_path: Path,
) -> Lab:
    config = tmp_path / "config.toml"
    config.write_text(MAIL)
    config.chmod(0o600)
    simulator = make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=3;total=3MiB")
    simulator.client().create_bucket(Bucket="ours")
    simulator.set_faults({"fault": "slow_down", "operation": "CopyObject", "key_prefix": "run42/0001"})
    mover = make_mover(simulator)
    mover.env["SEQFERRY_CONFIG"] = str(config)
    return Lab(serve, mover, open_tab)


def test_it_is_read_from_three_metres_without_scrolling(lab: Lab) -> None:
    size = "(one) => parseFloat(getComputedStyle(one).fontSize)"
    sizes = [lab.page.locator(one).first.evaluate(size) for one in ("h1", ".say", ".facts")]
    assert [size >= least for size, least in zip(sizes, (60, 44, 22), strict=True)] == [True] * 3, sizes
    assert lab.page.evaluate("() => document.documentElement.scrollHeight") <= SCREEN["height"]


def test_it_says_that_the_server_is_lost_and_goes_on_by_itself_whatever_the_clock_does(lab: Lab) -> None:
    for number in range(2):
        lab.restart()
        lab.rename(f"Run 42, after restart {number}")
    for moved in ("2036-01-01T00:00:00", "2016-01-01T00:00:00"):
        lab.page.clock.set_system_time(moved)
        lab.rename(f"Run 42 at {moved[:4]}")
        expect(lab.page.get_by_text("Not updated since")).to_have_count(0)


def test_a_proxy_without_its_server_is_not_the_end_of_the_link(lab: Lab) -> None:
    asked: list[str] = []

    def away(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) > 2:
            route.continue_()
        else:
            route.fulfill(status=404, content_type="text/plain", body="404 page not found")

    lab.page.route("**/delivery/events", away)
    _hide_and_show(lab.page)
    expect(lab.page.get_by_text("Not updated since")).to_be_visible()
    lab.rename("Run 42, the proxy found it")
    expect(lab.page.get_by_text("Not updated since")).to_have_count(0)
    expect(lab.page.get_by_text(NOT_VALID)).to_have_count(0)
    assert len(asked) == 3


def test_it_asks_for_a_new_link_a_day_before_the_end_and_then_says_one_sentence(lab: Lab) -> None:
    expect(lab.page.get_by_text("This link works until")).not_to_contain_text("Ask for a new one")
    _set_end(lab, "+ 7200")
    lab.rename("Run 42, near its end")
    expect(lab.page.get_by_text("This link works until")).to_contain_text("Ask for a new one where you got it.")
    _set_end(lab, "- 1")
    expect(lab.page.get_by_text(NOT_VALID)).to_be_visible()
    expect(lab.page.get_by_role("heading")).to_have_count(0)


def _set_end(lab: Lab, seconds: str) -> None:
    with sqlite3.connect(lab.mover.state / "seqferry.sqlite", timeout=30, isolation_level=None) as connection:
        connection.execute(f"UPDATE share_link SET expires_at = unixepoch() {seconds}")
    connection.close()


def test_it_loads_the_page_of_an_upgraded_server_when_nobody_writes_an_address(
    lab: Lab, open_tab: Callable[..., Tab], tmp_path: Path
) -> None:
    person = open_tab(lab.server.url).sign_in(lab.server.token, "#/?text=run42")
    expect(person.get_by_text("Shown: text “run42”")).to_be_visible()
    lab.page.get_by_role("button", name="Mail me when it is done").click()
    address = lab.page.get_by_label("Your address, for one mail")
    address.press_sequentially("ada@example")
    _upgrade(lab, tmp_path)
    with lab.page.expect_response(lab.server.url):
        lab.restart(is_told=True)
    lab.rename("Run 42, after the upgrade")
    other = lab.page.locator("script[src='./assets/index-other.js']")
    assert other.count() == 0

    # The reader looks elsewhere for some minutes, as in a list of addresses.
    address.blur()
    lab.page.clock.set_system_time(datetime.now(UTC) + timedelta(minutes=5))
    lab.rename("Run 42, five minutes later")
    expect(address).to_have_value("ada@example")
    assert other.count() == 0

    lab.page.clock.set_system_time(datetime.now(UTC) + timedelta(minutes=20))
    expect(other).to_have_count(1)
    lab.shows("Run 42, five minutes later")

    # A person who is signed in chooses the time.
    expect(person.get_by_text("The server has a newer version of this page.")).to_be_visible(timeout=30_000)
    person.get_by_role("button", name="Load it").click()
    expect(person.locator("script[src='./assets/index-other.js']")).to_have_count(1)
    expect(person.get_by_text("Shown: text “run42”")).to_be_visible()
    expect(person.get_by_text("The server has a newer version of this page.")).to_have_count(0)

    # The next restart brings nothing new.
    lab.page.evaluate("() => { window.isKept = true }")
    lab.restart(is_told=True)
    lab.rename("Run 42, after a restart")
    assert lab.page.evaluate("() => window.isKept") is True


def test_it_loads_the_other_page_once_where_a_proxy_keeps_the_old_one(lab: Lab, tmp_path: Path) -> None:
    """Also for two servers of different versions behind one address."""
    loads: list[str] = []
    old = lab.page.request.get(lab.server.url).text()
    scripts = {one.name: one.read_bytes() for one in (PAGE / "assets").iterdir()}

    def keep(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        if route.request.is_navigation_request():
            loads.append(route.request.url)
            route.fulfill(content_type="text/html", body=old)
        elif name in scripts:
            kind = "text/css" if name.endswith(".css") else "text/javascript"
            route.fulfill(content_type=kind, body=scripts[name])
        else:
            route.continue_()

    lab.page.route("**/*", keep)
    _upgrade(lab, tmp_path)
    lab.restart(is_told=True)
    lab.rename("Run 42, after the upgrade")
    for number in range(3):
        with lab.page.expect_response(lab.server.url):
            _hide_and_show(lab.page)
        lab.rename(f"Run 42, opened again {number}")
    assert len(loads) == 1


def _upgrade(lab: Lab, folder: Path) -> None:
    """Have the next server be one whose page has another script."""
    package = folder / "seqferry"
    shutil.copytree(
        ROOT / "python" / "seqferry", package, copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.rmtree(package / "api" / "page")
    shutil.copytree(PAGE, package / "api" / "page")
    [script] = (package / "api" / "page" / "assets").glob("index-*.js")
    index = package / "api" / "page" / "index.html"
    index.write_text(index.read_text().replace(script.name, "index-other.js"))
    for one in (package / "api" / "page").rglob("*"):
        if one.name.startswith("index.html."):
            one.unlink()
        elif one.name.startswith(script.name):
            one.rename(one.with_name(one.name.replace(script.name, "index-other.js")))
    lab.mover.within = ("env", f"PYTHONPATH={folder}")


def test_its_memory_does_not_grow(lab: Lab) -> None:
    session = lab.page.context.new_cdp_session(lab.page)

    def used() -> float:
        session.send("HeapProfiler.collectGarbage")
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize")

    session.send("Performance.enable")
    _reconnect(lab, ROUNDS // 3)
    before = used()
    _reconnect(lab, ROUNDS)
    assert used() - before < MOST_GROWN


def _reconnect(lab: Lab, times: int) -> None:
    for _ in range(times):
        with lab.page.expect_response("**/delivery/events"):
            _hide_and_show(lab.page)
    lab.shows("Run 42")


def _hide_and_show(page: Page) -> None:
    """As another tab is looked at for a moment: the stream is closed, and opened again."""
    page.evaluate(
        """() => {
            for (const state of [true, false]) {
                Object.defineProperty(document, 'hidden', { value: state, configurable: true })
                document.dispatchEvent(new Event('visibilitychange'))
            }
        }"""
    )
