"""Takes the pictures of the page for README and docs: ``make pictures``. Not a test, but it fails where one would.

The scene: a vendor's run arrives, three of its files are denied, one run arrived before, and another waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import PHONE, Tab
from support.mover import Mover
from support.run import ROOT
from support.sim import Simulator
from support.waiting import eventually

PICTURES = ROOT / "docs" / "pictures"
DESK = {"width": 1180, "height": 760}
KEYS = "keys=run42/S{i:03}_L001_R1_001.fastq.gz;count=448;total=11.88TiB"
BEFORE = "keys=run41/S{i:03}_L001_R1_001.fastq.gz;count=96;total=400GiB"

MoverFactory = Callable[[Simulator], Mover]
SimulatorFactory = Callable[..., Simulator]


class Scene:
    """A server half-way through a delivery."""

    def __init__(self, simulator: Simulator, server: Any) -> None:
        self.simulator, self.server = simulator, server
        denied = {"fault": "access_denied", "operation": "UploadPartCopy"}
        simulator.set_faults(*({**denied, "key_prefix": f"run42/S{one:03}_"} for one in (7, 180, 311)))
        before = self.submit("earlier", "run41", name="Run 41", labels={"project": "X"})
        eventually(lambda: self.now(before)["ended_at"], what="the end of the first", deadline=300)
        self.transfer = self.submit("vendor", "run42", name="Run 42 for project X", labels={"project": "X"})
        self.submit("vendor", "run42", name="Run 42, second look")
        eventually(lambda: self.now(self.transfer)["totals"]["done"] >= 250, what="its half", deadline=300)

    def submit(self, bucket: str, run: str, **options: Any) -> str:
        place = {"endpoint_url": self.simulator.endpoint_url, "new": True, "preflight": False}
        return self.server.submit(f"s3://{bucket}/{run}/", f"s3://ours/{run}/", **place, **options)

    def now(self, transfer: str) -> dict[str, Any]:
        return self.server.http.get(f"/api/v1/transfers/{transfer}").json()


@pytest.fixture
def scene(make_mover: MoverFactory, make_simulator: SimulatorFactory, serve: Callable[..., Any]) -> Iterator[Scene]:
    simulator = make_simulator("--bucket", f"vendor={KEYS}", "--bucket", f"earlier={BEFORE}", "--bucket", "ours")
    return Scene(simulator, serve(make_mover(simulator)))


def test_take(scene: Scene, open_tab: Callable[..., Tab]) -> None:
    PICTURES.mkdir(exist_ok=True)
    link = scene.server.http.post("/api/v1/share-links", json={"transfer": scene.transfer}).json()
    page = open_tab(scene.server.url, viewport=DESK).sign_in(scene.server.token)
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    _take(page, "transfers")
    page.goto(f"{scene.server.url}#/t/{scene.transfer}")
    expect(page.get_by_role("heading", name="Run 42 for project X")).to_be_visible()
    _take(page, "transfer", is_whole=True)
    phone = open_tab(scene.server.url, viewport={**PHONE, "height": 440}, device_scale_factor=2).page
    phone.goto(f"{scene.server.url}#/d/{link['token']}")
    expect(phone.get_by_role("progressbar")).to_be_visible()
    _take(phone, "delivery")


def _take(page: Page, name: str, *, is_whole: bool = False) -> None:
    page.wait_for_timeout(1500)  # the bars and the chart move to their places
    page.screenshot(path=PICTURES / f"{name}.png", full_page=is_whole)
