"""The shares of gateways, as clients of a server see them: what waits, and how much of a folder is in S3."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_client import http_of

from seqferry.db import gateway_question_rows, worker_rows
from seqferry.engine.engine import version
from seqferry.model.errors import OverloadError
from seqferry.model.workers import SHARES, WAITING, Process
from seqferry.service import shares
from seqferry.service.service import Service
from seqferry.settings.policy import Policy
from support.gateways import WrittenShares, need_libnfs, written_share
from support.servers import S3Server
from support.waiting import eventually

NEVER = "settle = 86400"


def _shares(client: httpx.Client) -> dict[str, dict[str, Any]]:
    found = [one for gateway in client.get("/api/v1/shares").json()["gateways"] for one in gateway["shares"]]
    return {one["name"]: one for one in found}


def test_a_server_shows_what_waits_in_the_shares_of_a_gateway_and_how_much_of_a_folder_is_in_s3(
    service: Service, s3server: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    need_libnfs()
    bucket, client = make_bucket(s3server), s3server.client()
    for key in ("runs/run41/a", "runs/run42/a", "runs/run42/deep/b", "fixed/x"):
        client.put_object(Bucket=bucket, Key=key, Body=b"12345")
    fixed = f'[[share]]\nname = "fixed"\nsource = "s3://{bucket}/fixed/"\n'
    place = {
        "SEQFERRY_STATE_DIR": str(service.settings.state_dir),
        "SEQFERRY_DATABASE_URL": service.settings.database_url or "",
    }
    written = WrittenShares(
        tmp_path, s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER) + fixed, more=place
    )
    try:
        s3server.deny(bucket, "runs/run42/denied", actions=("s3:PutObject",))
        for name in ("run42/c", "run42/denied", "run41/d"):
            written.write(f"runs/{name}", b"123")
        written.ask("flush", "/runs/run42/denied")
        with http_of(service) as http:
            found = eventually(
                lambda: (one := _shares(http)).get("runs", {}).get("writing", {}).get("failing_files") and one,
                what="a heartbeat with the file that fails",
            )
            [gateway] = http.get("/api/v1/shares").json()["gateways"]
            assert (gateway["alive"], gateway["draining"], gateway["directory"]) == (True, False, None)
            assert gateway["address"] == f"127.0.0.1:{written.port}"
            assert (found["fixed"]["writing"], found["fixed"]["source"]) == (None, f"s3://{bucket}/fixed/")
            writing = found["runs"]["writing"]
            assert (writing["dirty_files"], writing["dirty_bytes"]) == (3, 9)
            assert writing["oldest_path"] == "run42/c"
            assert [one["path"] for one in writing["failing"]] == ["run42/denied"]
            assert bucket in writing["failing"][0]["cause"]
            [row] = http.get("/api/v1/workers").json()["workers"]
            assert set(row["facts"]) >= {"shares", WAITING}
            assert SHARES not in row["facts"]

            def ask(share: str = "runs", expect: int = 200, **query: Any) -> dict[str, Any]:
                answer = http.get("/api/v1/shares/files", params={"gateway": gateway["id"], "share": share, **query})
                assert answer.status_code == expect, answer.text
                return answer.json()

            run = ask(path="/run42/")
            assert run["in_s3"] == {"files": 2, "bytes": 10, "is_cut": False}
            assert (run["path"], run["kind"], run["dirty_files"], run["dirty_bytes"]) == ("run42", "folder", 2, 6)
            assert (run["failing_files"], run["oldest"]["path"]) == (1, "run42/c")
            assert {one["name"]: one["state"] for one in run["names"]} == {
                "a": "in_s3",
                "c": "waiting",
                "deep": "in_s3",
                "denied": "failing",
            }
            assert ask(path="run41")["in_s3"]["files"] == 1
            assert ask(path="run42/c")["in_s3"]["files"] == 0
            top = ask(count=False)
            assert (top["in_s3"], top["dirty_files"]) == (None, 3)
            assert ask(path="absent", expect=404)["code"] == "not_found"
            assert ask("absent", expect=404)["code"] == "not_found"
            assert "read-only" in ask("fixed", expect=409)["detail"]
            for path in ("a\0b", "run42/../run41", "x" * 1025):
                assert ask(path=path, expect=400)["code"] == "usage"

            s3server.deny(bucket, "elsewhere/*")
            written.ask("flush", "/runs/run42", "--wait")
            assert ask(path="run42")["in_s3"] == {"files": 4, "bytes": 16, "is_cut": False}
            service.settings = replace(service.settings, policy=Policy(read=(f"s3://{bucket}/other/",)))  # type: ignore[misc]
        with http_of(service) as http:
            assert ask(path="run42", expect=403)["code"] == "not_allowed"
            service.settings = replace(service.settings, policy=Policy())  # type: ignore[misc]
        written.process.signal(signal.SIGKILL)
        written.process.wait()
        with http_of(service) as http:
            assert "does not run" in ask(path="run42", expect=409)["detail"]
            assert _shares(http)["runs"]["writing"]["dirty_files"] > 0, "as it was at its last heartbeat"
    finally:
        written.close()
    with service.database.write() as connection:
        assert gateway_question_rows.count(connection) == 0, "no question outlives its client"


def test_questions_that_wait_are_bounded_and_end(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process("g", "gateway", "host", 1, version(), "", "")
    with service.database.write() as connection:
        worker_rows.beat(connection, process, {"shares": ["runs"]})
    monkeypatch.setattr(shares, "MAX_QUESTIONS", 2)
    asked = [shares.ask(service, "g", "runs", f"run{number}", counts=True) for number in range(2)]
    with pytest.raises(OverloadError, match="2 requests wait for gateways"):
        shares.ask(service, "g", "runs", "run2", counts=True)

    with service.database.write() as connection:
        assert gateway_question_rows.find_open(connection, "other") is None
        assert gateway_question_rows.find_open(connection, "g") == (asked[0], "/runs/run0", True)
        gateway_question_rows.answer(connection, asked[0], '{"kind": "file"}')
        assert gateway_question_rows.find_open(connection, "g") == (asked[1], "/runs/run1", True)
    assert shares.read_answer(service, asked[0]) == {"kind": "file"}
    assert shares.read_answer(service, asked[1]) is None
    shares.withdraw(service, asked[0])

    # One whose server was killed ends by itself.
    monkeypatch.setattr(shares, "ANSWER_SECONDS", -1.0)
    late = shares.ask(service, "g", "runs", "late", counts=False)
    with service.database.write() as connection:
        assert gateway_question_rows.find_open(connection, "g") == (asked[1], "/runs/run1", True)
        assert gateway_question_rows.count(connection) == 1
        gateway_question_rows.answer(connection, late, "{}")
    assert shares.read_answer(service, late) is None
