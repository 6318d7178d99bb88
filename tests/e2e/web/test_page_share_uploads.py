"""The page of what a share has uploaded: who wrote each file, and conflicts, which nobody retries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from support.browser import Tab
from support.gateways import WrittenShares, need_libnfs, written_share
from support.mover import Mover
from support.servers import S3Server
from support.waiting import eventually


def test_uploads_of_a_share_show_their_writers_and_their_conflicts(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    serve: Callable[..., Any],
    open_tab: Callable[..., Tab],
    tmp_path: Path,
) -> None:
    need_libnfs()
    bucket, mover = make_bucket(seaweedfs), make_mover(seaweedfs)
    share = written_share("runs", f"s3://{bucket}/runs/", "settle = 86400")
    shares = WrittenShares(tmp_path, seaweedfs, share, more={"SEQFERRY_STATE_DIR": str(mover.state)})
    try:
        for name in ("reads", "lost"):
            shares.write(f"runs/{name}", b"ACGT")
        seaweedfs.client().put_object(Bucket=bucket, Key="runs/lost", Body=b"theirs")
        shares.ask("flush", "--wait")
        eventually(lambda: shares.writing()["unrecorded"] == 0, what="the uploads on record")
    finally:
        shares.close()
    server = serve(mover)
    [transfer] = server.http.get("/api/v1/transfers").json()["transfers"]
    page = open_tab(server.url).sign_in(server.token, f"#/t/{transfer['id']}")

    expect(page.get_by_text("upload of a share")).to_be_visible()
    expect(page.get_by_text("Another program wrote these")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    page.get_by_role("link", name="Objects").click()
    page.get_by_text("runs/reads").click()
    expect(page.get_by_text("Written by", exact=True)).to_be_visible()
    expect(page.get_by_text("uid 65534 at 127.0.0.1")).to_be_visible()
