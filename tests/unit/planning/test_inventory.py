"""Manifests of S3 Inventory and the rows of their files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from seqferry.model.errors import PolicyError, StorageError, UsageError
from seqferry.model.locations import S3Location
from seqferry.planning import inventory
from seqferry.settings.policy import Policy
from seqferry.spec import stored
from seqferry.spec.build import build_spec
from support import inventories

PLACE = S3Location("inv", "daily/src/all/2026-11-23T01-00Z/manifest.json")
MANIFEST: dict[str, Any] = {
    "sourceBucket": "src",
    "destinationBucket": "arn:aws:s3:::inv",
    "version": "2016-11-30",
    "fileFormat": "CSV",
    "fileSchema": "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag, StorageClass",
    "files": [{"key": "daily/src/all/data/1.csv.gz", "size": 10, "MD5checksum": "AB"}],
}


def _parsed(**changes: Any) -> inventory.Manifest:
    return inventory.parse_manifest(json.dumps({**MANIFEST, **changes}).encode(), PLACE, "src")


def _written(path: Path, rows: list[list[str]]) -> Path:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return path


def _row(key: str, *, latest: str = "true", marker: str = "false", size: str = "3", time: str = "") -> list[str]:
    moment = time or "2026-11-01T08:00:00.000Z"
    return ["src", quote_plus(key, safe="/"), "v1", latest, marker, size, moment, "etag", "STANDARD"]


def test_rows_are_the_current_objects(tmp_path: Path) -> None:
    path = _written(
        tmp_path / "1.csv.gz",
        [
            _row("run/a b+c%.txt"),
            _row("run/ü\n.txt"),
            _row("old", latest="false"),
            _row("gone", marker="true", size=""),
        ],
    )

    found = list(inventory.read_rows(path, _parsed(), "file"))

    assert [row.key for row in found] == ["run/a b+c%.txt", "run/ü\n.txt"]
    assert found[0] == inventory.Row("run/a b+c%.txt", 3, "etag", 1793520000.0, None, "STANDARD")


@pytest.mark.parametrize(
    ("rows", "where"),
    [
        ([_row("a"), _row("b")[:-1]], "line 2: it has 8 columns"),
        ([_row("a", size="x")], "line 1: column size: 'x'"),
        ([_row("a"), _row("b", time="yesterday")], "line 2: column lastmodifieddate"),
    ],
)
def test_a_malformed_row_is_named(rows: list[list[str]], where: str, tmp_path: Path) -> None:
    path = _written(tmp_path / "1.csv.gz", rows)

    with pytest.raises(StorageError) as refused:
        list(inventory.read_rows(path, _parsed(), "s3://inv/1.csv.gz"))

    assert f"s3://inv/1.csv.gz, {where}" in refused.value.message


def _parsed_parquet(**changes: Any) -> inventory.Manifest:
    return _parsed(fileFormat="Parquet", fileSchema=inventories.SCHEMA, **changes)


def test_rows_of_parquet_are_the_current_objects() -> None:
    found = list(inventory.read_rows(inventories.PARQUET, _parsed_parquet(), "file"))

    wanted = [row for row in inventories.sample_rows() if row.latest and not row.marker]
    assert [(row.key, row.size) for row in found] == [(row.key, len(row.content)) for row in wanted]
    assert [row.etag for row in found] == [hashlib.md5(row.content).hexdigest() for row in wanted]
    assert found[1] == inventory.Row(wanted[1].key, 10, found[1].etag, 1793520001.123, None, "STANDARD")
    assert {row.storage_class for row in found} == {"STANDARD", "STANDARD_IA"}


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:-1], "Corrupt footer"),
        (lambda data: b"no parquet", "Corrupt footer"),
        (lambda data: b"", "file too small"),
        (lambda data: data[:40] + bytes(400) + data[440:], "row group 1, column key: "),
    ],
)
def test_malformed_parquet_is_named(damage: Callable[[bytes], bytes], why: str, tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    path.write_bytes(damage(inventories.PARQUET.read_bytes()))

    with pytest.raises(StorageError) as refused:
        list(inventory.read_rows(path, _parsed_parquet(), "s3://inv/1.parquet"))

    assert refused.value.message.startswith("s3://inv/1.parquet: ")
    assert why in refused.value.message
    assert "\n" not in refused.value.message


def test_a_column_that_only_the_manifest_has_is_named() -> None:
    bare = inventories.PARQUET.with_name("keys.parquet")

    with pytest.raises(StorageError, match="it has no column 'e_tag', and the manifest names one"):
        list(inventory.read_rows(bare, _parsed_parquet(), "s3://inv/keys.parquet"))


@pytest.mark.parametrize("cut", [5, 40])
def test_a_file_that_is_cut_is_refused(cut: int, tmp_path: Path) -> None:
    path = _written(tmp_path / "1.csv.gz", [_row(f"key{number}") for number in range(100)])
    path.write_bytes(path.read_bytes()[:-cut])

    with pytest.raises(StorageError, match="cannot be unpacked"):
        list(inventory.read_rows(path, _parsed(), "file"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "no JSON"),
        (b"[]", "it lacks"),
        (json.dumps({**MANIFEST, "files": [{}]}).encode(), "it lacks 'key'"),
        (json.dumps({**MANIFEST, "fileFormat": "ORC"}).encode(), "its files are ORC, which is not read"),
        (json.dumps({**MANIFEST, "fileFormat": "Parquet"}).encode(), "no column Key"),
        (json.dumps({**MANIFEST, "sourceBucket": "other"}).encode(), "of the bucket other"),
        (json.dumps({**MANIFEST, "destinationBucket": "arn:aws:s3:::x"}).encode(), "in the bucket x"),
        (json.dumps({**MANIFEST, "fileSchema": "Bucket, Size"}).encode(), "no column Key"),
        (
            json.dumps({**MANIFEST, "files": [{"key": "elsewhere/1.csv.gz", "MD5checksum": "x"}]}).encode(),
            "does not lie below s3://inv/daily/src/all/",
        ),
    ],
)
def test_what_is_no_manifest_is_refused_with_words(data: bytes, why: str) -> None:
    with pytest.raises(UsageError, match="is not a manifest") as refused:
        inventory.parse_manifest(data, PLACE, "src")

    assert why in refused.value.message


def test_an_inventory_is_recorded_with_its_transfer() -> None:
    spec = build_spec("s3://src/run/", "s3://dst/", inventory=PLACE.uri)

    assert stored.read(stored.write(spec)) == spec
    assert inventory.manifest_location(spec) == PLACE


@pytest.mark.parametrize(
    "given",
    [
        {"inventory": "s3://inv/list.csv"},
        {"inventory": "/tmp/manifest.json"},
        {"inventory": PLACE.uri, "keys": ["a"]},
        {"inventory": PLACE.uri, "delete": True, "below": True},
    ],
)
def test_what_makes_no_sense_beside_an_inventory_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        build_spec("s3://src/run/", "s3://dst/", **given)


def test_a_server_reads_no_inventory_outside_of_its_policy() -> None:
    spec = build_spec("s3://src/run/", "s3://dst/", inventory=PLACE.uri)

    Policy(read=("s3://src/", "s3://inv/daily/")).check(spec)
    with pytest.raises(PolicyError, match="s3://inv/daily/src/all/"):
        Policy(read=("s3://src/",)).check(spec)
