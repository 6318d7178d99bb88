"""Epochs of a gateway on record: once each, whole, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from seqferry.db.tables import notice
from seqferry.engine.upload_batches import UploadBatchSource, UploadOutcome
from seqferry.model.errors import ConfigError, SeqferryError, UsageError
from seqferry.model.locations import S3Location
from seqferry.proof import target_verification
from seqferry.service import control
from seqferry.service.service import Service
from seqferry.service.upload_batches import UploadBatchRecorder
from seqferry.settings.channels import parse
from seqferry.settings.config import Settings
from seqferry.spec import gateway

AT = 1_700_000_000.25
PLACE = S3Location("sequencing", "runs/", endpoint_url="http://127.0.0.1:9", region="us-east-1")
JOURNAL = "0123456789abcdef"


def outcome(path: str, **facts: Any) -> UploadOutcome:
    found = {
        "path": path,
        "size": 10,
        "modified": AT - 60,
        "started": AT,
        "ended": AT + 1.5,
        "attempts": 1,
        "uid": 1000,
        "address": "10.1.2.3",
        "etag": f"etag-{path}",
        "version_id": f"version-{path}",
        "checksum_algorithm": "CRC64NVME",
        "checksum": "AAAAAAAAAAA=",
        "method": "stream",
        "verified": "checksum",
        "failure": None,
    }
    return cast("UploadOutcome", SimpleNamespace(**found | facts))


def failed(path: str, code: str) -> UploadOutcome:
    version = ("etag", "version_id", "checksum_algorithm", "checksum", "method", "verified")
    failure = ("exists", code, "upload", f"s3://sequencing/runs/{path}: no.")
    return outcome(path, failure=failure, **dict.fromkeys(version))


class Script:
    """What a gateway hands over: one share with epochs."""

    def __init__(self, *epochs: list[UploadOutcome], renamed: tuple[str, str] | None = None) -> None:
        self.epochs = dict(enumerate(epochs))
        self.renamed = renamed
        self.loses_forget = False

    def upload_batches(self) -> list[Batch]:
        return [Batch(self, number) for number in sorted(self.epochs)]


@dataclass(frozen=True)
class Batch:
    """A batch of the script."""

    script: Script
    number: int
    share: str = "runs"
    prefix: str = "runs/"
    journal: str = JOURNAL

    def outcomes(self) -> tuple[list[UploadOutcome], tuple[str, str] | None]:
        return self.script.epochs[self.number], self.script.renamed

    def forget(self) -> None:
        if self.script.loses_forget:
            raise ConfigError("The process was killed.")
        del self.script.epochs[self.number]


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mover")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    with Service.open(settings) as opened:
        yield opened


def record(settings: Settings, script: Script) -> int:
    source = cast("UploadBatchSource", script)
    with closing(UploadBatchRecorder(settings, {"runs": PLACE}, source)) as recorder:
        return recorder.record()


def test_an_epoch_is_an_ended_transfer_with_a_row_for_each_version(settings: Settings, service: Service) -> None:
    again = outcome("a", size=20, uid=0, address="fe80::1")
    script = Script([outcome("a"), outcome("d/b"), again, failed("c", "Conflict")])

    record(settings, script)

    assert script.epochs == {}
    status = service.status(gateway.upload_batch_id("runs", JOURNAL, 0))
    assert (status.state, status.spec.operation, status.description.name) == ("done_with_failures", "gateway", "runs")
    assert (status.spec.target.uri, status.created_by) == ("s3://sequencing/runs/", f"gateway on {settings.host_name}")
    assert (status.started_at, status.ended_at, status.next_step) == (AT, AT + 1.5, None)
    totals = status.totals
    assert (totals.objects, totals.done, totals.failed, totals.bytes, totals.bytes_done) == (4, 3, 1, 50, 40)
    rows = service.objects(status.id)
    assert [(row.target_key, row.size, row.written_by) for row in rows] == [
        ("runs/a", 10, "uid 1000 at 10.1.2.3"),
        ("runs/d/b", 10, "uid 1000 at 10.1.2.3"),
        ("runs/a", 20, "uid 0 at fe80::1"),
        ("runs/c", 10, "uid 1000 at 10.1.2.3"),
    ]
    assert (rows[0].target_etag, rows[0].target_version_id, rows[0].etag) == ("etag-a", "version-a", "")
    assert (rows[3].state, rows[3].error_code) == ("failed", "Conflict")
    last = target_verification.read_arrived(service.database, status.id, status.spec)
    assert [(row["target_key"], row["size"]) for row in last] == [("runs/a", 20), ("runs/d/b", 10)]
    [cause] = service.failures(status.id)
    assert (cause.error_code, cause.keys) == ("Conflict", ("runs/c",))
    assert list(service.audit(transfer_id=status.id).findings) == []
    page = "".join(service.report(status.id, "html", []))
    assert "upload of a share" in page
    assert "written by uid 0 at fe80::1" in page


@pytest.mark.every_database
def test_an_epoch_that_is_on_record_already_adds_nothing(settings: Settings, service: Service) -> None:
    script = Script([outcome("a")], [outcome("a")])
    script.loses_forget = True
    for _ in range(2):
        with pytest.raises(ConfigError, match="killed"):
            record(settings, script)
    script.loses_forget = False

    assert record(settings, script) == 2

    found = service.transfers()
    assert {one.id for one in found} == {gateway.upload_batch_id("runs", JOURNAL, number) for number in (0, 1)}
    assert [one.totals.objects for one in found] == [1, 1]
    assert len(service.events(found[0].id)) == 3


def test_its_end_is_told_to_the_channels_of_the_deployment(settings: Settings, service: Service) -> None:
    channels = parse({"lims": {"url": "json://127.0.0.1:9/x"}})

    record(replace(settings, notices=channels), Script([outcome("a")]))

    with service.database.read() as connection:
        [row] = connection.execute(sa.select(notice)).all()
    subject = (row.subject_kind, row.subject_id, row.kind, row.state)
    assert subject == ("transfer", gateway.upload_batch_id("runs", JOURNAL, 0), "finished", "pending")


@pytest.mark.parametrize(
    ("renamed", "name"),
    [
        (("run.tmp", "run"), "runs: run.tmp/ renamed to run/"),
        (("run.tmp", ""), "runs: run.tmp/ renamed"),
        (("a\nb", "run"), "runs"),
        (("a" * 200, "run"), "runs"),
    ],
)
def test_a_renamed_folder_is_named_by_its_paths_which_the_spec_has_whole(
    renamed: tuple[str, str], name: str, settings: Settings, service: Service
) -> None:
    record(settings, Script([outcome("run/a")], renamed=renamed))

    status = service.status(gateway.upload_batch_id("runs", JOURNAL, 0))
    assert status.description.name == name
    options = status.spec.options
    assert (options[gateway.RENAMED_FROM], options[gateway.RENAMED_TO]) == renamed


def test_nobody_submits_or_retries_one(settings: Settings, service: Service) -> None:
    spec = gateway.upload_batch_spec(PLACE, "runs/", share="runs", journal=JOURNAL, epoch=0)
    with pytest.raises(UsageError, match="The gateway records what it uploads"):
        service.submit(spec, actor="ada")
    record(settings, Script([failed("a", "UploadFailed")]))

    with pytest.raises(SeqferryError, match="retries failed files itself"):
        control.retry(service, gateway.upload_batch_id("runs", JOURNAL, 0), actor="ada")
