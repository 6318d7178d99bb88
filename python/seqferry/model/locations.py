"""Places that objects are read from and written to, and the access to them. They hold no secret."""

from __future__ import annotations

from typing import Literal

from seqferry.model.frozen import frozen

Symlinks = Literal["follow", "skip", "keep"]


@frozen
class Identity:
    """Identity that requests are made with, without a secret.

    Attributes:
        source: where the credentials come from; ``session`` is a temporary key in the environment.
        role: for a person: the role, or the account of a temporary key.
        proof: equal for equal identities; empty when a profile gives no credentials. See ``spec.identity``.
    """

    source: Literal["anonymous", "environment", "session", "profile", "web_identity", "container", "instance"]
    profile: str | None = None
    role: str | None = None
    proof: str = ""


@frozen
class Access:
    """Access to a place, as it was resolved at the submission. Holds no secret.

    Attributes:
        ca_bundle: path of certificates to trust besides those of the system.
        fips, dual_stack, accelerate: variants of AWS endpoints.
        path_style: names of buckets stand in the path, or else in the host; None: wherever the endpoint takes them.
        sign_bodies: signatures cover bodies too.
    """

    identity: Identity
    ca_bundle: str | None = None
    fips: bool = False
    dual_stack: bool = False
    accelerate: bool = False
    path_style: bool | None = None
    sign_bodies: bool = False


@frozen
class S3Location:
    """A place in object storage: ``s3://bucket/key`` as seen through an endpoint. Holds no secret.

    Without ``access``, the environment of the process that does the work decides what the other fields leave open.
    With it, they leave nothing open: no endpoint is AWS itself.

    Attributes:
        request_payer: ``requester``: the caller pays for requests to the bucket.
        attempts: attempts of each request, the first included; None: as the process that does the work is set.
        sse_c: where the key of SSE-C is that objects here have (``customer_keys``); ``sse_c_proof`` is a digest of it.
    """

    bucket: str
    key: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    anonymous: bool = False
    access: Access | None = None
    request_payer: str | None = None
    attempts: int | None = None
    sse_c: str | None = None
    sse_c_proof: str | None = None

    @property
    def container(self) -> str:
        """The bucket, which holds the keys."""
        return self.bucket

    @property
    def uri(self) -> str:
        return self.at(self.key)

    def at(self, key: str) -> str:
        """The address of another key in the same bucket."""
        return f"s3://{self.bucket}/{key}"


@frozen
class LocalFolder:
    """A place on a disk of this machine: the absolute ``path`` of a folder, and ``key``, a path below it.

    Attributes:
        symlinks: links below the folder are followed, skipped, or kept as what they are.
        empty_directories: empty folders are keys with a last slash, or not seen.
        page_cache: written files stay in the system's page cache; otherwise large files pass it.
        preserve_permissions: permissions that are kept with an object are set as they are; otherwise they only narrow
            those of a new file.
        host: whose disks it is on, where several machines work (``spec.hosts``); None: those of the one that works.
        root: folder above it that workers of that host serve as a whole; None: it is served by itself.
    """

    path: str
    key: str = ""
    symlinks: Symlinks = "follow"
    empty_directories: bool = False
    page_cache: bool = False
    preserve_permissions: bool = False
    host: str | None = None
    root: str | None = None

    @property
    def container(self) -> str:
        """The folder, which holds the keys."""
        return self.path

    @property
    def uri(self) -> str:
        return self.at(self.key)

    def at(self, key: str) -> str:
        """The path of another key below the same folder."""
        return f"{self.path.rstrip('/')}/{key}"


Location = S3Location | LocalFolder
"""A place that objects are read from or written to."""
