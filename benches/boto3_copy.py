"""A copy from bucket to bucket with boto3 in S3Mirror's setting: 15 files at a time, 100 requests each, 16 MiB parts.

Run by the benches as a process of its own. With ``--share K/N`` it is one of N workers, which takes every N-th file.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

REQUESTS_PER_FILE = 100
PART_SIZE = 16 * 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint_url")
    parser.add_argument("source", help="bucket")
    parser.add_argument("target", help="bucket")
    parser.add_argument("--files", type=int, default=15, help="at a time")
    parser.add_argument("--share", default="0/1", metavar="K/N")
    options = parser.parse_args()
    share, of = map(int, options.share.split("/"))

    config = Config(max_pool_connections=options.files * REQUESTS_PER_FILE)
    client = boto3.client("s3", endpoint_url=options.endpoint_url, config=config)
    settings = TransferConfig(max_concurrency=REQUESTS_PER_FILE, multipart_chunksize=PART_SIZE)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=options.source)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())][share::of]
    with ThreadPoolExecutor(options.files) as pool:
        copies = [
            pool.submit(client.copy, {"Bucket": options.source, "Key": key}, options.target, key, Config=settings)
            for key in keys
        ]
        for copy in copies:
            copy.result()


if __name__ == "__main__":
    main()
