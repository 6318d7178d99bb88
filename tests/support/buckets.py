"""Buckets with everything S3 can store in them, and the comparison of two of them byte for byte."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from support.run import ROOT
from support.servers import ADMIN, Credentials, Kind, S3Server

T = TypeVar("T")
R = TypeVar("R")

KIB: Final = 1024
MIB: Final = 1024 * 1024

CLAIM: Final = ".seqferry-share"
"""Name of the object at the top of a share that is written: the claim of its gateway, which is no file of the share."""
PROBES: Final = (".seqferry-probe", ".seqferry-probe-copy")
"""Names of the objects there that show whether a service keeps conditions. A bucket keeps their versions."""

_ODD_KEYS: Final = ROOT / "crates" / "testkit" / "odd_keys.json"
_PARALLEL: Final = 8
_CHUNK: Final = MIB

# Properties of objects that a server never keeps, each with the reason: ``fill`` leaves them out there.
UNFIT: Final[dict[Kind, dict[str, str]]] = {
    "versitygw": {},
    "seaweedfs": {},
}

# Headers of an object that a copy keeps, as boto3 names them.
CONTENT_HEADERS: Final = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "ExpiresString",
    "WebsiteRedirectLocation",
)


@dataclass(frozen=True, slots=True)
class FilledObject:
    """One object that ``fill`` wrote."""

    key: str
    size: int


@dataclass(frozen=True)
class StoredObject:
    """One object read back."""

    size: int
    sha256: str
    headers: dict[str, str]
    metadata: dict[str, str]
    tags: dict[str, str]
    storage_class: str


def odd_keys(kind: Kind | None) -> list[str]:
    """Keys that break naive code, to be written many at a time.

    Those are left out that a server of this kind refuses, takes for others, or loses when they are written at once.
    """
    keys: list[str] = []
    for entry in json.loads(_ODD_KEYS.read_text(encoding="utf-8")):
        if kind is not None and (kind in entry.get("unfit", {}) or kind in entry.get("unfit_at_once", {})):
            continue
        repeat = entry.get("repeat")
        keys += [repeat["text"] * repeat["times"] + repeat["end"]] if repeat else entry["keys"]
    return keys


@dataclass(frozen=True)
class Shape:
    """What ``fill`` makes.

    The sizes come first, one object each; then odd keys of a few bytes; then small objects up to ``objects`` in all.
    """

    objects: int = 60
    sizes: Sequence[int] = (0, 1, 64 * KIB)
    odd: bool = True
    prefix: str = ""
    largest_small: int = 8 * KIB
    dressed: float = 0.5
    """Share of the objects that carry metadata, content headers and tags."""


@dataclass
class _Maker:
    rng: random.Random
    unfit: dict[str, str] = field(default_factory=dict)

    def dress(self) -> dict[str, Any]:
        """Arguments of ``put_object`` for metadata, headers and tags; some of each may be missing."""
        rng = self.rng
        options: dict[str, Any] = {
            "ContentType": rng.choice(["application/gzip", "text/plain; charset=utf-8", "application/x-bam"]),
            "CacheControl": f"max-age={rng.randrange(10_000)}",
            "ContentDisposition": f'attachment; filename="run {rng.randrange(100)}.gz"',
            "ContentEncoding": "gzip",
            "ContentLanguage": rng.choice(["de", "en-GB"]),
            "Expires": "Wed, 21 Oct 2037 07:28:00 GMT",
            "Metadata": {
                "md5": rng.randbytes(16).hex(),
                "sample-id": f"S{rng.randrange(10_000):05d}",
                "note": "a value with spaces, commas; and = signs",
            },
            "Tagging": urlencode({"project": f"p{rng.randrange(9)}", "über": "ä ö+ü/=:@", "empty": ""}),
        }
        chosen = {name: value for name, value in options.items() if rng.random() < 0.8}
        return {name: value for name, value in chosen.items() if name not in self.unfit}


def fill(server: S3Server, bucket: str, rng: random.Random, shape: Shape | None = None) -> list[FilledObject]:
    """Writes objects as ``mover``; the same ``rng`` state and shape give the same bucket."""
    shape = shape or Shape()
    maker = _Maker(rng, UNFIT[server.kind])
    plan: list[tuple[str, int]] = [(f"sized/{size:012d}.bin", size) for size in shape.sizes]
    if shape.odd:
        plan += [(f"odd/{key}", rng.randrange(1, 2 * KIB)) for key in odd_keys(server.kind)]
    plan += [
        (f"lane{n % 4}/sample_{n:05d}_R{1 + n % 2}.fastq.gz", rng.randrange(shape.largest_small + 1))
        for n in range(shape.objects - len(plan))
    ]
    jobs = [
        (shape.prefix + key, size, rng.getrandbits(64), maker.dress() if rng.random() < shape.dressed else {})
        for key, size in plan
    ]
    client = server.client(server.user)

    def put(job: tuple[str, int, int, dict[str, Any]]) -> FilledObject:
        key, size, seed, options = job
        client.put_object(Bucket=bucket, Key=key, Body=random.Random(seed).randbytes(size), **options)
        return FilledObject(key, size)

    return _each(put, jobs)


def keys(server: S3Server, bucket: str, prefix: str = "") -> list[str]:
    """All keys in the order of the server's listing."""
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


def snapshot(server: S3Server, bucket: str, prefix: str = "") -> dict[str, StoredObject]:
    """Every object below ``prefix``, read back whole with boto3; keys without the prefix."""
    client = server.client()

    def read(key: str) -> tuple[str, StoredObject]:
        reply = client.get_object(Bucket=bucket, Key=key)
        digest = hashlib.sha256()
        size = 0
        for chunk in reply["Body"].iter_chunks(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
        tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        stored = StoredObject(
            size=size,
            sha256=digest.hexdigest(),
            headers={name: _header(name, reply[name]) for name in CONTENT_HEADERS if reply.get(name)},
            metadata=dict(reply["Metadata"]),
            tags={tag["Key"]: tag["Value"] for tag in tags},
            storage_class=reply.get("StorageClass", "STANDARD"),
        )
        return key[len(prefix) :], stored

    return dict(_each(read, keys(server, bucket, prefix)))


def _header(name: str, value: str) -> str:
    # versitygw keeps the token that a client's own framing put there.
    if name == "ContentEncoding":
        return ",".join(token for token in value.split(",") if token.strip() != "aws-chunked")
    return value


def differences(expected: dict[str, StoredObject], actual: dict[str, StoredObject]) -> list[str]:
    """One sentence for each difference between two snapshots; empty when they are identical in all respects."""
    found = [f"{key!r} is missing" for key in sorted(expected.keys() - actual.keys())]
    found += [f"{key!r} should not be there" for key in sorted(actual.keys() - expected.keys())]
    for key in sorted(expected.keys() & actual.keys()):
        for name in StoredObject.__dataclass_fields__:
            wanted, got = getattr(expected[key], name), getattr(actual[key], name)
            if wanted != got:
                found.append(f"{key!r} has {name} {got!r} instead of {wanted!r}")
    return found


def assert_same(
    server: S3Server, source: str, target: str, *, source_prefix: str = "", target_prefix: str = ""
) -> None:
    """Two buckets (or prefixes) hold the same keys, bytes, metadata, content headers, tags and storage classes."""
    found = differences(snapshot(server, source, source_prefix), snapshot(server, target, target_prefix))
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:20])


def open_uploads(server: S3Server, bucket: str) -> list[tuple[str, str]]:
    """Key and id of every multipart upload that was neither completed nor aborted."""
    pages = server.client().get_paginator("list_multipart_uploads").paginate(Bucket=bucket)
    return [(upload["Key"], upload["UploadId"]) for page in pages for upload in page.get("Uploads", ())]


def open_parts(server: S3Server, bucket: str, prefix: str) -> int:
    """Number of parts of open uploads whose keys start with a prefix."""
    uploads = [(key, upload) for key, upload in open_uploads(server, bucket) if key.startswith(prefix)]
    listed = (server.client().list_parts(Bucket=bucket, Key=key, UploadId=upload) for key, upload in uploads)
    return sum(len(one.get("Parts", [])) for one in listed)


def _each(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(pool.map(function, items))


def is_file(key: str) -> bool:
    """True for the key of a file of a share: neither a folder marker nor a claim."""
    return not key.endswith("/") and key.rpartition("/")[2] != CLAIM


def file_keys(server: S3Server, bucket: str, prefix: str = "", *, credentials: Credentials = ADMIN) -> list[str]:
    """Keys of the files of shares below ``prefix``, as one listing has them."""
    listed = server.client(credentials).list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
    return [entry["Key"] for entry in listed if is_file(entry["Key"])]


def bodies(server: S3Server, bucket: str, *, credentials: Credentials = ADMIN) -> dict[str, bytes]:
    """The files of shares in a bucket, read back by another program than ours."""
    client = server.client(credentials)
    found: dict[str, bytes] = {}
    for key in file_keys(server, bucket, credentials=credentials):
        # A gateway removes its probe at any time: what goes between listing and reading is not there.
        with suppress(client.exceptions.NoSuchKey):
            found[key] = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    return found
