"""``--files-from`` with the manifest of an S3 Inventory: what it lists is copied, and the source is not listed."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable
from urllib.parse import quote_plus

from cli_process import Cli, Places

from support.proxy import Proxy
from support.servers import S3Server


def _inventory(places: Places, names: list[str]) -> str:
    """Writes an inventory of these objects into the bucket of the source; the address of its manifest."""
    rows = io.StringIO()
    writer = csv.writer(rows, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for name in names:
        head = places.s3.head_object(Bucket=places.source, Key=f"run42/{name}")
        moment = head["LastModified"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
        key = quote_plus(f"run42/{name}", safe="/")
        writer.writerow([places.source, key, head["ContentLength"], moment, head["ETag"].strip('"')])
    data = gzip.compress(rows.getvalue().encode(), mtime=0)
    places.s3.put_object(Bucket=places.source, Key="inventory/all/data/1.csv.gz", Body=data)
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    manifest = {
        "sourceBucket": places.source,
        "destinationBucket": f"arn:aws:s3:::{places.source}",
        "fileFormat": "CSV",
        "fileSchema": "Bucket, Key, Size, LastModifiedDate, ETag",
        "files": [{"key": "inventory/all/data/1.csv.gz", "MD5checksum": digest}],
    }
    key = "inventory/all/2026-11-23T01-00Z/manifest.json"
    places.s3.put_object(Bucket=places.source, Key=key, Body=json.dumps(manifest).encode())
    return f"s3://{places.source}/{key}"


def test_what_an_inventory_lists_is_copied_without_a_listing(
    cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]
) -> None:
    places.fill(["a b.txt", "c+d.txt", "e.log", "unlisted"])
    manifest = _inventory(places, ["a b.txt", "c+d.txt", "e.log"])
    proxy = make_proxy(places.server)
    cli.server = proxy.server

    ran = cli.run("cp", "--files-from", manifest, "--exclude", "*.log", *places.uris)

    assert ran.code == 0, ran.err
    assert set(places.content()) == {"a b.txt", "c+d.txt"}
    proxy.wait_idle()
    listed = Counter(record.path for record in proxy.log() if record.operation == "ListObjectsV2")
    assert not any(places.source in path for path in listed)

    places.s3.put_object(Bucket=places.source, Key="inventory/all/data/1.csv.gz", Body=b"damaged")
    damaged = cli.run("cp", "--files-from", manifest, *places.uris, "--new")
    assert damaged.code == 1
    assert "is not the file of this inventory" in damaged.err
    missing = cli.run("cp", "--files-from", manifest.replace("01-00Z", "02-00Z"), *places.uris, "--new")
    assert missing.code == 2
    assert "02-00Z/manifest.json" in missing.err
