"""Buckets with something in them, and a look at what arrived."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from control import MIB

from support.servers import S3Server

SMALL = 1000
MULTIPART = 11 * MIB
"""Three parts of 5 MiB at most."""


def fill(server: S3Server, bucket: str, sizes: Mapping[str, int], rng: random.Random) -> None:
    bodies = {key: rng.randbytes(size) for key, size in sizes.items()}
    with ThreadPoolExecutor(8) as pool:
        # The list raises what a put raised.
        list(pool.map(lambda key: server.client().put_object(Bucket=bucket, Key=key, Body=bodies[key]), bodies))


def digests(server: S3Server, bucket: str, prefix: str = "") -> dict[str, str]:
    """SHA-256 of each object by what follows ``prefix``."""
    client = server.client()
    return {
        key.removeprefix(prefix): hashlib.sha256(client.get_object(Bucket=bucket, Key=key)["Body"].read()).hexdigest()
        for key in keys(server, bucket, prefix)
    }


def keys(server: S3Server, bucket: str, prefix: str = "") -> Iterator[str]:
    for page in server.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", ()):
            yield entry["Key"]


def open_uploads(server: S3Server, bucket: str) -> list[str]:
    found = server.client().list_multipart_uploads(Bucket=bucket)
    return [upload["Key"] for upload in found.get("Uploads", ())]
