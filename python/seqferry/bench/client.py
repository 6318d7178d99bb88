"""The process that boto3 and the AWS Common Runtime (CRT) are measured in: moves all files of one folder, one way, or
copies all objects of a prefix.

Run as ``python -m seqferry.bench.client``; credentials come from the environment. Imports no other module of Seqferry,
so that only the library and the start of Python are measured.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MIB = 1024 * 1024
# The setting of S3Mirror's published measurement.
MIRROR_FILES = 15
MIRROR_REQUESTS = 100
MIRROR_PART = 16 * MIB


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", choices=("plain", "tuned", "crt", "mirror"), required=True)
    parser.add_argument("--direction", choices=("upload", "download", "copy"), required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--source-bucket", help="of a copy")
    parser.add_argument("--source-prefix", help="of a copy")
    parser.add_argument("--endpoint-url")
    parser.add_argument("--region", required=True)
    parser.add_argument("--threads", type=int, default=10)
    parser.add_argument("--part-size", type=int)
    parser.add_argument("--accelerate", action="store_true")
    parser.add_argument("--checksum", help="algorithm of what is sent by the CRT; default: its own choice")
    parser.add_argument("--files", type=int, default=MIRROR_FILES, help="copied at a time")
    parser.add_argument("--share", default="0/1", metavar="K/N", help="copy every N-th object, from the K-th on")
    given = parser.parse_args()
    if given.part_size is None:
        given.part_size = MIRROR_PART if given.method == "mirror" else 8 * MIB
    if given.method == "mirror":
        given.threads = given.files * MIRROR_REQUESTS
    _METHODS[given.method](given)


def _client(given: argparse.Namespace) -> Any:
    boto3: Any = importlib.import_module("boto3")
    config: Any = importlib.import_module("botocore.config")
    settings = config.Config(
        # One connection for each thread, and one for the listing: the default of ten would make threads wait.
        max_pool_connections=max(given.threads + 1, 10),
        s3={"use_accelerate_endpoint": True} if given.accelerate else None,
    )
    return boto3.session.Session().client(
        "s3", endpoint_url=given.endpoint_url, region_name=given.region, config=settings
    )


def _files(given: argparse.Namespace) -> list[str]:
    folder: Path = given.folder
    return sorted(os.listdir(folder))  # noqa: PTH208 - names are what is wanted


def _names(given: argparse.Namespace, client: Any) -> Iterable[str]:
    """Names of the files that are to be downloaded, as the storage lists them."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=given.bucket, Prefix=given.prefix):
        for entry in page.get("Contents", ()):
            yield entry["Key"].removeprefix(given.prefix)


def _plain(given: argparse.Namespace) -> None:
    """Transfers files as boto3's own guide does: one after the other, each with the defaults."""
    client = _client(given)
    transfer: Any = importlib.import_module("boto3.s3.transfer")
    # The default may choose the CRT by itself where awscrt is installed; that is another method here.
    config = transfer.TransferConfig(
        preferred_transfer_client="classic", max_concurrency=given.threads, multipart_chunksize=given.part_size
    )
    if given.direction == "upload":
        for name in _files(given):
            client.upload_file(str(given.folder / name), given.bucket, given.prefix + name, Config=config)
    else:
        for name in _names(given, client):
            client.download_file(given.bucket, given.prefix + name, str(given.folder / name), Config=config)


def _tuned(given: argparse.Namespace) -> None:
    """All files concurrently through one transfer manager."""
    client = _client(given)
    manager: Any = importlib.import_module("s3transfer.manager")
    config = manager.TransferConfig(
        multipart_threshold=given.part_size,
        multipart_chunksize=given.part_size,
        max_request_concurrency=given.threads,
    )
    with manager.TransferManager(client, config) as moving:
        _submit(given, moving, client)


def _mirror(given: argparse.Namespace) -> None:
    """Copies from prefix to prefix: ``--files`` at a time, 100 requests each."""
    client = _client(given)
    transfer: Any = importlib.import_module("boto3.s3.transfer")
    config = transfer.TransferConfig(
        preferred_transfer_client="classic", max_concurrency=MIRROR_REQUESTS, multipart_chunksize=given.part_size
    )
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=given.source_bucket, Prefix=given.source_prefix)
    share, of = map(int, given.share.split("/"))
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())][share::of]

    def copy(key: str) -> None:
        source = {"Bucket": given.source_bucket, "Key": key}
        target = given.prefix + key.removeprefix(given.source_prefix)
        client.copy(source, given.bucket, target, Config=config)

    with ThreadPoolExecutor(given.files) as pool:
        for _ in pool.map(copy, keys):
            pass


def _crt(given: argparse.Namespace) -> None:
    """All files concurrently through the CRT client, which chooses the number of requests.

    It uses the class of s3transfer, since the setting in boto3 supports AWS endpoints only.
    """
    session: Any = importlib.import_module("botocore.session").Session()
    crt: Any = importlib.import_module("s3transfer.crt")
    credentials = crt.BotocoreCRTCredentialsWrapper(session.get_credentials()).to_crt_credentials_provider()
    endpoint = {"endpoint_url": given.endpoint_url, "region_name": given.region}
    moving = crt.CRTTransferManager(
        crt.create_s3_crt_client(
            given.region,
            crt_credentials_provider=credentials,
            part_size=given.part_size,
            use_ssl=not (given.endpoint_url or "").startswith("http://"),
            verify=os.environ.get("AWS_CA_BUNDLE"),
        ),
        crt.BotocoreCRTRequestSerializer(session, endpoint),
    )
    with moving:
        _submit(given, moving, _client(given) if given.direction == "download" else None)


def _submit(given: argparse.Namespace, moving: Any, client: Any) -> None:
    if given.direction == "upload":
        more = {"ChecksumAlgorithm": given.checksum} if given.checksum else {}
        futures = [
            # One of their own for each: they are written to.
            moving.upload(str(given.folder / name), given.bucket, given.prefix + name, extra_args=dict(more))
            for name in _files(given)
        ]
    else:
        futures = [
            moving.download(given.bucket, given.prefix + name, str(given.folder / name))
            for name in _names(given, client)
        ]
    for future in futures:
        future.result()


_METHODS = {"plain": _plain, "tuned": _tuned, "crt": _crt, "mirror": _mirror}

if __name__ == "__main__":
    main()
