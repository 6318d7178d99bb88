"""S3 Inventory as the list of a source: the manifest, and the rows of its CSV or Parquet files, in bounded memory.

A file is fetched to the disk, compared with the MD5 of the manifest, and read row by row; then it is removed.

Invariant: no row is passed over but those of other prefixes, older versions and delete markers; a file that
is not what the manifest says is never read.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import unquote_plus

from seqferry.engine import executor
from seqferry.engine.engine import CopyItem, Engine, JobContext, Listed, ObjectInfo
from seqferry.engine.inventories import inventory_rows
from seqferry.engine.native_calls import storage_error
from seqferry.model.errors import StorageError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.model.option_groups import Selection
from seqferry.settings.scratch import scratch_folder
from seqferry.spec.addresses import parse_uri

_PAGE: Final = 1000
_MOST_MANIFEST: Final = 64 * 1024 * 1024
"""Bytes of a manifest: some 100 for each of its files, which hold millions of objects."""
_CHUNK: Final = 1024 * 1024
_WAIT_SECONDS: Final = 0.5
_ARN: Final = "arn:aws:s3:::"
_LONGEST_FIELD: Final = 64 * 1024
_PARQUET_COLUMN: Final = re.compile(r"(?:required|optional)\s+\w+\s+(\w+)")
"""Column in the schema of a manifest: ``optional binary e_tag (UTF8);``."""
_PARQUET_COLUMNS: Final = (
    "key",
    "size",
    "e_tag",
    "last_modified_date",
    "storage_class",
    "is_latest",
    "is_delete_marker",
)
"""Columns that are read, by their names in the files."""


@frozen
class DataFile:
    key: str
    md5: str


@frozen
class Manifest:
    """Manifest of an inventory.

    Attributes:
        place: the bucket of the inventory, reached as the source is.
        columns: of the files, in lower case and without underscores.
        sha256: of the manifest, in hexadecimal.
    """

    place: S3Location
    columns: tuple[str, ...]
    files: tuple[DataFile, ...]
    form: Literal["CSV", "Parquet"] = "CSV"
    sha256: str = ""


@frozen
class Row:
    """An object as an inventory shows it; the fields are those of ``ObjectInfo``."""

    key: str
    size: int
    etag: str
    last_modified: float
    version_id: str | None = None
    storage_class: str | None = None
    refusal: tuple[str, str] | None = None


def manifest_location(spec: ResolvedSpec) -> S3Location:
    """The place of the manifest: reached as the source is."""
    assert spec.inventory is not None
    assert isinstance(spec.source, S3Location)
    bucket, key = parse_uri(spec.inventory)
    return replace(spec.source, bucket=bucket, key=key)


def inventory_prefix(key: str) -> str:
    """The prefix of an inventory, which holds its manifests and its data, by the key of a manifest."""
    return "".join(f"{part}/" for part in key.split("/")[:-2])


def read_manifest(engine: Engine, spec: ResolvedSpec, own: str | None = None) -> Manifest:
    """Read and check the manifest. ``own`` is the state folder, through which it is fetched.

    Raises:
        UsageError: no manifest is there, or it is of another bucket, or of a format that is not read.
        StorageError: the manifest cannot be read.
    """
    place = manifest_location(spec)
    with _folder(own) as folder:
        data = _fetch(engine, place, place.key, folder, most=_MOST_MANIFEST).read_bytes()
    return parse_manifest(data, place, spec.source.container)


@contextmanager
def _folder(own: str | None) -> Generator[Path]:
    if own is not None:
        with scratch_folder(Path(own), "inventory") as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="seqferry-inventory-") as folder:
        yield Path(folder)


def parse_manifest(data: bytes, place: S3Location, source_bucket: str) -> Manifest:
    """A manifest of an inventory of ``source_bucket``; see ``manifest``."""

    def fault(why: str) -> UsageError:
        return UsageError(f"{place.uri} is not a manifest that can be used: {why}.").about("inventory")

    try:
        found: Any = json.loads(data)
        form, bucket = str(found["fileFormat"]), str(found["sourceBucket"])
        schema, files = str(found["fileSchema"]), list(found["files"])
        destination = str(found["destinationBucket"]).removeprefix(_ARN)
        named = [DataFile(str(one["key"]), str(one["MD5checksum"]).lower()) for one in files]
    except ValueError as why:
        raise fault(f"no JSON ({why})") from None
    except (KeyError, TypeError) as why:
        raise fault(f"it lacks {why}") from None
    if form not in ("CSV", "Parquet"):
        other = "make an inventory in CSV or Parquet, or write its keys into a list (--files-from)"
        raise fault(f"its files are {form}, which is not read; {other}")
    if bucket != source_bucket:
        raise fault(f"it is of the bucket {bucket}, and the source is in {source_bucket}")
    if destination != place.bucket:
        raise fault(f"its files are in the bucket {destination}; give the manifest that lies there")
    outside = next((one.key for one in named if not one.key.startswith(inventory_prefix(place.key))), None)
    if outside is not None:
        raise fault(f"its file {outside} does not lie below {place.at(inventory_prefix(place.key))}")
    named_columns = schema.split(",") if form == "CSV" else _PARQUET_COLUMN.findall(schema)
    columns = tuple(str(column).strip().lower().replace("_", "") for column in named_columns)
    if "key" not in columns:
        raise fault("it has no column Key")
    return Manifest(place, columns, tuple(named), form, hashlib.sha256(data).hexdigest())


def list_objects(
    engine: Engine,
    spec: ResolvedSpec,
    own: str | None = None,
    manifest_read: Callable[[str], None] | None = None,
) -> Iterator[Sequence[Listed]]:
    """Pages of the objects of the inventory below the source, empty ones while a file is fetched.

    What an inventory without sizes or ETags names is looked up; what cannot be is a ``FailedLookup`` of its page.
    ``manifest_read`` is called with the SHA-256 of the manifest before the first page.

    Raises:
        StorageError: a file cannot be read, or is not what the manifest says.
        UsageError: as ``manifest``.
    """
    found = read_manifest(engine, spec, own)
    if manifest_read is not None:
        manifest_read(found.sha256)
    known = {"size", "etag"} <= {*found.columns}
    for one in found.files:
        with _folder(own) as folder:
            path = _fetch(engine, found.place, one.key, folder)
            yield []
            _check(path, one, found.place)
            for page in _pages(read_rows(path, found, found.place.at(one.key)), spec.source.key):
                if known:
                    yield [cast("ObjectInfo", row) for row in page]
                    continue
                yield engine.head_each(spec.source, [row.key for row in page])


def _pages(found: Iterator[Row], prefix: str) -> Iterator[list[Row]]:
    page: list[Row] = []
    for row in found:
        if row.key.startswith(prefix):
            page.append(row)
            if len(page) == _PAGE:
                yield page
                page = []
    if page:
        yield page


def read_rows(path: Path, of: Manifest, name: str) -> Iterator[Row]:
    """The current objects of a file.

    Raises:
        StorageError: a row is malformed; it is named by file, line (or row) and column.
    """
    if of.form == "Parquet":
        yield from _rows_of_parquet(path, of, name)
        return
    place = {column: at for at, column in enumerate(of.columns)}
    csv.field_size_limit(_LONGEST_FIELD)
    line = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text, strict=True)
            for values in reader:
                line = reader.line_num
                if len(values) != len(of.columns):
                    raise _format_error(
                        name, line, f"it has {len(values)} columns, and the manifest names {len(of.columns)}"
                    )
                row = {column: values[at] for column, at in place.items()}
                if row.get("islatest", "true") == "false" or row.get("isdeletemarker", "false") == "true":
                    continue
                yield _row(row, name, line)
    except csv.Error as why:
        raise _format_error(name, line + 1, f"{why}") from None
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as why:
        raise _format_error(name, line + 1, f"it cannot be unpacked ({why})") from None


def _row(row: dict[str, str], name: str, line: int) -> Row:
    column = "size"
    try:
        size = int(row.get("size") or 0)
        column = "lastmodifieddate"
        modified = row.get("lastmodifieddate")
        time_ = 0.0 if not modified else datetime.fromisoformat(modified).timestamp()
    except ValueError:
        raise _format_error(name, line, f"column {column}: '{row[column]}'") from None
    # A version id here would pin the copy to it, which takes a permission of its own; the ETag does as well.
    return Row(
        key=unquote_plus(row["key"], errors="surrogateescape"),
        size=size,
        etag=(row.get("etag") or "").strip('"'),
        last_modified=time_,
        storage_class=row.get("storageclass") or None,
    )


def _rows_of_parquet(path: Path, of: Manifest, name: str) -> Iterator[Row]:
    needed = {column for column in _PARQUET_COLUMNS if column.replace("_", "") in of.columns}
    try:
        for row in inventory_rows(path, _PAGE, needed):
            if row.is_latest is False or row.is_delete_marker:
                continue
            yield Row(
                key=row.key,
                size=row.size or 0,
                etag=row.etag or "",
                last_modified=0.0 if row.modified is None else row.modified / 1000,
                storage_class=row.storage_class or None,
            )
    except ValueError as why:
        text = f"{name}: {why}. Make the inventory anew."
        raise StorageError(text, "person", "MalformedInventory", "read inventory", True) from None


def _format_error(name: str, line: int, why: str) -> StorageError:
    return StorageError(f"{name}, line {line}: {why}.", "person", "MalformedInventory", "read inventory", True)


def _check(path: Path, one: DataFile, place: S3Location) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != one.md5:
        why = f"its MD5 is {digest.hexdigest()}, and the manifest says {one.md5}"
        text = f"{place.at(one.key)} is not the file of this inventory: {why}. Make the inventory anew."
        raise StorageError(text, "person", "MalformedInventory", "read inventory", True)


def _fetch(engine: Engine, place: S3Location, key: str, folder: Path, most: int | None = None) -> Path:
    """A file of the inventory on the disk, verified on the way."""
    info = engine.head(place, [key])[0]
    if info is None:
        raise UsageError(f"There is no object {place.at(key)}, and the inventory needs it.").about("inventory")
    if most is not None and info.size > most:
        raise UsageError(f"{place.at(key)} has {info.size} bytes, which is too much for a manifest.").about("inventory")
    # The place is that of a resolved spec.
    spec = ResolvedSpec.of(
        TransferSpec(
            replace(place, key=key),
            LocalFolder(str(folder.resolve()), "data"),
            strip=key,
            single=True,
            selection=Selection("overwrite"),
        )
    )
    item = CopyItem(id=1, source_key=key, target_key="data", size=info.size, etag=info.etag, target_absent=True)
    job = engine.start(spec, [item], JobContext("", time.time()))

    def record(events: executor.Events) -> Sequence[int]:
        for row in executor.rows(events):
            if failed := row["error_message"]:
                raise StorageError(f"{failed}", "person", "InventoryUnreadable", "read inventory", True)
        return executor.record_nothing(events)

    executor.execute(job, lambda: _WAIT_SECONDS, record)
    if (failure := job.failure()) is not None:
        raise storage_error(failure)
    return folder / "data"
