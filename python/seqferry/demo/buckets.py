"""Access to the demo's buckets with boto3: an independent client, so that the code on show does not prove itself."""

from __future__ import annotations

import hashlib
import importlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from seqferry.demo.delivery import MIB, SUMS_NAME, DeliveryFile, DeliveryReader, parse_sums, sums_text
from seqferry.model.errors import ConfigError
from seqferry.model.frozen import frozen

_WRITABLE_DEADLINE: Final = 30.0
_READERS: Final = 4
_READ: Final = 1 * MIB


@frozen
class SeenObject:
    """An object as the storage shows it. A second copy would give it a newer date."""

    size: int
    etag: str
    last_modified: float


@frozen
class OpenUpload:
    """A multipart upload that was begun and is neither completed nor aborted."""

    name: str
    upload_id: str
    parts: int
    bytes: int


class Buckets:
    def __init__(self, endpoint_url: str, credentials: dict[str, str]) -> None:
        """Raises ConfigError when boto3 is not installed."""
        try:
            boto3: Any = importlib.import_module("boto3")
            config: Any = importlib.import_module("botocore.config")
            errors: Any = importlib.import_module("botocore.exceptions")
            transfer: Any = importlib.import_module("boto3.s3.transfer")
        except ImportError:
            raise ConfigError("The demo needs boto3. Install it with: pip install 'seqferry[demo]'") from None
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint_url,
            aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
            region_name=credentials["AWS_REGION"],
            config=config.Config(max_pool_connections=_READERS * 2, retries={"max_attempts": 5}),
        )
        self._errors: Any = (errors.ClientError, errors.BotoCoreError)
        self._upload: Any = transfer.TransferConfig(
            multipart_threshold=64 * MIB, multipart_chunksize=16 * MIB, max_concurrency=2
        )

    def make(self, bucket: str) -> None:
        """Create a bucket and wait until it takes objects: the server answers before it can store anything."""
        self._client.create_bucket(Bucket=bucket)
        deadline = time.monotonic() + _WRITABLE_DEADLINE
        while True:
            try:
                self._client.put_object(Bucket=bucket, Key="ready", Body=b"")
                break
            except self._errors:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self._client.delete_object(Bucket=bucket, Key="ready")

    def deliver(
        self, files: Iterable[DeliveryFile], bucket: str, prefix: str, *, progress: Callable[[int, int], None]
    ) -> tuple[int, int]:
        """Write the delivery and its ``md5sum.txt``; returns objects and bytes."""
        sums: dict[str, str] = {}
        total = 0
        for file in files:
            reader = DeliveryReader(file)
            self._client.upload_fileobj(
                reader,
                bucket,
                prefix + file.name,
                ExtraArgs={"Metadata": {"delivered-by": "demo-core"}},
                Config=self._upload,
            )
            sums[file.name] = reader.md5()
            total += file.size
            progress(len(sums), total)
        text = sums_text(sums).encode()
        self._client.put_object(Bucket=bucket, Key=prefix + SUMS_NAME, Body=text, ContentType="text/plain")
        return len(sums) + 1, total + len(text)

    def look(self, bucket: str, prefix: str) -> dict[str, SeenObject]:
        """All objects under ``prefix``, by name below it."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {
            each["Key"].removeprefix(prefix): SeenObject(each["Size"], each["ETag"], each["LastModified"].timestamp())
            for page in pages
            for each in page.get("Contents", [])
        }

    def open_uploads(self, bucket: str, prefix: str) -> list[OpenUpload]:
        found: list[OpenUpload] = []
        for page in self._client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix):
            for upload in page.get("Uploads", []):
                pages = self._client.get_paginator("list_parts").paginate(
                    Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )
                try:
                    sizes = [part["Size"] for answer in pages for part in answer.get("Parts", [])]
                except self._client.exceptions.NoSuchUpload:
                    continue  # completed since it was listed
                name = upload["Key"].removeprefix(prefix)
                found.append(OpenUpload(name, upload["UploadId"], len(sizes), sum(sizes)))
        return found

    def verify(self, bucket: str, prefix: str) -> tuple[int, int, list[str]]:
        """Read every object back and hold it against ``md5sum.txt``.

        Returns:
            Objects and bytes read, and one sentence per object that is not as it should be.
        """
        sums = parse_sums(self._client.get_object(Bucket=bucket, Key=prefix + SUMS_NAME)["Body"].read().decode())
        there = self.look(bucket, prefix)
        wrong = [f"{name} is missing" for name in sums if name not in there]
        wrong += [f"{name} is not in {SUMS_NAME}" for name in there if name not in sums and name != SUMS_NAME]
        names = [name for name in sums if name in there]

        def md5(name: str) -> str:
            return self._md5(bucket, prefix + name)

        with ThreadPoolExecutor(_READERS) as readers:
            digests = list(readers.map(md5, names))
        wrong += [
            f"{name} has MD5 {digest}, not {sums[name]}"
            for name, digest in zip(names, digests, strict=True)
            if digest != sums[name]
        ]
        return len(names) + 1, sum(seen.size for seen in there.values()), wrong

    def _md5(self, bucket: str, key: str) -> str:
        md5 = hashlib.md5(usedforsecurity=False)
        for piece in self._client.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(_READ):
            md5.update(piece)
        return md5.hexdigest()
