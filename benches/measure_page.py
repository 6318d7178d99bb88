"""The page on a transfer of a million objects, in Chromium: first paint of each view, pages of objects, scrolling.

``make bench-page`` has ``seqferry serve`` copy the objects on the simulator, so that the product writes each row,
and then opens each view in a tab of its own. It prints milliseconds until the first contentful paint and until the
text of the view is there, milliseconds of each step through the objects, and the frames of a scrolled page. The aim is
a first contentful paint within 1 s. ``--keep FOLDER`` keeps the records, and measures again with those that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, Page, expect

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from seqferry.settings import tokens  # noqa: E402
from support.browser import DESK, PHONE, Chromium, Tab  # noqa: E402
from support.mover import Mover  # noqa: E402
from support.sim import Simulator  # noqa: E402

AIM_MS: Final = 1000.0
DENIED: Final = "run42/00000"
"""Objects with keys below it are denied, and fail: 100 of a million."""

STEPS: Final = 20
FRAMES: Final = """() => new Promise((resolve) => {
    const gaps = []
    let before = performance.now()
    const begun = before
    const frame = (now) => {
        gaps.push(now - before)
        before = now
        scrollBy(0, 40)
        if (now - begun < 2000) requestAnimationFrame(frame)
        else resolve(gaps.slice(1))
    }
    requestAnimationFrame(frame)
})"""
NEXT: Final = "nav[aria-label='Pages of objects'] button:last-of-type"
STEP: Final = """([selector, value, event, first]) => new Promise((resolve) => {
    const node = document.querySelector(selector)
    const begun = performance.now()
    const look = () => {
        const shown = document.querySelector("[aria-label='Objects'] li, .empty")?.textContent ?? ''
        if (shown.includes(first)) requestAnimationFrame(() => resolve(performance.now() - begun))
        else requestAnimationFrame(look)
    }
    if (selector.startsWith('#')) {
        node.value = value
        node.dispatchEvent(new Event(event, {bubbles: true}))
    } else node.click()
    look()
})"""
"""Milliseconds from the action of a user in the page until the frame with the first requested row."""

PAINT: Final = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@dataclass(frozen=True)
class Served:
    url: str
    token: str
    http: httpx.Client


@dataclass(frozen=True)
class View:
    name: str
    fragment: str
    """With the ``transfer`` and the ``link``."""
    ready: Callable[[Page], Any]
    viewport: Any = None


def views(objects: int) -> list[View]:
    def text(words: str) -> Callable[[Page], Any]:
        return lambda page: page.get_by_text(words).first

    total = f"{objects:,}"
    return [
        View("transfers", "#/", text("Run 42")),
        View("transfer: failures", "#/t/{transfer}", text("What to do:")),
        View("transfer: objects", "#/t/{transfer}?tab=objects", text(f"1 to 200 of {total}")),
        View(
            "transfer: course", "#/t/{transfer}?tab=course", lambda page: page.get_by_role("figure").locator("*").first
        ),
        View("transfer: events", "#/t/{transfer}?tab=events", text("submitted the transfer")),
        View("transfer: details", "#/t/{transfer}?tab=details", text("Source")),
        View("new transfer", "#/new", text("New transfer")),
        View("health", "#/health", text("seqferry.sqlite")),
        View("delivery", "#/d/{link}", text("The delivery has ended.")),
        View("delivery, phone", "#/d/{link}", text("The delivery has ended."), PHONE),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Open the page on a transfer of a million objects.")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="tabs that open each view")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the records here, or use those here")
    parser.add_argument(
        "--within", type=float, default=3600.0, metavar="SECONDS", help="give up the copy after so long"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures as JSON")
    options = parser.parse_args(arguments)
    if options.objects < 1000:
        parser.error("a page has 200 objects: take 1,000 at least")
    with ExitStack() as stack:
        server = stack.enter_context(_served(options))
        transfer, seconds = _copied(server, options)
        report = _measured(stack, server, transfer, options)
    if seconds is not None:
        report["copy_seconds"] = seconds
    _print(report, options)
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1))
    return 0 if all(max(one["paint_ms"]) <= AIM_MS for one in report["views"].values()) else 1


@contextmanager
def _served(options: argparse.Namespace) -> Iterator[Served]:
    keys = f"vendor=keys=run42/{{i:07}}.fastq.gz;count={options.objects};total={options.objects}KiB"
    state = options.keep or Path(tempfile.mkdtemp(prefix="seqferry-bench-"))
    try:
        with (
            Simulator("--instant", "--bucket", keys, "--bucket", "ours") as simulator,
            Mover(simulator, state) as mover,
        ):
            simulator.set_faults({"fault": "access_denied", "operation": "CopyObject", "key_prefix": DENIED})
            running = mover.start("serve", "--port", "0")
            address = running.wait_for_line("http://").partition("http://")[2].split()[0]
            token = tokens.owner_file(mover.state).read_text().strip()
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=f"http://{address}/", headers=headers, timeout=60, trust_env=False) as http:
                yield Served(f"http://{address}/", token, http)
    finally:
        if options.keep is None:
            shutil.rmtree(state, ignore_errors=True)


def _copied(server: Served, options: argparse.Namespace) -> tuple[str, float | None]:
    """The transfer, and the seconds that it took when it was not there already."""
    there = server.http.get("/api/v1/transfers", params={"text": "Run 42"}).json()["transfers"]
    if there:
        return there[0]["id"], None
    body = {"source": "s3://vendor/run42/", "target": "s3://ours/run42/", "name": "Run 42", "preflight": False}
    answer = server.http.post("/api/v1/transfers", json=body)
    answer.raise_for_status()
    transfer, began = answer.json()["id"], time.monotonic()
    while time.monotonic() - began < options.within:
        now = server.http.get(f"/api/v1/transfers/{transfer}").json()
        if now["ended_at"] is not None:
            assert now["totals"]["objects"] == options.objects, now["totals"]
            return transfer, time.monotonic() - began
        if sys.stderr.isatty():
            print(f"\r{now['totals']['done']:,} copied", end="", file=sys.stderr)
        time.sleep(1)
    raise SystemExit(f"the copy has not ended within {options.within:.0f} s")


def _measured(stack: ExitStack, server: Served, transfer: str, options: argparse.Namespace) -> dict[str, Any]:
    link = server.http.post("/api/v1/share-links", json={"transfer": transfer}).json()["token"]
    chromium = Chromium()
    stack.callback(chromium.close)
    places = {"transfer": transfer, "link": link}
    found: dict[str, dict[str, list[float]]] = {}
    for view in views(options.objects):
        looks = [_look(chromium.browser, server, view, places) for _ in range(options.rounds)]
        found[view.name] = {"paint_ms": [one[0] for one in looks], "ready_ms": [one[1] for one in looks]}
    return {"load": os.getloadavg()[0], "views": found, **_walk(chromium.browser, server, transfer, options.objects)}


@contextmanager
def _tab(browser: Browser, server: Served, **more: Any) -> Iterator[Page]:
    """A tab of a new profile, with nothing in its cache, which is signed in."""
    tab = Tab(browser, server.url, **more)
    tab.context.add_init_script(f"sessionStorage.setItem('seqferry-token:/', {json.dumps(server.token)})")
    try:
        yield tab.page
        tab.assert_untroubled()
    finally:
        tab.context.close()


def _look(browser: Browser, server: Served, view: View, places: dict[str, str]) -> tuple[float, float]:
    """Milliseconds from the begin of the navigation to the first contentful paint, and to the view's own text."""
    with _tab(browser, server, viewport=view.viewport or DESK) as page:
        page.goto(server.url + view.fragment.format(**places), wait_until="commit")
        expect(view.ready(page)).to_be_visible(timeout=60_000)
        ready = page.evaluate("() => performance.now()")
        # What is there may be painted with the next frame only.
        page.wait_for_function(f"() => ({PAINT})() !== null")
        return page.evaluate(PAINT), ready


def _walk(browser: Browser, server: Served, transfer: str, objects: int) -> dict[str, Any]:
    """Milliseconds of each step through the objects, and of the frames while a page of them is scrolled."""
    with _tab(browser, server) as page:
        page.goto(f"{server.url}#/t/{transfer}?tab=objects")
        expect(page.get_by_text(f"1 to 200 of {objects:,}").first).to_be_visible(timeout=60_000)
        frames = page.evaluate(FRAMES)
        steps: dict[str, list[float]] = {}

        def step(name: str, selector: str, value: str, first: str) -> None:
            event = "input" if selector == "#prefix" else "change"
            steps.setdefault(name, []).append(page.evaluate(STEP, [selector, value, event, first]))

        for number in range(1, 1 + min(STEPS, objects // 200 - 1)):
            step("next page", NEXT, "", _key(200 * number))
        for row in (objects // 2, objects - 199, 1):
            step("go to a row", "#object-row", str(row), _key(row - 1))
        for number in (objects - 1, objects // 3, 7 * objects // 9):
            step("filter by prefix", "#prefix", _key(number), _key(number))
        step("filter is emptied", "#prefix", "", _key(0))
        step("filter by state done", "#object-state", "done", _key(100))
        step("filter by state failed", "#object-state", "failed", _key(0))
        step("filter by state pending", "#object-state", "pending", "No object is")
        return {"frames_ms": frames, "steps": steps}


def _key(number: int) -> str:
    return f"run42/{number:07}"


def _print(report: dict[str, Any], options: argparse.Namespace) -> None:
    print(f"{options.objects:,} objects; load of the machine {report['load']:.1f}")
    if "copy_seconds" in report:
        print(f"copied by serve in {report['copy_seconds']:.0f} s (simulated)")
    print(f"\n{'view':24} {'first paint ms':>16} {'ready ms':>16}   median, highest")
    for name, one in report["views"].items():
        print(f"{name:24} {_two(one['paint_ms']):>16} {_two(one['ready_ms']):>16}")
    print(f"\n{'step':24} {'ms':>16}")
    for name, found in report["steps"].items():
        print(f"{name:24} {_two(found):>16}")
    frames = sorted(report["frames_ms"])
    print(f"frames while scrolling   {_two(frames):>16}   p95 {frames[int(0.95 * (len(frames) - 1))]:.1f}")


def _two(values: list[float]) -> str:
    return f"{statistics.median(values):.0f}, {max(values):.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
