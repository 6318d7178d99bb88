"""The trace of a command: lines of JSON that name the transfer, and hold no secret."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from cli_process import Cli, CliResult, Places

PART = 5 * 1024 * 1024


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _id(ran: CliResult) -> str:
    return str(ran.events[0]["id"])


def test_a_trace_names_transfer_object_and_part_of_each_request_and_holds_no_secret(
    cli: Cli, places: Places, tmp_path: Path
) -> None:
    places.fill(["a", "b"])
    places.fill_slow(1, 2 * PART + 1)
    trace = tmp_path / "trace.ndjson"

    ran = cli.run(
        "cp",
        *places.uris,
        "--json",
        "--part-size",
        "5MiB",
        "--copy-threshold",
        "5MiB",
        env={"SEQFERRY_TRACE": str(trace)},
    )

    assert ran.code == 0, ran.err
    lines, transfer = _lines(trace), _id(ran)
    # The first listing is requested with the checks, before the transfer has an id.
    assert {line["transfer"] for line in lines if line.get("span") not in ("request", "listing")} == {transfer}
    objects = {line["key"]: line["state"] for line in lines if line.get("span") == "object"}
    assert objects == dict.fromkeys(["run42/a", "run42/b", "run42/00"], "done")
    parts = [line for line in lines if line.get("operation") == "UploadPartCopy"]
    assert {(line["transfer"], line["key"], line["part"]) for line in parts} == {
        (transfer, "run42/00", number) for number in (1, 2, 3)
    }
    assert any(line.get("operation") == "ListObjectsV2" and line["outcome"] == "ok" for line in lines)
    text, user = trace.read_text(), places.server.user
    assert not any(secret in text for secret in (user.secret_key, "X-Amz-", "Signature", "Credential"))
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600


def test_a_trace_on_stderr_leaves_stdout_alone_and_one_that_cannot_be_written_is_refused(
    cli: Cli, places: Places, tmp_path: Path
) -> None:
    places.fill(["a"])

    ran = cli.run("ls", places.uris[0], "--json", env={"SEQFERRY_TRACE": "stderr"})

    assert ran.code == 0, ran.err
    assert len(ran.events) == 1
    traced = [json.loads(line) for line in ran.err.splitlines() if line.startswith('{"time"')]
    assert {line["operation"] for line in traced} == {"ListObjectsV2"}
    refused = cli.run("cp", *places.uris, env={"SEQFERRY_TRACE": str(tmp_path / "no" / "folder")})
    assert refused.code != 0
    assert "SEQFERRY_TRACE" in refused.err
    assert "Traceback" not in refused.err
