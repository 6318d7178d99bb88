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

from support import inventories
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


def test_each_run_of_a_schedule_reads_the_manifest_and_has_its_digest_on_record(cli: Cli, places: Places) -> None:
    places.fill(["a", "b"])
    manifest = _inventory(places, ["a"])
    key = manifest.removeprefix(f"s3://{places.source}/")
    added = cli.run("schedule", "add", "@yearly", "cp", "--files-from", manifest, *places.uris, "--name", "it")
    assert added.code == 0, added.err
    cli.start("worker")

    def run(code: int) -> str:
        transfer = cli.run("schedule", "run", "it").out.strip()
        assert cli.run("watch", transfer).code == code
        return transfer

    digests = list[str]()
    for names in (["a"], ["b"]):
        _inventory(places, names)
        digests.append(hashlib.sha256(places.s3.get_object(Bucket=places.source, Key=key)["Body"].read()).hexdigest())
        assert digests[-1] in cli.run("report", run(0), "--format", "json").out
    assert set(places.content()) == {"a", "b"}
    places.s3.delete_object(Bucket=places.source, Key=key)
    failed = cli.status(run(1))
    assert key in failed["error_message"], failed
    shown = [one for one in cli.run("schedule", "show", "it", "--json").events if one["event"] == "schedule_run"]
    assert [one["list_sha256"] for one in shown] == [None, *reversed(digests)]


def test_an_inventory_in_parquet_lists_the_source(
    cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]
) -> None:
    wanted = [
        row for row in inventories.sample_rows() if row.latest and not row.marker and "run42/" < row.key < "run42/100"
    ]
    for row in wanted:
        places.s3.put_object(Bucket=places.source, Key=row.key, Body=row.content)
    places.s3.put_object(Bucket=places.source, Key="run42/000/unlisted", Body=b"not in the inventory")
    sample = inventories.PARQUET.read_bytes()
    manifest = inventories.put_inventory(places.s3, places.source, {"inventory/all/data/1.parquet": sample})
    proxy = make_proxy(places.server)
    cli.server = proxy.server

    # Of what the inventory lists below 1??/ nothing is there any more.
    ran = cli.run("cp", "--files-from", manifest, "--exclude", "1??/*", *places.uris)

    assert ran.code == 0, ran.err
    assert places.content() == {row.key.removeprefix("run42/"): row.content for row in wanted}
    proxy.wait_idle()
    listed = Counter(record.path for record in proxy.log() if record.operation == "ListObjectsV2")
    assert not any(places.source in path for path in listed)


def test_a_malformed_parquet_file_is_named_in_one_line(cli: Cli, places: Places) -> None:
    sample = inventories.PARQUET.read_bytes()
    key = "inventory/all/data/1.parquet"
    damaged = sample[:40] + bytes(400) + sample[440:]
    for data, why in ((sample[:-3], "Corrupt footer"), (b"key\nrun42/a\n", "Corrupt footer"), (damaged, "row group 1")):
        manifest = inventories.put_inventory(places.s3, places.source, {key: data})

        ran = cli.run("cp", "--files-from", manifest, *places.uris, "--new")

        assert ran.code == 1
        named = [line for line in ran.err.splitlines() if f"s3://{places.source}/{key}: " in line]
        assert len(named) == 1, ran.err
        assert why in named[0], ran.err
        assert "panicked" not in ran.err
        assert "Traceback" not in ran.err
