"""The list of transfers: what runs, what waits and why, what has ended, and acts on one or many of them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from support.browser import PHONE, Tab
from support.mover import Mover
from support.sim import Simulator
from support.waiting import eventually

ServeFactory = Callable[..., Any]
TabFactory = Callable[..., Tab]
MoverFactory = Callable[[Simulator], Mover]
SimulatorFactory = Callable[..., Simulator]

VENDOR = "vendor=keys=run42/{i:04}.bam;count=12;total=12MiB"
NEVER = {"fault": "slow_down", "operation": "CopyObject"}
"""No copy begins: a transfer that stays as it is."""
DAY = 86_400


def row(page: Page, name: str) -> Locator:
    """The one of this name; others may tell that they wait for it."""
    return page.get_by_role("listitem").filter(has=page.locator("strong", has_text=re.compile(f"^{name}$")))


def ended(server: Any, transfer: str) -> None:
    eventually(lambda: server.http.get(f"/api/v1/transfers/{transfer}").json()["ended_at"], what="its end")


def running(server: Any, transfer: str) -> None:
    eventually(lambda: server.http.get(f"/api/v1/transfers/{transfer}").json()["live"]["workers"], what="its begin")


class Scene:
    """A server, and the storage that its transfers are of."""

    def __init__(self, make_mover: MoverFactory, make_simulator: SimulatorFactory, serve: ServeFactory) -> None:
        self.simulator = make_simulator("--instant", "--bucket", VENDOR, "--bucket", "ours")
        self.server = serve(make_mover(self.simulator), "--max-requests", "6")

    def submit(self, target: str, **options: Any) -> str:
        place = {"endpoint_url": self.simulator.endpoint_url, "new": True}
        return self.server.submit("s3://vendor/run42/", f"s3://ours/{target}/", **place, **options)

    def stuck(self, target: str, **options: Any) -> str:
        """A transfer that runs for as long as the test, also on a busy machine: its requests are tried for minutes."""
        self.simulator.set_faults({**NEVER, "key_prefix": f"{target}/"})
        transfer = self.submit(target, keys=["0000.bam", "0001.bam"], attempts=100, **options)
        running(self.server, transfer)
        return transfer

    def age(self, transfer: str, *, copies: int) -> None:
        """So many more like this one, each thirty days older than the one before."""
        with sqlite3.connect(self.server.mover.state / "seqferry.sqlite", timeout=30) as connection:
            for number in range(1, copies + 1):
                new = f"'{number:08}-0000-4000-8000-000000000000'"
                age = 30 * DAY * number
                times = {one: f"{one} - {age}" for one in ("created_at", "ended_at")}
                given = {"id": new, "name": f"'Old run {number}'", "idempotency_key": "NULL", **times}
                _clone(connection, "transfer", "id", transfer, given)
                _clone(connection, "tally", "transfer_id", transfer, {"transfer_id": new})
        connection.close()


def _clone(connection: sqlite3.Connection, table: str, key: str, value: str, values: dict[str, str]) -> None:
    """One more row like that of a key, with other values, which are expressions."""
    columns = [str(one[1]) for one in connection.execute(f"PRAGMA table_info({table})")]
    wanted = ", ".join(values.get(one, one) for one in columns)
    insert = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {wanted} FROM {table} WHERE {key} = ?"
    connection.execute(insert, [value])


def test_rows_tell_what_runs_and_what_waits_and_why(
    make_mover: MoverFactory, make_simulator: SimulatorFactory, serve: ServeFactory, open_tab: TabFactory
) -> None:
    scene = Scene(make_mover, make_simulator, serve)
    page = open_tab(scene.server.url, viewport=PHONE).sign_in(scene.server.token)
    expect(page.get_by_text("No transfers yet")).to_be_visible()
    # Two of twelve take long: ten are there at once, which the page, open since before, is told.
    scene.simulator.set_faults(
        {"fault": {"stall": 3}, "operation": "CopyObject", "key_prefix": "run42/001", "times": 2}
    )
    scene.submit("run42", name="Run 42", labels={"project": "X"})
    scene.submit("run42", name="Run 42 again")

    expect(row(page, "Run 42 again")).to_contain_text("Waits for Run 42, which writes to the same keys.")
    first = row(page, "Run 42")
    expect(first.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "83.3 %")
    expect(first).to_contain_text("10 of 12 objects")
    expect(first).to_contain_text("10.0 MiB of 12.0 MiB")

    done = page.locator("section").filter(has=page.get_by_role("heading", name="Ended"))
    expect(done.get_by_text("Run 42", exact=True)).to_be_visible(timeout=15_000)
    expect(done.get_by_text("Run 42 again", exact=True)).to_be_visible()
    expect(row(page, "Run 42 again")).to_contain_text("12 skipped")
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", page.inner_text("main")), "names, no ids"

    row(page, "Run 42").get_by_role("link", name="project=X").click()
    expect(row(page, "Run 42 again")).to_have_count(0)
    expect(row(page, "Run 42")).to_be_visible()
    row(page, "Run 42").get_by_role("button", name="Receipt").click()
    expect(page.get_by_text("0001.bam").first).to_be_visible()


def test_filters_live_in_the_address(
    make_mover: MoverFactory, make_simulator: SimulatorFactory, serve: ServeFactory, open_tab: TabFactory
) -> None:
    scene = Scene(make_mover, make_simulator, serve)
    page = open_tab(scene.server.url).sign_in(scene.server.token)
    expect(page.get_by_text("No transfers yet")).to_be_visible()
    for name in ("Alpha one", "Beta"):
        ended(scene.server, scene.submit(name.lower().replace(" ", ""), name=name))
    expect(row(page, "Alpha one")).to_be_visible()

    page.get_by_label("Search").press_sequentially("alpha one", delay=60)  # slower than the search begins
    expect(row(page, "Beta")).to_have_count(0)
    expect(page.get_by_label("Search")).to_have_value("alpha one")
    page.get_by_label("State").select_option("done")
    page.get_by_label("Started by").fill("local")
    page.get_by_label("to", exact=True).fill("2999-01-31")
    expect(page.get_by_text("Shown: state done, text “alpha one”, person “local”, to 2999-01-31")).to_be_visible()
    page.reload()

    expect(row(page, "Alpha one")).to_be_visible()
    expect(row(page, "Beta")).to_have_count(0)
    expect(page.get_by_label("Search")).to_have_value("alpha one")
    expect(page.get_by_label("State")).to_have_value("done")
    expect(page.get_by_label("Started by")).to_have_value("local")
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_text("No transfer has state failed")).to_be_visible()
    page.go_back()
    expect(row(page, "Alpha one")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(row(page, "Beta")).to_be_visible()


def test_ended_transfers_are_paged_through_years(
    make_mover: MoverFactory, make_simulator: SimulatorFactory, serve: ServeFactory, open_tab: TabFactory
) -> None:
    scene = Scene(make_mover, make_simulator, serve)
    newest = scene.submit("run42", name="Newest")
    ended(scene.server, newest)
    scene.age(newest, copies=60)
    page = open_tab(scene.server.url).sign_in(scene.server.token)
    newer, older = (page.get_by_role("button", name=name, exact=True) for name in ("Newer", "Older"))

    expect(row(page, "Newest")).to_be_visible()
    expect(row(page, "Old run 24")).to_be_visible()
    expect(row(page, "Old run 25")).to_have_count(0)
    expect(newer).to_be_disabled()
    older.click()
    expect(row(page, "Old run 25")).to_be_visible()
    older.click()
    expect(row(page, "Old run 60")).to_be_visible()
    expect(older).to_be_disabled()
    page.reload()
    expect(row(page, "Old run 60")).to_be_visible()
    newer.click()
    expect(row(page, "Old run 49")).to_be_visible()
    expect(row(page, "Old run 50")).to_have_count(0)
    page.get_by_role("button", name="Newest", exact=True).click()
    expect(row(page, "Newest")).to_be_visible()


def test_one_is_paused_resumed_cancelled_and_retried_by_keyboard(
    make_mover: MoverFactory, make_simulator: SimulatorFactory, serve: ServeFactory, open_tab: TabFactory
) -> None:
    scene = Scene(make_mover, make_simulator, serve)
    transfer = scene.stuck("run42", name="Run 42")
    page = open_tab(scene.server.url).sign_in(scene.server.token)
    dialog = page.get_by_role("dialog")

    def ask(verb: str) -> None:
        page.get_by_role("button", name=f"{verb}: Run 42").focus()
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text(f"seqferry {verb.split()[0].lower()} {transfer}")

    def confirm(verb: str) -> None:
        button = dialog.get_by_role("button", name=verb, exact=True)
        for _ in range(4):
            if button.evaluate("one => one === document.activeElement"):
                break
            page.keyboard.press("Tab")
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)

    ask("Pause")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Pause: Run 42")).to_be_focused()
    expect(row(page, "Run 42")).to_contain_text("running")

    ask("Pause")
    confirm("Pause")
    expect(row(page, "Run 42")).to_contain_text("Paused: nothing is copied until it is resumed.")
    ask("Resume")
    confirm("Resume")
    expect(row(page, "Run 42")).to_contain_text("running")
    ask("Cancel")
    confirm("Cancel")
    expect(row(page, "Run 42")).to_contain_text("cancelled")
    scene.simulator.set_faults()
    ask("Retry")
    confirm("Retry")
    expect(page.get_by_role("link", name="retried")).to_be_visible()


def test_an_act_on_many_is_asked_again_when_the_number_has_changed(
    make_mover: MoverFactory, make_simulator: SimulatorFactory, serve: ServeFactory, open_tab: TabFactory
) -> None:
    scene = Scene(make_mover, make_simulator, serve)
    scene.stuck("run42", name="Run 42")
    page = open_tab(scene.server.url).sign_in(scene.server.token, "#/?text=s3%3A%2F%2Fours%2Frun42")
    scene.submit("run42", name="Run 42, second")
    expect(row(page, "Run 42, second")).to_be_visible()
    page.get_by_role("group", name="For all that are shown").get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Of the transfers with text “s3://ours/run42”, 2 can be paused")
    scene.submit("run42/more", name="Run 42, third")

    dialog.get_by_role("button", name="Pause 2").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Nothing was done")
    expect(dialog).to_contain_text("3 can be paused")
    states = [one["state"] for one in scene.server.http.get("/api/v1/transfers").json()["transfers"]]
    assert "paused" not in states
    dialog.get_by_role("button", name="Pause 3").click()

    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", name="Waiting 3")).to_be_visible()
    page.get_by_role("group", name="For all that are shown").get_by_role("button", name="Retry").click()
    expect(dialog).to_contain_text("None of the transfers with text “s3://ours/run42” can be retried now.")
