"""Failures by cause over HTTP: how many objects and bytes, and what to do."""

from __future__ import annotations

import pytest
from ended import add_ended_batch, begin, finish
from http_client import http_of

from seqferry.model.messages.steps import ADVICE, PAGE_OF_GROUP
from seqferry.service.service import Service


@pytest.mark.every_database
def test_a_cause_has_its_bytes_and_an_advice(service: Service) -> None:
    transfer_id = begin(service)
    add_ended_batch(service, transfer_id, ["done"])
    message = f"GetObject run/b: AccessDenied (403). {ADVICE['grant_read']}"
    denied = {"error_class": "person", "error_code": "AccessDenied", "error_message": message}
    add_ended_batch(service, transfer_id, ["b", "a"], state="failed", verified=None, **denied)
    archived = {"error_class": "person", "error_code": "InvalidObjectState", "error_message": "in Glacier"}
    add_ended_batch(service, transfer_id, ["c"], state="failed", verified=None, **archived)
    finish(service, transfer_id)

    with http_of(service) as client:
        [first, second] = client.get(f"/api/v1/transfers/{transfer_id}/failures").json()["causes"]

    assert (first["error_code"], first["count"], first["keys"]) == ("AccessDenied", 2, ["run/a", "run/b"])
    assert first["bytes"] == 2 * 10
    assert (first["step"], first["text"]) == ("grant_read", "GetObject run/b: AccessDenied (403).")
    assert first["advice"] == PAGE_OF_GROUP.step("grant_read")
    assert (second["needs"], second["words"]) == ("sender", "they are in an archive and have to be restored first")
    assert second["missing_text"] == "it is in an archive and has to be restored first"
    assert second["step"] == "person"
    assert (second["error_code"], second["count"], second["bytes"]) == ("InvalidObjectState", 1, 10)
