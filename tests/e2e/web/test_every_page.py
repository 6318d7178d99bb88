"""What holds for every page: text of others stays text, nothing is too wide for a phone, and everybody can read it.

A new page is one more row of ``VIEWS``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import httpx
import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from seqferry.engine.gateways import DETAILS
from seqferry.model.workers import SHARES, WAITING
from seqferry.settings import tokens
from support.axe import grave_violations
from support.browser import DESK, PHONE, Tab
from support.mover import Mover
from support.run import MissingToolError, Run
from support.sim import Simulator
from support.state import prepare
from support.waiting import eventually

HOSTILE: Final = (
    "<img src=x onerror=window.ran=1>",
    "<script>window.ran=1</script>",
    "\"'><svg/onload=window.ran=1>",
    "javascript:window.ran=1",
    "{{constructor.constructor('window.ran=1')()}}${window.ran=1}",
    "</title></textarea></style><iframe srcdoc='<script>parent.ran=1</script>'>",
    "\u202egpj.exe\u200b\ufeff <b onmouseover=window.ran=1>b",
    "W" * 180,
    "مرحبا" * 20 + "<a href=javascript:window.ran=1>",
)
"""As names, labels, keys, prefixes, actors, hosts and error texts."""
SHOWN: Final = HOSTILE[0]


@dataclass(frozen=True)
class View:
    name: str
    fragment: str
    """With the ``transfer`` and the ``token`` of a share link; ``running`` is the token of one that has not ended."""
    ready: str
    """Text that is there when the page is."""
    signed_in: bool = True
    press: str = ""
    """The button that opens a dialog or a form, which is looked at with its page."""
    opens: Literal["dialog", "textbox"] = "dialog"


VIEWS: Final = (
    View("transfers", "#/", SHOWN),
    View("transfers, filtered", "#/?text=%3Cimg%20src%3Dx&person=%3Cb%3E&label=project%3D%3Ci%3E", "No transfer has"),
    View("transfers, one asked", "#/", SHOWN, press=f"Retry 11 objects: {SHOWN}"),
    View("transfers, many asked", "#/?person=%3Cimg", SHOWN, press="Retry …"),
    View("transfer", "#/t/{transfer}", SHOWN),
    View("transfer, asked", "#/t/{transfer}", SHOWN, press="Retry 11 objects"),
    View("transfer, shared", "#/t/{transfer}", SHOWN, press="Share"),
    View("transfer, details", "#/t/{transfer}?tab=details", SHOWN),
    View("new transfer", "#/new?source=s3%3A%2F%2F%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E", "None yet."),
    View("transfer, objects", "#/t/{transfer}?tab=objects", SHOWN),
    View("transfer, events", "#/t/{transfer}?tab=events", SHOWN),
    View("health", "#/health?place=s3%3A%2F%2F%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E", f"version {SHOWN}"),
    View("shares", "#/shares", SHOWN),
    View("share", "#/shares/hostile/%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E?path=%3Cb%3E", SHOWN),
    View("delivery", "#/d/{token}", SHOWN, False),
    View("delivery, mail", "#/d/{running}", f"Running {SHOWN}", False, "Mail me when it is done", "textbox"),
    View("no such delivery", "#/d/%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E", "not valid", False),
    View("no such page", "#/%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E", "There is no such page", False),
    View("sign-in", "#/", "This server requires a token.", False),
)
every_page = pytest.mark.parametrize("view", VIEWS, ids=lambda one: one.name.replace(",", "").replace(" ", "-"))


@dataclass
class Hostile:
    """A server whose record is full of hostile text."""

    url: str
    token: str
    transfer: str
    link: str
    running: str = ""

    def show(self, view: View, tab: Tab) -> Page:
        fragment = view.fragment.format(transfer=self.transfer, token=self.link, running=self.running)
        page = tab.sign_in(self.token, fragment) if view.signed_in else tab.open(fragment)
        expect(page.get_by_text(view.ready).first).to_be_visible()
        if view.press:
            page.get_by_role("button", name=view.press, exact=True).click()
            expect(page.get_by_role(view.opens)).to_be_visible()
        return page


@pytest.fixture(scope="module")
def hostile(run: Run, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    """One server for all pages: nothing here changes its record after it was made."""
    del browser  # without one, nothing is begun
    try:
        simulator = Simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=4;total=4MiB")
    except MissingToolError as missing:
        pytest.skip(str(missing))
    mover = Mover(simulator, prepare(run, tmp_path_factory.mktemp("hostile") / "state"))
    config = tmp_path_factory.mktemp("config") / "config.toml"
    config.write_text(
        '[notices.mail]\nurl = "mailto://127.0.0.1:9/?from=a@example.org&to=b@example.org&mode=insecure"\n'
    )
    config.chmod(0o600)
    mover.env["SEQFERRY_CONFIG"] = str(config)
    with simulator, mover:
        simulator.client().create_bucket(Bucket="ours")
        running = mover.start("serve", "--port", "0")
        address = running.wait_for_line("http://").partition("http://")[2].split()[0]
        token = tokens.owner_file(mover.state).read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://{address}/", headers=headers, timeout=60, trust_env=False) as http:
            yield _filled(simulator, mover, http, Hostile(f"http://{address}/", token, "", ""))


def _filled(simulator: Simulator, mover: Mover, http: httpx.Client, server: Hostile) -> Hostile:
    code = "<img src=x onerror=window.ran=1>"
    simulator.set_faults(
        {"fault": {"error": [400, code]}, "operation": "CopyObject", "key_prefix": "run42/0001"},
        {"fault": "slow_down", "operation": "CopyObject", "key_prefix": "stuck/"},
    )

    def submit(prefix: str, **more: Any) -> str:
        body = {"endpoint_url": simulator.endpoint_url, "preflight": False, "new": True, **more}
        body |= {"source": "s3://vendor/run42/", "target": f"s3://ours/{prefix}/"}
        answer = http.post("/api/v1/transfers", json=body)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    ids = [submit(one, name=one, labels={"project": one[:60]}, keys=["0000.bam", one]) for one in HOSTILE[1:]]
    keys = ["0000.bam", "0001.bam", "\u0007\t\u001b[31m", *HOSTILE]
    server.transfer = submit("run42", name=SHOWN, labels={"project": SHOWN}, keys=keys)
    for each in [*ids, server.transfer]:
        eventually(lambda each=each: http.get(f"/api/v1/transfers/{each}").json()["ended_at"], what="its end")
    # Tried so often that it outlasts all tests of this file, on a busy machine as well.
    running = submit("stuck", name=f"Running {SHOWN}", keys=["0002.bam"], attempts=100)
    submit("stuck", name="Waiting")
    paused = submit("stuck/paused", name="Paused", keys=["0003.bam"])
    http.post(f"/api/v1/transfers/{paused}/pause")
    links = ({"transfer": server.transfer}, {"label": f"project={SHOWN}"}, {"transfer": running})
    for given in links:
        made = http.post("/api/v1/share-links", json=given)
        assert made.status_code == 201, made.text
        server.link, server.running = server.link or made.json()["token"], made.json()["token"]
    with sqlite3.connect(mover.state / "seqferry.sqlite", timeout=30) as connection:
        connection.execute("UPDATE transfer SET created_by = ? WHERE ended_at IS NOT NULL", [f"{SHOWN}@<b>host"])
        connection.execute("UPDATE transfer SET error_message = ? WHERE id = ?", [SHOWN, ids[0]])
        connection.execute("UPDATE share_link SET created_by = ?", [HOSTILE[7]])
        columns = [str(one[1]) for one in connection.execute("PRAGMA table_info(worker)")]
        own = {"id": "?", "host": "?", "version": "?", "seen_at": "seen_at - 4000"}
        gateway = own | {"id": "'hostile'", "kind": "'gateway'", "facts": "?"}
        for row, values in ((gateway, [SHOWN, SHOWN, _facts_of_gateway()]), (own, [SHOWN] * 3)):
            wanted = ", ".join(row.get(one, one) for one in columns)
            places = ", ".join(columns)
            connection.execute(
                f"INSERT INTO worker ({places}) SELECT {wanted} FROM worker WHERE kind = 'serve'", values
            )
    connection.close()
    return server


def _facts_of_gateway() -> str:
    """A share with hostile names, of each state that is shown."""
    waiting = {"dirty_files": 3, "dirty_bytes": 5, "failing_files": 90, "conflicts": 1, "window_is_open": False}
    counts = dict.fromkeys(DETAILS, 3) | {"failure": SHOWN, "claimed_by": HOSTILE[7], "oldest_path": HOSTILE[7]}
    rename = dict.fromkeys(("files", "bytes", "waiting_files", "waiting_bytes", "removals", "seconds"), 1)
    details = counts | {
        "source": f"s3://b/{HOSTILE[7]}",
        "read_bytes": 10,
        "fetched_bytes": 3,
        "failing": [{"path": one, "cause": one, "attempts": 2, "seconds": 90.0} for one in HOSTILE],
        "held": [{"path": one, "waits_for": one, "cause": one} for one in HOSTILE],
        "renames": [{"from": one, "to": one, **rename} for one in HOSTILE],
    }
    shares = {"shares": [SHOWN], WAITING: {SHOWN: waiting | {"oldest_dirty_seconds": 9.0}}, SHARES: {SHOWN: details}}
    return json.dumps({**shares, "host": SHOWN, "port": 2049})


@pytest.fixture
def make_tab(browser: Browser, hostile: Hostile) -> Iterator[Callable[..., Tab]]:
    made: list[Tab] = []

    def make(**options: Any) -> Tab:
        tab = Tab(browser, hostile.url, **options)
        tab.page.on("dialog", lambda one: _dismissed(tab, one))
        made.append(tab)
        return tab

    yield make
    for tab in made:
        tab.context.close()
    for tab in made:
        tab.assert_untroubled()


def _dismissed(tab: Tab, dialog: Dialog) -> None:
    tab.troubles.append(f"dialog: {dialog.message}")
    dialog.dismiss()


@every_page
def test_hostile_text_stays_text_and_all_can_read_it(
    view: View, hostile: Hostile, make_tab: Callable[..., Tab]
) -> None:
    page = hostile.show(view, make_tab(viewport=PHONE, color_scheme="dark"))
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => (one.open = true))")

    assert page.evaluate("() => window.ran") is None
    assert page.locator("main img, main iframe, main script, main a[href^='javascript']").count() == 0
    too_wide = """() => [...document.querySelectorAll('body *')]
        .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
        .filter((one) => !one.closest('.scroll')).map((one) => one.outerHTML.slice(0, 200))"""
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= PHONE["width"], page.evaluate(too_wide)
    assert grave_violations(page) == []

    page.set_viewport_size({"width": DESK["width"], "height": DESK["height"]})
    page.emulate_media(color_scheme="light")
    assert grave_violations(page) == []
    _assert_still_and_seen(page)
    _assert_fit_for_paper(page)


def _assert_still_and_seen(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    moving = """() => [...document.querySelectorAll('*')].filter((one) => {
        const style = getComputedStyle(one)
        return style.animationName !== 'none' || style.transitionDuration.split(', ').some((each) => each !== '0s')
    }).map((one) => one.outerHTML.slice(0, 200))"""
    assert page.evaluate(moving) == []

    page.emulate_media(forced_colors="active")
    for mark in page.locator(".mark svg:visible").all():
        drawn = mark.evaluate("(one) => [getComputedStyle(one).color, getComputedStyle(document.body).backgroundColor]")
        assert drawn[0] != drawn[1], "a shape of the colour of its ground"
    for bar in page.get_by_role("progressbar").all():
        assert bar.evaluate("(one) => getComputedStyle(one).borderTopWidth") == "1px", "an empty bar is seen as well"


def _assert_fit_for_paper(page: Page) -> None:
    page.emulate_media(media="print", color_scheme="dark", forced_colors="none")
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)", "a dark page is printed on white"
    assert page.locator("header:visible, footer:visible, button:visible, input:visible").count() == 0


def test_what_axe_finds_is_found(hostile: Hostile, make_tab: Callable[..., Tab]) -> None:
    page = hostile.show(VIEWS[-1], make_tab())
    page.evaluate("() => document.querySelector('label[for=token]').remove()")
    assert [one.split(" ")[0] for one in grave_violations(page)] == ["label"]
