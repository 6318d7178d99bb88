"""A copy from bucket to bucket with boto3 in S3Mirror's setting: 15 files at a time, 100 requests each, 16 MiB parts.

Run by ``bench_copy.py`` as a process of its own: ``boto3_copy.py ENDPOINT_URL SOURCE_BUCKET TARGET_BUCKET``.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

FILES_AT_A_TIME = 15
REQUESTS_PER_FILE = 100
PART_SIZE = 16 * 1024 * 1024


def main(endpoint_url: str, source: str, target: str) -> None:
    client = boto3.client(
        "s3", endpoint_url=endpoint_url, config=Config(max_pool_connections=FILES_AT_A_TIME * REQUESTS_PER_FILE)
    )
    settings = TransferConfig(max_concurrency=REQUESTS_PER_FILE, multipart_chunksize=PART_SIZE)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=source)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
        copies = [
            pool.submit(client.copy, {"Bucket": source, "Key": key}, target, key, Config=settings) for key in keys
        ]
        for copy in copies:
            copy.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
