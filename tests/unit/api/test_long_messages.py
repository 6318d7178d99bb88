"""Recorded messages, at a length that is fit for an answer."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

from seqferry.api.file_status import _piece  # pyright: ignore[reportPrivateUsage]
from seqferry.api.schemas import ObjectOut, TransferOut
from seqferry.db.file_rows import BatchState, FileRow
from seqferry.model.models import ObjectRecord, Status, Totals
from seqferry.service.service import Service
from seqferry.spec.build import build_mirror_spec


def _failed(message: str | None) -> ObjectRecord:
    numbers: dict[str, int] = {"row": 1, "size": 5, "attempts": 1, "retries": 0}
    fields = (
        dict.fromkeys(ObjectRecord.__slots__) | numbers | {"source_key": "run/a", "target_key": "in/a", "etag": "e"}
    )
    return ObjectRecord(**fields | {"state": "failed", "not_carried": (), "error_message": message})  # type: ignore[arg-type]


def _error_of_file(message: str, status: Status) -> str:
    row = FileRow("run/a", 5, "failed", None, None, message)

    def files(_id: str, _number: int) -> list[FileRow]:
        return [row]

    service = cast("Service", SimpleNamespace(batch_files=files))
    return json.loads(_piece(service, status, BatchState(1, "ended", 1, 1, 0, 0, 1, 0, 0)).text)["error"]


def test_a_long_message_is_shortened_in_answers() -> None:
    spec = build_mirror_spec("vendor", "run/", None, "lab", "in/")
    for message in ("PutObject s3://lab/in/a: Odd: " + "inside of another service " * 40_000, "x" * (1 << 20)):
        status = Status("id", "failed", spec, Totals(), True, 1.0, "me", error_message=message)
        record = _failed(message)

        answers = [ObjectOut.of(record).error_message, TransferOut.of(status).error_message]
        answers.append(_error_of_file(message, status))
        for answer in answers:
            assert answer is not None
            assert len(answer) < 2100
            assert answer[:100] == message[:100]

    short = _failed("HeadObject s3://vendor/run/a: AccessDenied. Ask for s3:GetObject.")
    assert ObjectOut.of(short).error_message == short.error_message
    assert ObjectOut.of(_failed(None)).error_message is None
