"""Reports hold all that is on record, and their digest can be checked without Seqferry."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from control import command, planned
from ended import AT, add_ended_batch, begin, ended, finish
from http_client import http_of

from seqferry.db import batches, planned_objects
from seqferry.db.batches import ObjectOutcome
from seqferry.proof import auditing, report
from seqferry.service.service import Service
from support.run import ROOT

ODD = ["<script>alert(1)</script>", "new\nline", 'quote", =1+1', "\u202eright to left", "ü"]


@pytest.fixture
def odd(service: Service) -> str:
    """A transfer whose keys are odd and of which an object has failed."""
    transfer_id = begin(service)
    add_ended_batch(service, transfer_id, ODD)
    add_ended_batch(
        service,
        transfer_id,
        ["failed"],
        state="failed",
        verified=None,
        error_class="person",
        error_code="AccessDenied",
        error_message="GetObject: no <permission>",
    )
    finish(service, transfer_id)
    return transfer_id


def _report(service: Service, transfer_id: str, form: report.Format) -> str:
    return "".join(report.stream(service.database, transfer_id, form))


def _checked(path: Path, *digest: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "verify_receipt.py"), str(path), *digest]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_others_can_check_the_digest_of_a_report(service: Service, odd: str, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    path.write_text(_report(service, odd, "json"))
    digest = service.receipt_digest(odd)
    assert digest is not None

    assert _checked(path, digest).stdout.strip().endswith(digest)

    receipt = json.loads(path.read_text())
    receipt["objects"][1]["checksum"] = "other"
    path.write_text(json.dumps(receipt))
    assert (_checked(path).returncode, _checked(path).stdout) == (
        1,
        "batch 0: its objects are not those of the receipt\n",
    )


@pytest.mark.parametrize("change", [("created_by", "eve"), ("ended_at", 1), ("totals", {})])
def test_a_changed_fact_shows_in_the_digest(
    service: Service, odd: str, tmp_path: Path, change: tuple[str, Any]
) -> None:
    receipt = json.loads(_report(service, odd, "json"))
    receipt["facts"][change[0]] = change[1]
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(receipt))

    assert _checked(path).returncode == 1


def test_a_report_has_all_that_was_asked_and_found(service: Service, odd: str) -> None:
    receipt = json.loads(_report(service, odd, "json"))

    assert receipt["facts"]["created_by"] == "ada"
    assert (receipt["source"], receipt["target"]) == ("s3://vendor/run/", "s3://ours/number1/")
    assert receipt["facts"]["totals"]["failed"] == 1
    assert receipt["facts"]["software"]["version"]
    assert [event["kind"] for event in receipt["events"]] == [
        "submitted",
        "started",
        "planned",
        "done_with_failures",
    ]
    assert [entry["kind"] for entry in receipt["ledger"]["entries"]] == ["submitted", "done_with_failures"]
    assert receipt["ledger"]["head"] == str(auditing.head(service.database))
    failed = receipt["objects"][-1]
    assert (failed["source_key"], failed["error_code"]) == ("run/failed", "AccessDenied")
    assert failed["ended_at"] == "2023-11-14T22:13:21.750000Z"


def test_requests_of_all_runs_are_counted_and_priced(service: Service) -> None:
    transfer_id = begin(service)
    with service.database.write() as connection:
        [batch] = planned_objects.add_batches(connection, transfer_id, [[planned("a", 10)]], AT)
        runs = [batches.begin_batch(connection, transfer_id, batch, AT) for _ in range(2)]
    for run, requests in zip(runs, (1000, 500), strict=True):
        assert run is not None
        with service.database.write() as connection:
            batches.count_requests(connection, run, requests)  # also those of the run that was shut out
    assert runs[1] is not None
    before = json.loads("".join(service.report(transfer_id, "json", (), "us-east-1")))
    with http_of(service) as client:
        assert client.get(f"/api/v1/transfers/{transfer_id}?price=us-east-1").json()["cost"] is None, "it has not ended"
    add_ended_batch(service, transfer_id, ["b"])
    with service.database.write() as connection:
        batches.end_open_objects(connection, runs[1], ObjectOutcome(state="cancelled", ended_at=AT))
    finish(service, transfer_id)

    told = json.loads("".join(service.report(transfer_id, "json", (), "us-east-1")))

    assert before["cost"] is None, "it has not ended"
    assert service.requests(transfer_id) == told["cost"]["requests_counted"] == 1500
    assert told["cost"]["requests"] == pytest.approx(1.5 * 0.005)
    assert told["digest"] == service.receipt_digest(transfer_id), "the cost is no fact of the receipt"
    with http_of(service) as client:
        now = client.get(f"/api/v1/transfers/{transfer_id}", params={"price": "us-east-1"}).json()
        plain = client.get(f"/api/v1/transfers/{transfer_id}").json()
        assert now["cost"] == told["cost"]
        assert now == plain | {"cost": now["cost"]}
        own = json.loads("".join(service.report(transfer_id, "json", ())))
        assert plain["cost"] == own["cost"], "both by the places of the transfer"
        for path in ("", "/report"):
            refused = client.get(f"/api/v1/transfers/{transfer_id}{path}", params={"price": "mars-1"})
            assert (refused.status_code, "mars-1" in refused.json()["detail"]) == (400, True)


def test_objects_that_were_there_cost_no_bytes(service: Service) -> None:
    transfer_id = begin(service)
    add_ended_batch(service, transfer_id, ["there"], size=10**12, state="skipped", method=None)
    finish(service, transfer_id)

    told = json.loads("".join(service.report(transfer_id, "json", (), "us-east-1")))
    counted = service.cost(service.status(transfer_id), "us-east-1")

    assert counted is not None
    assert told["cost"] == counted.facts()
    assert told["cost"]["month"] == 0.0
    assert told["cost"]["datasync_basic"] == 0.0


def test_the_table_has_a_line_for_each_object(service: Service, odd: str) -> None:
    rows = list(csv.DictReader(io.StringIO(_report(service, odd, "csv"), newline="")))

    assert [row["source_key"] for row in rows[:3]] == [f"run/{key}" for key in ODD[:3]]
    assert rows[0]["checksum"] == "AAAAAAAAAAA="
    assert rows[-1]["error_message"] == "GetObject: no <permission>"


def test_the_page_is_one_file_that_runs_nothing(service: Service, odd: str) -> None:
    page = _report(service, odd, "html")

    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not any(word in page for word in ("http://", "https://", "src=", "<link", "@import")) or (
        page.count("http://") == page.count("http://127.0.0.1:9")  # the endpoint, as text
    )
    assert "new\\nline" in page
    assert "\u202e" not in page
    assert service.receipt_digest(odd) in page  # type: ignore[operator]


@pytest.mark.parametrize("form", ["json", "csv", "html"])
def test_an_unfinished_transfer_has_a_report_without_a_digest(service: Service, form: report.Format) -> None:
    transfer_id = begin(service)
    add_ended_batch(service, transfer_id, ["a"])

    text = _report(service, transfer_id, form)

    assert "run/a" in text
    assert form != "json" or json.loads(text)["digest"] is None


def test_a_large_report_comes_in_pieces(service: Service) -> None:
    transfer_id = ended(service, batches=3, each=900)

    pieces = list(report.stream(service.database, transfer_id, "csv"))

    assert len(pieces) > 5
    assert max(map(len, pieces)) < 100_000
    assert "".join(pieces).count("\r\n") == 2701


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_commands_write_and_check_it(service: Service, odd: str, tmp_path: Path) -> None:
    path = tmp_path / "r.html"

    assert command(service, "report", odd[:8], "--format", "html", "-o", str(path)).returncode == 0
    assert path.read_text().startswith("<!doctype html>")
    assert json.loads(command(service, "report", odd).stdout)["facts"]["id"] == odd
    refused = command(service, "report", odd, "-o", str(tmp_path / "no" / "r"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("seqferry: Cannot write the report")
    assert [entry.name for entry in tmp_path.iterdir() if "r." in entry.name] == ["r.html"]
    head = command(service, "audit", "head").stdout.strip()
    assert "nothing was changed" in command(service, "audit", "verify", odd, "--head", head).stderr
    ran = command(service, "audit", "verify", "--head", f"9{head}", "--json")
    finding, summary = map(json.loads, ran.stdout.splitlines())
    assert (finding["kind"], summary["findings"], ran.returncode) == ("ledger_behind", 1, 3)


def test_reports_and_audits_over_http(service: Service, odd: str) -> None:
    with http_of(service) as client:
        answer = client.get(f"/api/v1/transfers/{odd}/report")
        assert answer.json()["digest"] == service.receipt_digest(odd)
        page = client.get(f"/api/v1/transfers/{odd}/report", params={"format": "html"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert client.get(f"/api/v1/transfers/{odd}/report", params={"format": "pdf"}).status_code == 422
        assert client.get("/api/v1/transfers/00000000/report").status_code == 404

        head = client.get("/api/v1/audit/head").json()["head"]
        assert head == str(auditing.head(service.database))
        assert client.get("/api/v1/audit", params={"head": head}).json()["intact"] is True
        behind = client.get(f"/api/v1/transfers/{odd}/audit", params={"head": f"9{head}"}).json()
        assert (behind["intact"], behind["findings"][0]["kind"]) == (False, "ledger_behind")
        assert client.get("/api/v1/audit", params={"head": "none"}).status_code == 422
