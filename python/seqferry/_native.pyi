"""Typed picture of ``crates/py``; verified against the compiled module by stubtest in ``make lint``."""

import builtins
from collections.abc import Mapping, Sequence
from typing import final

__version__: str
ADVICE_CODES: list[str]
"""The codes of next steps, for which ``model/advice.py`` has the words."""

class EngineError(Exception):
    """args: (message, error_class, error_code, operation, job_wide)."""

@final
class Endpoint:
    """An address and an identity to talk as.

    Credentials come from the AWS chain (environment, profile, SSO, ...), never from here.
    """

    def __new__(
        cls,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        anonymous: bool = False,
        resolved: bool = False,
        ca_bundle: str | None = None,
        use_fips: bool = False,
        use_dual_stack: bool = False,
        path_style: bool | None = None,
        accelerate: bool = False,
        sign_bodies: bool = False,
        request_payer: bool = False,
        attempts: int | None = None,
        customer_key: bytes | None = None,
        copy_source_key: bytes | None = None,
        disk: bool = False,
        symlinks: str = "follow",
        empty_directories: bool = False,
        page_cache: bool = False,
        preserve_permissions: bool = False,
    ) -> Endpoint:
        """An S3 endpoint; or with ``disk`` this machine's disks, where buckets are the absolute paths of folders.

        Args:
            resolved: of the environment and the AWS files only credentials and the number of attempts are read. No
                endpoint URL means AWS itself then, and the next six hold.
            ca_bundle: path of certificates to trust besides those of the system.
            use_fips: use the endpoints of AWS that conform to FIPS 140.
            use_dual_stack: use the endpoints of AWS that answer on IPv6 as well.
            path_style: names of buckets stand in the path; else in the host; None: wherever the endpoint takes them.
            accelerate: use S3 Transfer Acceleration.
            sign_bodies: signatures cover bodies too.
            request_payer: the caller pays for requests to buckets of others.
            attempts: attempts of each request, the first included; None: as the AWS settings say.
            customer_key: 32 bytes: objects are read and written with this key (SSE-C).
            copy_source_key: the key of objects that are copied from.
            symlinks: below those folders: ``follow`` | ``skip`` | ``keep``.
            empty_directories: are keys with a last slash; else they are not seen.
            page_cache: written files stay in the system's cache; else large files pass it.
            preserve_permissions: those of metadata are set as they are; else they only narrow those of a new file.

        Raises:
            ValueError: a word is none of the above, or one of the six settings is given when they are not resolved.
        """

@final
class ObjectInfo:
    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int:
        """Bytes."""
    @property
    def etag(self) -> str:
        """ETag without quotes."""
    @property
    def last_modified(self) -> float:
        """Seconds since the epoch."""
    @property
    def changed(self) -> float:
        """Last change of a file's bytes, metadata or name, in seconds since the epoch; 0 in listings and for S3."""
    @property
    def version_id(self) -> str | None: ...
    @property
    def storage_class(self) -> str | None: ...
    @property
    def refusal(self) -> tuple[str, str] | None:
        """Code and message of why this cannot be read as an object; the key may then be escaped. None for objects."""

@final
class PipeReport:
    @property
    def bytes(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def version_id(self) -> str | None: ...
    @property
    def verified(self) -> str:
        """Verification, as of ``ObjectRecord``."""

@final
class Pipe:
    def wait(self, timeout: float) -> bool:
        """True when it has ended, after waiting so many seconds."""
    @property
    def bytes(self) -> int:
        """Bytes that have gone through."""
    def cancel(self) -> None: ...
    def end(self) -> PipeReport | None:
        """Report of an ended pipe, given once; None while it goes on, and after a cancel.

        Raises:
            EngineError: the storage failed, or the bytes are not what they must be.
            OSError: the descriptor failed.
        """

def write_output(
    engine: Engine,
    endpoint: Endpoint,
    bucket: str,
    key: str,
    *,
    version_id: str | None = None,
) -> Pipe:
    """Start to write an object to standard output."""

def store_input(
    engine: Engine,
    endpoint: Endpoint,
    bucket: str,
    key: str,
    *,
    if_exists: str = "same",
    part_size: int | None = None,
    storage_class: str | None = None,
    properties: Properties | None = None,
    journal: str | None = None,
) -> Pipe:
    """Start to store standard input. ``journal``: the file for the id of its upload."""

def restore(engine: Engine, endpoint: Endpoint, bucket: str, keys: list[str], days: int, tier: str) -> list[bool]:
    """Request readable copies of archived objects; returns for each key whether it can be read now."""

def abort_upload(engine: Engine, endpoint: Endpoint, bucket: str, key: str, upload_id: str) -> None:
    """Abort an upload; one that is gone counts as aborted."""

@final
class Properties:
    def __new__(
        cls,
        *,
        carry_attributes: bool = True,
        attributes: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        carry_tags: bool = True,
        tags: Sequence[tuple[str, str]] | None = None,
        sse: str | None = None,
        sse_kms_key_id: str | None = None,
        bucket_key_enabled: bool = False,
        sse_c: bool = False,
        acl: str | None = None,
        grants: Sequence[tuple[str, str]] | None = None,
        copy_lock: bool = False,
        lock_mode: str | None = None,
        lock_until: str | None = None,
        legal_hold: bool = False,
        checksum: str | None = None,
    ) -> Properties:
        """Properties that targets carry besides their bytes.

        Args:
            carry_attributes: those of the source; ``attributes`` (``content_type``, ...) and ``metadata`` go over them.
            carry_tags: those of the source; ``tags`` go instead of them.
            sse: ``AES256`` | ``aws:kms`` | ``aws:kms:dsse``; None: what is encrypted stays so; ``none``: the bucket's
                default.
            bucket_key_enabled: ``aws:kms`` with an S3 Bucket Key.
            sse_c: the target has a customer's key (see ``Endpoint``).
            grants: the permission as headers have it (``read``, ``full-control``), and its grantees.
            copy_lock: Object Lock of the source is carried; else ``lock_mode``, ``lock_until`` (RFC 3339) and
                ``legal_hold`` are set.
            checksum: algorithm that the storage keeps.

        Raises:
            ValueError: a word is none of the above, or options exclude each other or lack their other half.
        """

@final
class CopyPolicy:
    def __new__(
        cls,
        *,
        source: Endpoint,
        source_bucket: str,
        target: Endpoint,
        target_bucket: str,
        source_prefix: str = "",
        target_prefix: str = "",
        if_exists: str = "same",
        verify: str = "auto",
        part_size: int | None = None,
        copy_threshold: int | None = None,
        storage_class: str | None = None,
        properties: Properties | None = None,
        md5: bool = False,
        data_path: str = "copy",
        resumed: bool = False,
        target_was_empty: bool = False,
        since: float = 0.0,
        only_clean: bool = False,
        compare_only: bool = False,
        ignore_times: bool = False,
        in_order: bool = False,
        no_sync: bool = False,
        transfer: str = "",
        settle_seconds: float = 0.0,
    ) -> CopyPolicy:
        """Options that hold for all items of a job.

        Args:
            source_prefix: prefix that the transfer reads below; empty for the whole bucket. The engine finds the
                request rate for each prefix that is named so, since S3 limits prefixes apart.
            target_prefix: the same for the keys that it writes.
            if_exists: ``same`` | ``size`` | ``skip`` | ``overwrite`` | ``fail``.
            verify: ``auto`` | ``checksum`` | ``content``.
            part_size: bytes; None lets the engine choose per object.
            copy_threshold: bytes up to which one CopyObject is used; None for the default (128 MiB).
            properties: properties of the targets; None: those of their sources.
            md5: keep the MD5 of each file with its object, as rclone does; changes nothing where the source is no disk.
            data_path: ``copy`` has the storage copy, and streams what it refuses; ``stream`` reads and writes all here.
            resumed: an earlier run of the same items may have been cut off, so the target is checked first.
            target_was_empty: nothing was at the target as the transfer began, so that what a resumed item finds there
                identical counts as ``done``.
            since: epoch seconds of the transfer's birth; open uploads of a resumed item that are younger and hold
                no part are aborted.
            only_clean: copy nothing; abort the uploads that earlier runs of the items left open, recorded or not. Every
                item ends as ``cancelled``.
            in_order: items of one target are versions of one object, oldest first: each begins when the one before it
                has ended well. After one that failed (``EarlierVersionFailed``), or that the target does not keep as a
                version (``NoVersions``), the others fail.
            no_sync: files that are written in one step need not be on the disk when they count as done.
            compare_only: write nothing; an item whose target does not hold the same bytes fails as ``mismatch``.
            ignore_times: equal sizes and times do not verify equal bytes: the source is removed afterwards.
            transfer: flow for fair queueing. Jobs of one transfer share one turn, and their objects are served in the
                order in which they began. Empty: the job is its own flow.
            settle_seconds: a file that was younger when it was opened is checked again after its copy, this much
                later; 0: files are at rest.

        Raises:
            ValueError: a word is none of the above.
        """

@final
class CopyItem:
    def __new__(
        cls,
        *,
        id: int,
        source_key: str,
        target_key: str,
        size: int,
        etag: str,
        version_id: str | None = None,
        target_absent: bool = False,
        upload_id: str | None = None,
        part_size: int | None = None,
        upload_etag: str | None = None,
        written: FoundCopy | None = None,
    ) -> CopyItem:
        """One object.

        ``upload_id``, ``part_size`` and ``upload_etag`` are what was recorded from an earlier UploadRecord, if anything
        was. One that was ``written`` ends as done with these facts, and is not copied.

        Raises:
            ValueError: ``upload_id`` is given without its ``part_size``.
        """

@final
class FoundCopy:
    def __new__(cls, *, etag: str, version_id: str | None, verified: str) -> FoundCopy:
        """A copy at the target that an earlier run has made, and that is not on record.

        Args:
            verified: what shows that it holds the bytes of its source: ``size`` | ``etag`` | ``checksum``.

        Raises:
            ValueError: ``verified`` is none of these.
        """

@final
class UploadRecord:
    """An upload was created, or is about to be completed. Record it, then ``Job.acknowledge`` it: the job waits."""

    @property
    def id(self) -> int: ...
    @property
    def upload_id(self) -> str: ...
    @property
    def part_size(self) -> int: ...
    @property
    def etag(self) -> str | None:
        """``ETag`` of the object that completing the upload makes. None until it is about to be completed."""

@final
class Events:
    """Outcomes of a job since it was last asked."""

    @property
    def uploads(self) -> list[UploadRecord]: ...
    @property
    def cancelled(self) -> list[int]:
        """Ids of items that ended because the job was cancelled."""
    @property
    def ended(self) -> int:
        """Number of items that ended in any other way."""
    def results(self) -> dict[str, str]:
        """Their outcomes: for each column a text, the inside of a list: ``1,null`` or ``"a","b \\"c\\""``.

        PostgreSQL reads it within braces as an array, Python within brackets as JSON (``strict=False``: control
        characters stand for themselves). Without any there are no columns. These are there:

        ``id``; ``state``: ``done`` | ``skipped`` | ``failed``; ``size`` and ``etag`` of the source that was copied: as
        listed, or as it was when it had changed since; ``method``: ``copy`` | ``multipart`` | ``stream`` | ``none``;
        ``started_at``, ``ended_at``; ``attempts``: how often it was begun in this run (1 normally, 2 when its source
        changed under us); ``retries``: requests sent again; ``target_etag``, ``target_version_id``;
        ``checksum_algorithm``, ``checksum`` (base64, as S3 writes it); ``verified``: ``checksum`` | ``etag`` |
        ``content`` | ``time`` | ``size`` | ``none``, the verification of the target; ``not_carried``: what the
        target lacks of the source, a JSON list with one sentence each, null nearly always; ``error_class``,
        ``error_code``, ``error_operation``, ``error_message``; ``keeps_upload``: it did not arrive, and the id of its
        upload is kept as a trace of what may be left in the storage.
        """

@final
class ActiveObject:
    @property
    def id(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def bytes_done(self) -> int: ...
    @property
    def seconds(self) -> float:
        """Since this object was begun."""

@final
class Progress:
    """A snapshot, cheap to take from any thread."""

    @property
    def bytes_done(self) -> int:
        """Bytes copied by this job, those of parts of unfinished objects included."""
    @property
    def objects_done(self) -> int: ...
    @property
    def objects_failed(self) -> int: ...
    @property
    def objects_skipped(self) -> int: ...
    @property
    def objects_active(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def retries(self) -> int: ...
    @property
    def throttled(self) -> int: ...
    @property
    def slowest(self) -> list[ActiveObject]:
        """Longest-running objects, the longest first, at most 5."""

@final
class Failure:
    """A request about one object that failed while others went on, or the reason why a job stopped as a whole.

    ``job_wide``: no other object can fare better.
    """

    @property
    def error_class(self) -> str: ...
    @property
    def error_code(self) -> str: ...
    @property
    def operation(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def job_wide(self) -> bool: ...

@final
class JobPlace:
    """The place of a job that copies nothing. With ``only_clean`` every item ends as cancelled."""

    def __new__(
        cls, endpoint: Endpoint, bucket: str, *, prefix: str = "", transfer: str = "", only_clean: bool = False
    ) -> JobPlace: ...

@final
class Job:
    def wait(self, timeout: float) -> Events:
        """Outcomes since the last call.

        Returns immediately when an UploadRecord is there; else when 500 events are there, the job has finished, or
        ``timeout`` seconds are over. Releases the GIL.
        """
    def finished(self) -> bool:
        """True when every item has ended (or the job was stopped) and all events were handed out by ``wait``."""
    def failure(self) -> Failure | None:
        """Set when a job-wide error stopped the job: items that are not reported were not attempted to their end."""
    def notes(self) -> list[str]:
        """Remarks for the user on the job as a whole, said once: ways round what a service gets wrong."""
    def progress(self) -> Progress: ...
    def acknowledge(self, ids: list[int]) -> None:
        """The upload ids of these items are on disk: their parts may start."""
    def admit(self, epoch: int) -> None:
        """The job's work was found to be this process's own in this epoch of the lease: it may write."""
    def disown(self) -> None:
        """Another process has the job's work: nothing of it is written here any more, no upload aborted."""
    def cancel(self, abort_uploads: bool) -> None:
        """Stop within a second.

        With ``abort_uploads`` every open upload of the job's items is aborted and each unfinished item ends as
        ``cancelled``; without, uploads stay open and unfinished items are not reported, so that a later job resumes
        them.
        """

@final
class Listing:
    def next(self, timeout: float) -> list[ObjectInfo] | None:
        """The next page, ``[]`` after ``timeout`` seconds without one, None at the end. Pages come in no order.

        Raises:
            EngineError: the listing failed; it is not complete.
        """
    def close(self) -> None:
        """Stop listing; the rest is dropped."""

@final
class MerkleTree:
    """A Merkle tree over rows (RFC 9162), which grows row by row and holds one hash for each of its levels.

    A leaf is ``SHA256(0x00, row)``, a node ``SHA256(0x01, left, right)``; a row is hashed as JSON without spaces.
    ``kept`` is the number of bytes of each leaf that ``add`` returns.
    """

    def __new__(cls, kept: int = 32) -> MerkleTree: ...
    def add(self, rows: Sequence[Sequence[object]], *, first: int = 0, times: Sequence[int] = ...) -> bytes:
        """Add rows, without their values before ``first``; returns the first bytes of their leaves.

        Args:
            times: places of values in seconds, which are hashed as whole microseconds.

        Raises:
            TypeError: a value is no text, whole number, time or None. The rows before it are not added either.
            ValueError: a number cannot be hashed.
        """
    @property
    def size(self) -> int:
        """Number of rows."""
    def root(self) -> bytes: ...

@final
class ScanOptions:
    def __new__(
        cls,
        *,
        index: str = "auto",
        links: str = "inside",
        duplicates: str = "refuse",
        missing_end: bool = False,
        concatenated: bool = False,
        trailing_bytes: bool = False,
        lenient_sizes: bool = False,
        proven: bool = False,
    ) -> ScanOptions:
        """Options of reading an archive.

        Args:
            index: ``auto`` | ``never``: whether the index beside the archive is used.
            links: symbolic links: ``inside`` the archive only | ``skip`` | ``all``.
            duplicates: a path that comes again: ``refuse`` | ``last``.
            missing_end: accept an archive without an end mark.
            concatenated: go on behind an end mark.
            trailing_bytes: leave out what follows an end mark and is no archive that is read.
            lenient_sizes: where two sizes are stated, believe the PAX record.
            proven: read the whole archive first and hold it against its digest, where members have no checksum.

        Raises:
            ValueError: a word is none of the above.
        """

@final
class FoundMember:
    @property
    def name(self) -> str:
        """Name as the archive has it, with escapes where it is no printable text."""
    @property
    def path(self) -> str:
        """Safe relative path, with a last slash for a directory; empty for a refused member."""
    @property
    def kind(self) -> str:
        """``file``, ``hard_link``, ``symbolic_link``, ``directory``, or a kind that is refused."""
    @property
    def size(self) -> int: ...
    @property
    def place(self) -> str:
        """Its place in the archive: the version of the member."""
    @property
    def etag(self) -> str:
        """ETag of the member, made of the archive's ETag and the member's place."""
    @property
    def modified_ns(self) -> int:
        """Modification time in nanoseconds since 1970, which ``modified`` rounds."""
    @property
    def modified(self) -> float: ...
    @property
    def mode(self) -> int: ...
    @property
    def link(self) -> str:
        """Target of a link; empty for others."""
    @property
    def crc32c(self) -> int | None:
        """CRC-32C of its contents, where an index states it."""
    @property
    def implied(self) -> bool:
        """A directory that other members lie in."""
    @property
    def refusal(self) -> tuple[str, str] | None:
        """Code and text of why it is not unpacked."""
    @property
    def left_out(self) -> bool:
        """True for a member that cannot be unpacked, or is left out by an option: no failure."""

@final
class ArchiveScan:
    def next(self, timeout: float) -> list[FoundMember] | None:
        """The next page in the order of the archive, ``[]`` after ``timeout`` seconds without one, None at the end.

        Raises:
            EngineError: the archive cannot be read, or is refused as a whole; no page came before that.
        """
    def close(self) -> None:
        """Stop reading."""

@final
class CheckReport:
    @property
    def members(self) -> int:
        """Members read so far."""
    @property
    def bytes(self) -> int: ...
    @property
    def compared(self) -> int:
        """Members whose contents were compared with the checksum in the index."""
    @property
    def indexed(self) -> bool: ...
    @property
    def problems(self) -> list[tuple[str, str]]:
        """Names of members, each with what is wrong with it, since the last report."""

@final
class ArchiveCheck:
    def next(self, timeout: float) -> CheckReport | None:
        """The next report, an empty one after ``timeout`` seconds without one, None at the end.

        Raises:
            EngineError: the archive cannot be read, is refused as a whole, or its index is damaged.
        """

@final
class EngineStats:
    """Sums of the requests of the engine since it was made."""

    @property
    def requests(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def throttled(self) -> int: ...
    @property
    def hedges(self) -> int:
        """Requests sent a second time because the first was much slower than its peers."""
    @property
    def retries(self) -> int:
        """Requests sent again after a failure."""
    @property
    def bytes(self) -> int:
        """Object bytes that requests moved, within the service or through this process."""
    @property
    def waited(self) -> float:
        """Seconds that requests waited for the right to begin, together."""
    @property
    def busy(self) -> float:
        """Seconds that requests were in flight, together."""
    @property
    def max_requests(self) -> int: ...
    @property
    def max_bandwidth(self) -> int | None:
        """Bytes per second; None without a limit."""
    @property
    def latency_bounds(self) -> list[float]:
        """Upper ends of the buckets of histograms in seconds, but for the last bucket, which has none."""
    @property
    def metrics(self) -> list[Metric]:
        """All metrics of the engine, always in the same order."""

@final
class Metric:
    """A metric with its values: a bounded number, however many prefixes the engine works on."""

    @property
    def name(self) -> str:
        """Name for Prometheus: a unit as suffix, ``_total`` for counters."""
    @property
    def kind(self) -> str:
        """``counter`` | ``gauge`` | ``histogram``."""
    @property
    def help(self) -> str: ...
    @property
    def labels(self) -> list[str]:
        """Names. Of ``bucket`` and ``prefix`` both are empty for all that have no label of their own."""
    @property
    def samples(self) -> list[MetricSample]: ...

@final
class MetricSample:
    @property
    def labels(self) -> list[str]:
        """Values, in the order of their names."""
    @property
    def value(self) -> float:
        """Value of a counter or a gauge; of a histogram the sum in seconds."""
    @property
    def counts(self) -> list[int]:
        """Counts of a histogram by bucket; empty for other metrics."""

@final
class InventoryRows:
    """The rows of a file of S3 Inventory in Parquet. Raises ValueError for what cannot be read."""

    def __new__(cls, path: str) -> InventoryRows: ...
    @property
    def columns(self) -> list[str]:
        """Columns of the file that are read."""
    def next_rows(self, most: int) -> list[InventoryRow]:
        """The next rows, none at the end."""

@final
class InventoryRow:
    """A row of an inventory; a column that the file lacks, or an empty field, is None."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int | None: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def modified(self) -> int | None:
        """Milliseconds since the epoch."""
    @property
    def storage_class(self) -> str | None: ...
    @property
    def is_latest(self) -> bool | None: ...
    @property
    def is_delete_marker(self) -> bool | None: ...

@final
class Engine:
    """One per process: one runtime, one budget. All calls release the GIL."""

    def __new__(
        cls,
        *,
        max_requests: int | None = None,
        memory: int | None = None,
        max_bandwidth: int | None = None,
        threads: int | None = None,
    ) -> Engine: ...
    def check_bucket(self, endpoint: Endpoint, bucket: str) -> None:
        """HeadBucket: raises EngineError when the bucket cannot be used."""
    def head(self, endpoint: Endpoint, bucket: str, keys: list[str]) -> list[ObjectInfo | None]:
        """One HeadObject per key, in parallel, answers in the order of ``keys``; None where there is no such key."""
    def head_each(
        self, endpoint: Endpoint, bucket: str, keys: list[str]
    ) -> list[tuple[ObjectInfo | None, Failure | None]]:
        """As ``head``, but a failure is that of its key: class, code, operation, message, and False.

        Raises:
            EngineError: no key can fare better.
        """
    def delete(
        self, endpoint: Endpoint, bucket: str, objects: list[tuple[str, str | None]], *, epoch: int | None = None
    ) -> list[str]:
        """Remove objects (key, ETag), in parallel and in no order. One that is not there counts as removed.

        With an ETag only while that is the object's. Returns the keys that hold something else by now and were left.
        With an ``epoch`` only within the lease.

        Raises:
            EngineError: the first that could not be removed; some of the others may have been.
        """
    def list_page(
        self,
        endpoint: Endpoint,
        bucket: str,
        prefix: str,
        *,
        delimiter: str | None = None,
        start_after: str | None = None,
        continuation: str | None = None,
        max_keys: int | None = None,
    ) -> tuple[list[ObjectInfo], list[str], str | None]:
        """One page of a listing in the service's order: objects, common prefixes, and the token of the next page.

        One request, with few retries for a first page: a person may wait for it.
        """
    @staticmethod
    def lease_clock() -> int:
        """Nanoseconds by the clock of leases, which goes on while the machine is suspended."""
    @staticmethod
    def arm_crash(name: str, visit: int) -> bool:
        """End this process at the visit of that number (from 1) to a crash point; False when none has such a name."""
    def lease(self, until: int, epoch: int) -> None:
        """Jobs of this epoch may write until then. A new epoch shuts out all that are not admitted to it."""
    def start(
        self,
        policy: CopyPolicy,
        items: list[CopyItem],
        *,
        epoch: int | None = None,
        cache: tuple[DiskCache, str] | None = None,
    ) -> Job:
        """Start a job. With an ``epoch`` it writes only within the lease, and waits for it; else at any time.

        With a ``cache`` the source is read through it; the text is the name of the source's endpoint in the cache.
        """
    def start_members(
        self, policy: CopyPolicy, archive: str, items: list[CopyItem], *, epoch: int | None = None
    ) -> Job:
        """Start a job over members of an archive in the source bucket: versions of items are their places."""
    def start_remove(
        self,
        place: JobPlace,
        items: list[CopyItem],
        *,
        careful: bool = False,
        stop_at_failure: bool = False,
        fail_at_lapse: bool = False,
        epoch: int | None = None,
    ) -> Job:
        """Start a job that removes items: versions for good, those with an ETag only while it is theirs.

        One that is not there counts as removed. One that holds something else by now fails as ``SourceChanged``.

        Args:
            careful: look at each first, as some services pass over ETags.
            stop_at_failure: begin no removal after the first failure.
            fail_at_lapse: when the lease has lapsed, fail as a whole; else wait until the job is admitted again.
        """
    def start_abort(self, place: JobPlace, items: list[CopyItem], *, epoch: int | None = None) -> Job:
        """Start a job that aborts open uploads, whose ids are the versions of the items. One that is gone is done."""
    def start_verify(
        self,
        place: JobPlace,
        objects: RecordedObjects,
        *,
        content: bool = False,
        archives: bool = False,
        epoch: int | None = None,
    ) -> Job:
        """Start a job that looks objects up and compares them with their record. It writes nothing.

        Objects that are not as recorded fail with class ``mismatch`` and code ``MissingAtTarget`` or
        ``ChangedAtTarget``; those that cannot be looked up or read fail with the code of that. While the storage does
        not answer at all, objects have no outcome, and the job ends.

        Args:
            content: read objects whose record has a digest of their bytes.
            archives: sizes and ETags of the record are those of members, and are not compared.
        """
    def check_archive(self, endpoint: Endpoint, bucket: str, key: str, options: ScanOptions) -> ArchiveCheck:
        """Begin to compare an archive with its index."""
    def index_archive(self, endpoint: Endpoint, bucket: str, key: str) -> int:
        """Write the index beside an archive, from its headers; returns the number of members."""
    def scan_archive(
        self, endpoint: Endpoint, bucket: str, key: str, options: ScanOptions, *, retain: bool = False
    ) -> ArchiveScan:
        """Begin to read the members of an archive, by its index or its headers."""
    def pack(
        self, policy: CopyPolicy, items: list[CopyItem], *, strip: str, index: bool, epoch: int | None = None
    ) -> Job:
        """Start a job that packs all items into one tar, whose key is their target key. See ``start``.

        Args:
            strip: start of the keys that the names of members lack.
            index: whether the sidecar index is written.
        """
    def retune(self, *, max_requests: int | None = None, max_bandwidth: int | None = None) -> None:
        """Change limits from now on; None keeps one as it is, and 0 lifts the one of bandwidth."""
    def limit_starts(self, per_second: int | None) -> None:
        """Limit the requests started per second from now on; None lifts the limit."""
    def answers(self, seconds: float) -> bool:
        """True when the runtime runs a new task within the time. Raises ValueError when it is no time."""
    def stats(self) -> EngineStats:
        """Everything that was counted, in one call."""
    # Last, since it hides the type of the same name from what follows.
    def list(
        self, endpoint: Endpoint, bucket: str, prefix: str, *, limit: int | None = None, transfer: str = ""
    ) -> Listing:
        """All objects whose key starts with ``prefix``, listed in parallel.

        ``limit`` stops after about so many (one page at least). ``transfer`` is what traces name.
        """

def pack_shards(names: list[str], sizes: list[int], shard_size: int) -> list[int]:
    """Cut members into archives of at most ``shard_size`` bytes: the ordinals at which shards end.

    Raises:
        ValueError: the members have more bytes than any tar can hold.
    """

@final
class Wildcards:
    """Wildcards of which the last one that matches decides. A name takes time that is linear in its length."""

    def __new__(cls, rules: list[tuple[bool, str]], dialect: str) -> Wildcards:
        """Compile wildcards, each with whether it includes; ``dialect`` is ``key`` | ``path`` | ``rule``.

        Raises:
            ValueError: too long: ``wildcard`` and its number, or ``list`` and 0; and the most characters.
        """
    def decide(self, name: str) -> bool | None:
        """The decision of the last rule that matches the whole name; None when none does."""

@final
class RenameRules:
    """Rules that rename, applied one after another. The time that they take is bounded."""

    def __new__(cls, rules: list[tuple[str, list[str | int], bool, bool]]) -> RenameRules:
        """Compile rules: pattern, texts and groups of the replacement, whether it ignores case, whether every match.

        Raises:
            ValueError: ``pattern``, number of the rule, reason; or ``group``, number of the rule, group, groups; or
                ``list``: too big.
        """
    def renamed(self, name: str) -> str:
        """The name after all rules.

        Raises:
            ValueError: ``name``, most bytes: a name is longer; or ``slow``, milliseconds spent, names: given up.
        """

def path_refusal(key: str, size: int) -> tuple[str, str] | None:
    """The reason why no file below a folder can have this key, as code and cause with advice; None when one can."""

def endpoint_fault(url: str) -> str | None:
    """The reason why a text is not the URL of an endpoint: ``credentials`` | ``malformed``; None when it is."""

def endpoint_identity(url: str) -> str | None:
    """The URL of an endpoint in one spelling, or a part of AWS with buckets of its own; None for the rest of it."""

def equal_as_listed(source: tuple[int, str], target: tuple[int, str]) -> str | None:
    """The proof that listings alone show two objects (size, ETag) to be equal: ``etag``; None without one."""

def start_trace(file: str | None) -> None:
    """Write spans and events of the engine as lines of JSON to the end of a file, or to stderr.

    Raises:
        OSError: the file cannot be opened; FileExistsError: a trace is written already.
    """

@final
class DiskCache:
    """A disk cache of blocks, for looking at it and filling it. A place is endpoint, bucket and start of the keys."""

    def __new__(cls, path: str, *, max_size: int | None = None, makes_room: bool = False) -> DiskCache:
        """Open or make a cache; raises OSError with why the folder cannot be used.

        With ``makes_room`` a thread of its own keeps it within its size, for as long as this value lives.
        """

    def list(self, place: tuple[str, str, str] | None) -> builtins.list[CachedObject]:
        """The objects below a place, or all."""

    def verify(self, place: tuple[str, str, str] | None) -> builtins.list[VerifiedObject]:
        """Look at each block below a place, or at all, and drop damaged ones."""

    def remove(self, place: tuple[str, str, str] | None) -> tuple[int, int, int]:
        """Remove objects: how many, their bytes, and how many are in use and stayed."""

    def pin(self, place: tuple[str, str, str]) -> None:
        """Keep the objects of a prefix from eviction."""

    def unpin(self, place: tuple[str, str, str]) -> bool:
        """True when the prefix was pinned."""

    def warm(
        self, endpoint: Endpoint, place: tuple[str, str, str], *, ranges: int, max_bandwidth: int | None
    ) -> CacheWarming:
        """Read a prefix into the cache, ``ranges`` ranges of 8 MiB at a time."""

@final
class CacheWarming:
    """A prefix that is being read into a cache."""

    def wait(self, seconds: float) -> bool:
        """True when it has ended; raises EngineError when the prefix cannot be listed."""

    def report(self) -> Warmed:
        """The outcome up to now."""

    def cancel(self) -> None:
        """End immediately."""

@final
class CachedObject:
    """An object of which a disk cache holds blocks."""

    @property
    def endpoint(self) -> str: ...
    @property
    def bucket(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def cached(self) -> int:
        """Its bytes that are there."""
    @property
    def disk(self) -> int:
        """Bytes that these take on the disk."""
    @property
    def used(self) -> float:
        """Time of the last use, seconds since the epoch."""
    @property
    def pinned(self) -> bool: ...

@final
class VerifiedObject:
    """Blocks of a cached object after a look at each; damaged ones are dropped."""

    @property
    def bucket(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def sound(self) -> int: ...
    @property
    def damaged(self) -> int: ...
    @property
    def busy(self) -> bool:
        """It was in use and not checked."""

@final
class Warmed:
    """Outcome of warming."""

    @property
    def objects(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def present(self) -> int:
        """Bytes that were there before."""
    @property
    def fetched(self) -> int:
        """Bytes that were read from the storage."""
    @property
    def failed(self) -> int: ...
    @property
    def no_room(self) -> bool: ...
    @property
    def failures(self) -> list[tuple[str, str]]:
        """Keys and reasons."""

@final
class NameAudit:
    """Findings of a walk over everything; ``named`` are hidden keys, each with the reason."""

    directories: int
    files: int
    links: int
    bytes: int
    hidden: int
    named: list[tuple[str, str]]

def audit_names(endpoint: Endpoint, *, endpoint_name: str, bucket: str, prefix: str, most: int) -> NameAudit:
    """Walk over everything that a mount would show, naming up to ``most`` keys that it would hide. Linux only.

    Raises:
        OSError: the walk failed, as one sentence for the user.
    """

@final
class GatewayWrites:
    """Settings of a share that can be written."""

    def __new__(
        cls,
        *,
        settle: float,
        storage_classes: list[tuple[str, str]],
        properties: Properties,
        ignore: list[str] | None,
        markers: list[str] | None,
        windows: list[tuple[int, int]],
        max_bandwidth: int | None,
    ) -> GatewayWrites:
        """Describe how a share is written.

        Args:
            settle: seconds for which a file must not change before it is uploaded.
            storage_classes: patterns of names, and the class of objects that match; the first counts.
            properties: encryption, access and tags of new objects.
            ignore: patterns of names that stay on this machine; None: those of files that programs make for themselves.
            markers: patterns of names that are uploaded after all older files of their folder; None: those of
                instruments.
            windows: times of the day for uploads, in minutes since midnight, local time; none: always.
            max_bandwidth: bytes per second that are uploaded at most.

        Raises:
            ValueError: ``settle`` is no time.
        """

@final
class GatewayShare:
    """A share of a gateway: a prefix under a name, its clients and users."""

    def __new__(
        cls,
        endpoint: Endpoint,
        *,
        endpoint_name: str,
        bucket: str,
        prefix: str,
        name: str,
        lifetime: float | None,
        clients: list[str],
        squash: str,
        anonymous_uid: int,
        anonymous_gid: int,
        uid: int,
        gid: int,
        file_mode: int,
        directory_mode: int,
        free_space: int,
        writes: GatewayWrites | None,
    ) -> GatewayShare:
        """Describe a share.

        Args:
            endpoint_name: stands for the endpoint in file handles.
            prefix: empty, or with a slash at its end.
            lifetime: seconds for which listings are believed; None: for good.
            clients: addresses and networks; none: programs on this machine.
            squash: ``root`` | ``all`` | ``none``.
            writes: None: the share is read-only.

        Raises:
            ValueError: a word or number is none of the above.
        """

@final
class UploadBatch:
    """Outcomes of uploads of a share that are not on record.

    ``number`` counts the batches of a ``journal``; ``prefix`` is before the paths of the share.
    """

    @property
    def share(self) -> str: ...
    @property
    def prefix(self) -> str: ...
    @property
    def journal(self) -> str: ...
    @property
    def number(self) -> int: ...
    def outcomes(self) -> tuple[list[UploadOutcome], tuple[str, str] | None]:
        """Read its outcomes, and the paths of a folder by whose rename they came, before and after.

        Raises OSError when its file cannot be read or is damaged.
        """
    def forget(self) -> None:
        """Remove it: the record has it. Raises OSError when its file cannot be removed."""

@final
class UploadOutcome:
    """End of an upload, or of the attempts at it. Times are seconds since 1970.

    ``etag`` and what follows it are of the version that was made; None: none was, for the reason in ``failure`` (class,
    code, operation and message).
    """

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified(self) -> float: ...
    @property
    def started(self) -> float: ...
    @property
    def ended(self) -> float: ...
    @property
    def attempts(self) -> int: ...
    @property
    def uid(self) -> int | None: ...
    @property
    def address(self) -> str | None: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def version_id(self) -> str | None: ...
    @property
    def checksum_algorithm(self) -> str | None: ...
    @property
    def checksum(self) -> str | None: ...
    @property
    def method(self) -> str | None: ...
    @property
    def verified(self) -> str | None: ...
    @property
    def failure(self) -> tuple[str, str, str, str] | None: ...

@final
class Gateway:
    """Shares served over NFS by this process until it is stopped or this object is dropped."""

    def __new__(
        cls,
        shares: list[GatewayShare],
        *,
        host: str,
        port: int,
        port_mapper: bool,
        state: str,
        cache: str | None,
        max_cache_size: int | None,
        unsafe_cache: bool,
        take_over: bool,
        memory: int,
        max_requests: int,
        max_bandwidth: int | None,
    ) -> Gateway:
        """Serve; the shares can be mounted when this returns.

        Args:
            port_mapper: let clients find the port by the port mapper, at port 111.
            state: a folder for the key and the table of file handles.
            cache: a folder on a local disk that keeps blocks and names beyond this process, and what clients write.
            unsafe_cache: accept a cache that is not on a local disk for shares that can be written.
            take_over: write also where the gateway of another cache has claimed a prefix; its uploads end.

        Raises:
            OSError: a share cannot be served, as one sentence for the user; none is served then.
            ValueError: the host is no address.
        """

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""

    @property
    def published(self) -> str | None:
        """Way in which clients find the port: ``itself`` or ``rpcbind``; None if they name it."""

    @property
    def publish_error(self) -> str | None:
        """Reason why clients have to name the port, if they were to find it."""

    @property
    def in_flight(self) -> int:
        """Requests to the storage under way."""

    def status(self) -> str:
        """State of all shares, as JSON; the keys are in docs/use/gateway.md."""

    def upload_batches(self) -> list[UploadBatch]:
        """Upload batches that are not on record, also after the end; the oldest of each share first."""

    def freeze_upload_batches(self) -> None:
        """Put the outcomes of all uploads into batches. Raises OSError when the disk does not take them."""

    def answers(self, seconds: float) -> bool:
        """True when the runtime runs a new task within the time. Raises ValueError when it is no time."""

    def wait(self, seconds: float) -> bool:
        """Wait until the gateway has stopped. True when it has."""

    def stop(self) -> None:
        """Accept no more calls; those under way end."""

@final
class Mount:
    """A bucket mounted by this process. Linux only. It is served until it is unmounted or this object is dropped."""

    def __new__(
        cls,
        endpoint: Endpoint,
        *,
        endpoint_name: str,
        bucket: str,
        prefix: str,
        directory: str,
        source: str,
        lifetime: float | None,
        freshness: str,
        memory: int,
        max_requests: int,
        max_bandwidth: int | None,
        archive: str | None,
        cache: str | None,
        max_cache_size: int | None,
        pin: bool,
        manifest: str | None,
        allow_other: bool,
        allow_non_empty: bool,
        uid: int,
        gid: int,
        file_mode: int,
        directory_mode: int,
    ) -> Mount:
        """Mount; the folder can be used when this returns.

        Args:
            endpoint_name: stands for the endpoint in inodes.
            prefix: empty, or with a slash at its end.
            source: text that the table of mounts shows.
            archive: key of a tar archive whose members are the root, where there is such an object.
            lifetime: seconds for which listings are believed; None: for good.
            freshness: ``ttl`` | ``open`` | ``frozen``.
            cache: a folder on a local disk that keeps blocks and names beyond this process.
            pin: keep what is read in the cache.
            manifest: a file that fixes names, sizes and versions.

        Raises:
            OSError: the mount failed, as one sentence for the user; nothing is left mounted.
            ValueError: a word or number is none of the above.
        """

    def wait(self, seconds: float) -> bool:
        """Wait until the folder is unmounted, by this process or another program. True when it is."""

    def unmount(self) -> None:
        """Unmount the folder. One in use is detached, and its session ends with the last open file.

        Raises:
            OSError: the system refuses.
        """

@final
class ShareMount:
    """A bucket mounted to be written. Linux only. It is served until it is unmounted or this object is dropped."""

    def __new__(
        cls,
        share: GatewayShare,
        *,
        state: str,
        cache: str,
        max_cache_size: int | None,
        unsafe_cache: bool,
        take_over: bool,
        memory: int,
        max_requests: int,
        max_bandwidth: int | None,
        directory: str,
        source: str,
        allow_other: bool,
        allow_non_empty: bool,
    ) -> ShareMount:
        """Mount; the folder can be used when this returns.

        Args:
            share: one that can be written.
            state: a folder for the table of files.
            cache: a folder on a local disk that keeps what is written until it is in the bucket.
            unsafe_cache: accept a cache that is not on a local disk.
            take_over: write also where the gateway of another cache has claimed the prefix; its uploads end.
            source: text that the table of mounts shows.

        Raises:
            OSError: the mount failed, as one sentence for the user; nothing is left mounted.
            ValueError: a permission is too large.
        """

    def wait(self, seconds: float) -> bool:
        """Wait until the folder is unmounted, by this process or another program. True when it is."""

    def unmount(self) -> None:
        """Unmount the folder. One in use is detached, and its session ends with the last open file.

        Raises:
            OSError: the system refuses.
        """

    def drain(self) -> None:
        """Begin to upload all that is not in the bucket yet, without waiting for files to be quiet."""

    def wait_for_drain(self, seconds: float) -> bool:
        """Wait until everything is in the bucket, after ``drain``. True when it is."""

    def upload_batches(self) -> list[UploadBatch]:
        """Upload batches that are not on record, also after the end; the oldest of each share first."""

    def freeze_upload_batches(self) -> None:
        """Put the outcomes of all uploads into batches. Raises OSError when the disk does not take them."""

@final
class ObjectFacts:
    """Facts of an object from a HEAD."""

    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def last_modified(self) -> float:
        """Seconds since the epoch."""
    @property
    def version_id(self) -> str | None: ...
    @property
    def storage_class(self) -> str | None: ...
    @property
    def archived(self) -> bool:
        """True for an object that must be restored before it can be read."""
    @property
    def checksum_algorithm(self) -> str | None: ...
    @property
    def checksum(self) -> str | None: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def content_encoding(self) -> str | None: ...
    @property
    def content_language(self) -> str | None: ...
    @property
    def content_disposition(self) -> str | None: ...
    @property
    def cache_control(self) -> str | None: ...
    @property
    def expires(self) -> str | None: ...
    @property
    def metadata(self) -> list[tuple[str, str]]: ...
    @property
    def tag_count(self) -> int | None: ...

@final
class ObjectVersion:
    """A version of an object, or a delete marker."""

    @property
    def key(self) -> str: ...
    @property
    def version_id(self) -> str:
        """``null`` where the bucket had no versions when it was written."""
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def last_modified(self) -> float: ...
    @property
    def storage_class(self) -> str | None: ...
    @property
    def is_latest(self) -> bool: ...
    @property
    def is_delete_marker(self) -> bool: ...

def list_buckets(engine: Engine, endpoint: Endpoint) -> list[tuple[str, float]]:
    """Names, and times of their making (seconds since the epoch)."""

def create_bucket(engine: Engine, endpoint: Endpoint, bucket: str) -> None: ...
def delete_bucket(engine: Engine, endpoint: Endpoint, bucket: str) -> None: ...
def list_versions(
    engine: Engine, endpoint: Endpoint, bucket: str, prefix: str, after: tuple[str, str | None] | None = None
) -> tuple[list[ObjectVersion], tuple[str, str | None] | None]:
    """One page, and where the next one begins; None at the end."""

def presign(
    engine: Engine,
    endpoint: Endpoint,
    bucket: str,
    key: str,
    *,
    version_id: str | None = None,
    put: bool = False,
    seconds: int = 3600,
) -> str: ...
def object_facts(
    engine: Engine, endpoint: Endpoint, bucket: str, key: str, version_id: str | None = None
) -> ObjectFacts: ...
def read_range(
    engine: Engine,
    endpoint: Endpoint,
    bucket: str,
    key: str,
    *,
    etag: str,
    version_id: str | None,
    first: int,
    last: int,
) -> bytes:
    """The bytes from ``first`` to ``last``, both included, while the object has this ETag."""

@final
class RecordedDigest:
    """A digest on record that the bytes of an object are compared with."""

    @staticmethod
    def of(
        size: int, *, checksum_algorithm: str | None, checksum: str | None, etag: str | None, part_size: int | None
    ) -> RecordedDigest | None:
        """The checksum, else the ETag if it is an MD5; None when nothing on record covers so many bytes.

        Args:
            size: bytes of the object.
            part_size: bytes of each part but the last; None or 0: unknown.
        """
    @property
    def name(self) -> str:
        """For a person, as ``CRC64NVME`` or ``ETag``."""
    @property
    def value(self) -> str:
        """Base64 of a checksum, hexadecimal digits of an ETag; over parts with their number at its end."""
    @property
    def part_sizes(self) -> list[int]:
        """Sizes that its parts may have, of a digest over the digests of parts; empty: it is over all bytes."""

@final
class RecordedObjects:
    """Objects of a place and their record, column by column. Raises ValueError for columns of different lengths."""

    def __new__(
        cls,
        *,
        ids: Sequence[int],
        keys: Sequence[str],
        sizes: Sequence[int],
        etags: Sequence[str],
        target_etags: Sequence[str | None],
        part_sizes: Sequence[int | None],
        checksum_algorithms: Sequence[str | None],
        checksums: Sequence[str | None],
    ) -> RecordedObjects:
        """Make them.

        Args:
            sizes: bytes of their sources.
            etags: of their sources.
            target_etags: of the objects.
            part_sizes: bytes of each part but the last; 0: unknown.
        """

@final
class DigestRequest:
    """An object, and the digest on record that its bytes are to be compared with."""

    def __new__(cls, key: str, *, etag: str, size: int, digest: RecordedDigest) -> DigestRequest:
        """Make a request; ``etag`` is the one that the object has now, empty where none is known."""

@final
class ContentDigests:
    """Digests that are being computed."""

    def next(self, timeout: float) -> list[tuple[list[str], Failure | None]] | None:
        """Wait for results, in the order of the requests; an empty list when none came in time, None after the last.

        A result has one value for each part size, or one: base64 of a checksum, hexadecimal digits of an MD5, with the
        number of parts at the end of those over parts; or why the object cannot be read.
        """
    def close(self) -> None:
        """Stop reading."""

def digest_objects(engine: Engine, endpoint: Endpoint, bucket: str, requests: list[DigestRequest]) -> ContentDigests:
    """Begin to read objects or files, many at a time, and to compute their digests."""

def abort_rules(engine: Engine, endpoint: Endpoint, bucket: str) -> list[tuple[str, int]]:
    """Prefix and days of each rule that aborts uploads which are not completed."""

def list_uploads(engine: Engine, endpoint: Endpoint, bucket: str, prefix: str) -> list[tuple[str, str, float]]:
    """Key, id, and time of the beginning of each open upload."""

def upload_sizes(
    engine: Engine, endpoint: Endpoint, bucket: str, uploads: list[tuple[str, str]]
) -> list[tuple[int, int] | None]:
    """Bytes and number of the parts of each; None for one that is gone."""

def abort_uploads(
    engine: Engine, endpoint: Endpoint, bucket: str, uploads: list[tuple[str, str]], *, epoch: int | None = None
) -> list[Failure | None]:
    """The reason why each could not be dropped; None for those that are gone."""
