"""An independent client of the bucket: boto3 prepares, reads back and removes objects, outside of all measured time.

All objects are below one new prefix, to which no other client writes, so that removing the prefix removes them all.
Credentials are resolved once, by boto3's own chain, and passed to every method as environment variables. No output
contains them.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from seqferry.model.errors import ConfigError, SeqferryError, StorageError, UsageError
from seqferry.model.frozen import frozen

CONNECTIONS: Final = 16
_DELETED_TOGETHER: Final = 1000
"""Keys in one request: S3's limit."""
_PASSES: Final = 5
_SETTLE: Final = 1.0
"""Seconds between two listings of the rest: a request of a client that was killed may still take effect."""
NEEDS_BOTO3: Final = "seqferry bench needs boto3. Install it with: pip install 'seqferry[bench]'"


@frozen
class BenchPrefix:
    """Bucket, prefix and endpoint of the objects of one bench. Holds no secret."""

    bucket: str
    prefix: str
    """Prefix of this bench alone; ends with a slash."""
    endpoint_url: str | None
    """None: AWS, by its own rules."""
    region: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


@frozen
class Acceleration:
    """Availability of S3 Transfer Acceleration, with the reason."""

    available: bool
    why: str
    """One line for the user."""


class Storage:
    """A bucket and the client for it. Made by ``connect``."""

    def __init__(self, place: BenchPrefix, client: Any, credentials: Any) -> None:
        self.place = place
        self._client = client
        self._credentials = credentials

    def environment(self) -> dict[str, str]:
        """Variables with which any AWS client may use the bucket as we do; renewed where they run out."""
        frozen = self._credentials.get_frozen_credentials()
        found = {
            "AWS_ACCESS_KEY_ID": str(frozen.access_key),
            "AWS_SECRET_ACCESS_KEY": str(frozen.secret_key),
            "AWS_REGION": self.place.region,
            "AWS_DEFAULT_REGION": self.place.region,
        }
        if frozen.token:
            found["AWS_SESSION_TOKEN"] = str(frozen.token)
        return found

    def acceleration(self) -> Acceleration:
        """Asks the bucket whether Transfer Acceleration is on; sends no request where it cannot be."""
        if self.place.endpoint_url is not None:
            return Acceleration(available=False, why="Transfer Acceleration is left out: it is a feature of AWS alone.")
        if "." in self.place.bucket:
            return Acceleration(
                available=False, why="Transfer Acceleration is left out: it takes no bucket with a dot in its name."
            )
        try:
            answer = self._client.get_bucket_accelerate_configuration(Bucket=self.place.bucket)
        except _errors() as error:
            return Acceleration(
                available=False,
                why=f"Transfer Acceleration is left out: whether the bucket has it is not known ({_message(error)}).",
            )
        if answer.get("Status") != "Enabled":
            return Acceleration(
                available=False,
                why="Transfer Acceleration is left out: it is not enabled on this bucket "
                "(PutBucketAccelerateConfiguration enables it; it costs extra).",
            )
        return Acceleration(available=True, why="Transfer Acceleration is enabled on this bucket.")

    def put(self, folder: Path, names: Iterable[str], below: str) -> None:
        """Writes files as objects below ``below``, which begins with the bench's prefix.

        Raises:
            StorageError: the storage refused one of them.
        """
        transfer: Any = importlib.import_module("boto3.s3.transfer")
        config = transfer.TransferConfig(preferred_transfer_client="classic", max_concurrency=CONNECTIONS // 4)

        def one(name: str) -> None:
            self._client.upload_file(str(folder / name), self.place.bucket, below + name, Config=config)

        with ThreadPoolExecutor(4) as pool:
            try:
                for _ in pool.map(one, names):
                    pass
            except _errors() as error:
                pool.shutdown(cancel_futures=True)
                raise self._request_error("PutObject", below, error) from None

    def listing(self, below: str, most: int | None = None) -> dict[str, int]:
        """Sizes by key, of all below ``below``, or of the first ``most``.

        Raises:
            StorageError: the objects cannot be listed.
        """
        try:
            return {key: size for key, size, _ in islice(self._objects(below), most)}
        except _errors() as error:
            raise self._request_error("ListObjectsV2", below, error) from None

    def read(self, key: str, start: int, length: int) -> bytes:
        """A range of an object; more or fewer bytes than requested if the storage sent so many.

        Raises:
            StorageError: the object cannot be read.
        """
        try:
            answer = self._client.get_object(
                Bucket=self.place.bucket, Key=key, Range=f"bytes={start}-{start + length - 1}"
            )
            # One more byte than requested detects a storage that ignores ranges, without reading the whole answer.
            return answer["Body"].read(length + 1)
        except _errors() as error:
            raise self._request_error("GetObject", key, error) from None

    def remove(self, below: str) -> None:
        """Removes all below ``below``: objects, their versions, and unfinished uploads, until nothing is left.

        Raises:
            StorageError: something could not be removed.
        """
        if not below.startswith(self.place.prefix):
            raise ValueError(f"{below} is not the bench's own")
        try:
            for turn in range(_PASSES):
                if turn:
                    time.sleep(_SETTLE)
                if not self._remove_once(below) and turn:
                    return
                if not turn and not self._is_anything_left(below):
                    return
        except _errors() as error:
            raise self._request_error("DeleteObjects", below, error) from None
        if self._is_anything_left(below):
            raise StorageError(f"s3://{self.place.bucket}/{below}: objects or uploads are there again and again.")

    # Some servers list more than the keys below the prefix (SeaweedFS, unfinished uploads), so each key is checked.

    def _is_anything_left(self, below: str) -> bool:
        return next(self._uploads(below), None) is not None or next(self._objects(below), None) is not None

    def _remove_once(self, below: str) -> bool:
        """Removes all that one listing shows; True when it showed anything."""
        found = False
        for key, upload_id in list(self._uploads(below)):
            found = True
            try:
                self._client.abort_multipart_upload(Bucket=self.place.bucket, Key=key, UploadId=upload_id)
            except _errors() as error:
                if _code(error) != "NoSuchUpload":
                    raise
        doomed: list[dict[str, str]] = []
        for entry in self._versions(below):
            found = True
            doomed.append(entry)
            if len(doomed) == _DELETED_TOGETHER:
                self._delete(doomed)
                doomed = []
        if doomed:
            self._delete(doomed)
        return found

    def _delete(self, doomed: list[dict[str, str]]) -> None:
        answer = self._client.delete_objects(Bucket=self.place.bucket, Delete={"Objects": doomed, "Quiet": True})
        for error in answer.get("Errors", ()):
            if error.get("Code") != "NoSuchKey":
                raise StorageError(
                    f"DeleteObjects s3://{self.place.bucket}/{error.get('Key')}: {error.get('Code')}: "
                    f"{error.get('Message')}."
                )

    def _versions(self, below: str) -> Iterator[dict[str, str]]:
        """Entries of a removal: each version and delete marker, or each object where versions cannot be listed."""
        pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self.place.bucket, Prefix=below)
        try:
            for page in pages:
                for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                    if entry["Key"].startswith(below):
                        yield {"Key": entry["Key"], "VersionId": entry["VersionId"]}
        except _errors() as error:
            if _code(error) not in {"AccessDenied", "NotImplemented", "MethodNotAllowed"}:
                raise
            for key, _, _ in self._objects(below):
                yield {"Key": key}

    def _objects(self, below: str) -> Iterator[tuple[str, int, str]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.place.bucket, Prefix=below)
        for page in pages:
            for entry in page.get("Contents", ()):
                if entry["Key"].startswith(below):
                    yield entry["Key"], entry["Size"], entry["ETag"]

    def _uploads(self, below: str) -> Iterator[tuple[str, str]]:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self.place.bucket, Prefix=below)
        for page in pages:
            for entry in page.get("Uploads", ()):
                if entry["Key"].startswith(below):
                    yield entry["Key"], entry["UploadId"]

    def _request_error(self, operation: str, key: str, error: Exception) -> SeqferryError:
        return StorageError(f"{operation} s3://{self.place.bucket}/{key}: {_message(error)}.", operation=operation)


def connect(bucket: str, prefix: str, *, endpoint_url: str | None, profile: str | None, region: str | None) -> Storage:
    """The bucket, found and reachable, with credentials.

    Args:
        prefix: of this bench alone.

    Raises:
        ConfigError: boto3, credentials, the profile or the region are missing.
        UsageError: the endpoint is not a valid URL.
        StorageError: the bucket cannot be used.
    """
    if endpoint_url is not None:
        _check_endpoint(endpoint_url)
    try:
        boto3: Any = importlib.import_module("boto3")
        config: Any = importlib.import_module("botocore.config")
    except ImportError:
        raise ConfigError(NEEDS_BOTO3) from None
    try:
        session = boto3.session.Session(profile_name=profile, region_name=region)
        settings = config.Config(
            max_pool_connections=CONNECTIONS * 2,
            retries={"mode": "standard", "max_attempts": 5},
            user_agent_extra="seqferry-bench",
        )
        client = session.client("s3", endpoint_url=endpoint_url, config=settings)
        credentials = session.get_credentials()
    except (*_errors(), ValueError) as error:
        raise ConfigError(f"The AWS settings cannot be used: {_message(error)}.") from None
    if credentials is None:
        raise ConfigError(
            "There are no AWS credentials. Set AWS_PROFILE or give --profile, log in (aws sso login), or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    try:
        answer = client.head_bucket(Bucket=bucket)
    except _errors() as error:
        said = f"HeadBucket s3://{bucket}: {_head_message(error)}"
        raise StorageError(said, "person", operation="HeadBucket") from None
    used = str(client.meta.endpoint_url)
    _check_endpoint(used)
    on_aws = is_aws(used)
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    found = headers.get("x-amz-bucket-region") if on_aws else None
    place = BenchPrefix(
        bucket=bucket,
        prefix=prefix,
        endpoint_url=None if on_aws else used,
        region=str(found or client.meta.region_name or "us-east-1"),
    )
    if on_aws and place.region != client.meta.region_name:
        client = session.client("s3", region_name=place.region, config=settings)
    return Storage(place, client, credentials)


def redact(text: str | None, credentials: Mapping[str, str]) -> str | None:
    """The text without secret key and session token. A tool should not print them, but its text goes into a report."""
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        if text is not None and credentials.get(name):
            text = text.replace(credentials[name], "[redacted]")
    return text


def is_aws(endpoint_url: str) -> bool:
    host = urlsplit(endpoint_url).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _check_endpoint(endpoint_url: str) -> None:
    parts = urlsplit(endpoint_url)
    if parts.username or parts.password or "@" in endpoint_url:
        # Not shown: it may hold a password.
        raise UsageError("--endpoint-url holds credentials; give them by the AWS environment or a profile.")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"--endpoint-url {endpoint_url} is no address such as https://s3.example.org.")


def _errors() -> tuple[type[Exception], ...]:
    exceptions: Any = importlib.import_module("botocore.exceptions")
    return (exceptions.ClientError, exceptions.BotoCoreError, importlib.import_module("boto3.exceptions").Boto3Error)


def _code(error: Exception) -> str:
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def _message(error: Exception) -> str:
    """The first line of what botocore says, without its last full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _head_message(error: Exception) -> str:
    known = {
        "404": "there is no such bucket. Check its name and the endpoint, or create it.",
        "403": "access is denied. The bench needs to list, read, write and delete below the prefix.",
    }
    return known.get(_code(error), f"{_message(error)}. Check the endpoint, the region and the network.")
