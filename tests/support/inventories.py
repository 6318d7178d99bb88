"""The sample of S3 Inventory in Parquet: ``crates/inventory/tests/data/README.md`` says how it was written."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, NamedTuple

from support.run import ROOT

PARQUET: Final = ROOT / "crates" / "inventory" / "tests" / "data" / "inventory.parquet"
SCHEMA: Final = (
    "message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); optional binary version_id "
    "(UTF8); optional boolean is_latest; optional boolean is_delete_marker; optional int64 size; optional int64 "
    "last_modified_date (TIMESTAMP_MILLIS); optional binary e_tag (UTF8); optional binary storage_class (UTF8); }"
)
"""Schema as manifests have it."""
_NAMES: Final = ["a b+c%.txt", "ü/中文.bam", "new\nline.txt", "tab\there", 'it\'s "quoted"', "100%", "plain.txt"]


class SampleRow(NamedTuple):
    """A row of the sample: an object (with its content), an older version, or a delete marker."""

    key: str
    latest: bool
    marker: bool
    content: bytes


def sample_rows() -> list[SampleRow]:
    """All 300, in their order; those of ``run42/`` are the first 200."""
    return [
        SampleRow(
            key=f"{'run42' if n < 200 else 'other'}/{n:03}/{_NAMES[n % 7]}",
            latest=n % 5 != 2,
            marker=n % 5 == 3,
            content=f"content {n}\n".encode(),
        )
        for n in range(300)
    ]


def manifest_of(bucket: str, files: dict[str, bytes]) -> dict[str, Any]:
    """The manifest of an inventory of a bucket, whose Parquet files (key, content) lie in the bucket itself."""
    return {
        "sourceBucket": bucket,
        "destinationBucket": f"arn:aws:s3:::{bucket}",
        "version": "2016-11-30",
        "creationTimestamp": "1793696400000",
        "fileFormat": "Parquet",
        "fileSchema": SCHEMA,
        "files": [
            {"key": key, "size": len(data), "MD5checksum": hashlib.md5(data, usedforsecurity=False).hexdigest()}
            for key, data in files.items()
        ],
    }


def put_inventory(s3: Any, bucket: str, files: dict[str, bytes]) -> str:
    """Put files and manifest as S3 Inventory lays them out; returns the manifest's address."""
    for key, data in files.items():
        s3.put_object(Bucket=bucket, Key=key, Body=data)
    manifest = json.dumps(manifest_of(bucket, files)).encode()
    folder = "inventory/all/2026-11-23T01-00Z"
    checksum = hashlib.md5(manifest, usedforsecurity=False).hexdigest()
    s3.put_object(Bucket=bucket, Key=f"{folder}/manifest.json", Body=manifest)
    s3.put_object(Bucket=bucket, Key=f"{folder}/manifest.checksum", Body=checksum.encode())
    return f"s3://{bucket}/{folder}/manifest.json"
