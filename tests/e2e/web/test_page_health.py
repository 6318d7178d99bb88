"""The health of a server: processes, database, notices, share links, and what a storage can do."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from support.browser import Tab
from support.mover import Mover
from support.processes import RunningProcess
from support.sim import Simulator
from support.waiting import eventually

SILENT = {"id": "'silent'", "kind": "'worker'", "host": "'sequencer-7'", "pid": "4242", "seen_at": "seen_at - 4000"}
CLOSED = "http://127.0.0.1:9/hook"
"""No server listens at the port of this channel."""


def configured(folder: Path) -> dict[str, str]:
    """The environment of a server whose notices do not arrive, and whose clients may read one bucket."""
    file = folder / "config.toml"
    secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    file.write_text(
        f'[server]\nread = ["s3://vendor/"]\nwrite = ["s3://ours/"]\n'
        f'[notices.ops]\nwebhook = "{CLOSED}"\nsecret = "{secret}"\nevents = ["finished"]\n'
    )
    file.chmod(0o600)
    return {"SEQFERRY_CONFIG": str(file)}


def add_silent_process(state: Path) -> None:
    """A worker that was killed an hour ago."""
    connection = sqlite3.connect(state / "seqferry.sqlite", timeout=30, isolation_level=None)
    columns = [str(one[1]) for one in connection.execute("PRAGMA table_info(worker)")]
    wanted = ", ".join(SILENT.get(one, one) for one in columns)
    connection.execute(f"INSERT INTO worker ({', '.join(columns)}) SELECT {wanted} FROM worker")
    connection.close()


def test_health_tells_what_works_and_what_does_not(
    make_mover: Callable[[Simulator], Mover],
    make_simulator: Callable[..., Simulator],
    serve: Callable[..., Any],
    open_tab: Callable[..., Tab],
    tmp_path: Path,
) -> None:
    simulator = make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=2", "--bucket", "ours")
    mover = make_mover(simulator)
    mover.env |= configured(tmp_path)
    server = serve(mover)
    page = open_tab(server.url).sign_in(server.token, "#/health")
    expect(page.get_by_role("status").filter(has_text="Healthy")).to_be_visible()
    expect(page.get_by_text("Seqferry").filter(has_text="the role of your token is admin")).to_be_visible()

    transfer = server.submit("s3://vendor/run42/", "s3://ours/run42/", name="Run 42")
    made = server.http.post("/api/v1/share-links", json={"transfer": transfer}).json()
    eventually(lambda: server.http.get("/api/v1/notices").json()["notices"], what="a notice")
    add_silent_process(mover.state)

    expect(page.get_by_text("1 process without a heartbeat, 1 notice could not be delivered.")).to_be_visible(
        timeout=15_000
    )
    processes = page.get_by_role("listitem").filter(has_text=re.compile("process \\d+ on"))
    expect(processes.filter(has_text="alive")).to_contain_text("API and worker")
    expect(processes.filter(has_text="alive")).to_contain_text(re.compile(r"idle, .* MiB of memory"))
    expect(processes.filter(has_text="silent")).to_contain_text("worker, process 4242 on sequencer-7")
    expect(page.get_by_text("seqferry.sqlite")).to_be_visible()
    notice = page.get_by_role("listitem").filter(has_text="has ended")
    expect(notice).to_contain_text("failing")
    expect(notice.get_by_role("link", name="Run 42")).to_have_attribute("href", f"#/t/{transfer}")
    expect(notice).to_contain_text("ConnectionRefusedError")

    page.get_by_role("button", name="Revoke the link to Run 42").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No valid links.")).to_be_visible()
    page.get_by_text("Expired and revoked: 1").click()
    expect(page.get_by_role("listitem").filter(has_text="revoked").last).to_contain_text("by local")
    holder = {"Authorization": f"Bearer {made['token']}"}
    assert server.http.get("/api/v1/delivery", headers=holder).status_code == 404


def test_health_shows_a_gateway_while_it_serves_and_when_it_was_killed(
    make_mover: Callable[[Simulator], Mover],
    make_simulator: Callable[..., Simulator],
    serve: Callable[..., Any],
    open_tab: Callable[..., Tab],
    tmp_path: Path,
) -> None:
    mover = make_mover(make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=2;total=2MiB"))
    file = tmp_path / "config.toml"
    file.write_text('[[share]]\nname = "runs"\nsource = "s3://vendor/run42/"\n')
    mover.env["SEQFERRY_CONFIG"] = str(file)
    server = serve(mover)
    page = open_tab(server.url).sign_in(server.token, "#/health")
    expect(page.get_by_text("Healthy")).to_be_visible()

    gateway = mover.start("gateway", "serve", "--port", "0")
    gateway.wait_for_output("is served at")
    shown = page.get_by_role("listitem").filter(has_text=f"process {gateway.pid} on")
    expect(shown).to_contain_text("gateway", timeout=20_000)
    expect(shown).to_contain_text("alive")
    expect(page.get_by_text("Healthy")).to_be_visible()
    [worker] = [one for one in server.http.get("/api/v1/workers").json()["workers"] if one["kind"] == "gateway"]
    assert worker["alive"]

    gateway.kill()
    with sqlite3.connect(mover.state / "seqferry.sqlite", timeout=30, isolation_level=None) as connection:
        connection.execute("UPDATE worker SET seen_at = seen_at - 4000 WHERE kind = 'gateway'")  # an hour goes by
    connection.close()
    expect(shown).to_contain_text("silent", timeout=20_000)
    expect(page.get_by_text("1 process without a heartbeat")).to_be_visible()

    mover.start("gateway", "serve", "--port", "0").wait_for_output("is served at")
    expect(shown).to_contain_text("gone", timeout=20_000)
    expect(page.get_by_text("Healthy")).to_be_visible()


def test_health_asks_what_a_storage_can_do_and_says_when_the_server_is_lost(
    make_mover: Callable[[Simulator], Mover],
    make_simulator: Callable[..., Simulator],
    serve: Callable[..., Any],
    open_tab: Callable[..., Tab],
    tmp_path: Path,
) -> None:
    mover = make_mover(make_simulator("--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=2"))
    mover.env |= configured(tmp_path)
    server = serve(mover)
    page = open_tab(server.url).sign_in(server.token, "#/health")
    place, look = page.get_by_label("Bucket or prefix"), page.get_by_role("button", name="Check")

    place.fill("vendor/run42")
    look.click()
    expect(page.get_by_text("Write an S3 address, for example s3://bucket/prefix/.")).to_be_visible()
    place.fill("s3://secret/")
    look.click()
    expect(page.get_by_role("alert")).to_contain_text("s3://secret/")
    place.fill("s3://vendor/run42/")
    place.press("Enter")
    expect(page.get_by_role("heading", name="Capabilities of s3://vendor/run42/")).to_be_visible()
    expect(page.get_by_role("definition").first).to_be_visible()
    page.reload()
    expect(page.get_by_text("Healthy")).to_be_visible()
    expect(page.get_by_role("heading", name="Capabilities of s3://vendor/run42/")).to_be_visible()

    running: RunningProcess = server.process
    running.kill()
    expect(page.get_by_text("The server does not answer since")).to_be_visible(timeout=15_000)
    expect(page.get_by_text("Healthy")).to_have_count(0)
