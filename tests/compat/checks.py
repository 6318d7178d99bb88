"""The round trip against one endpoint: the installed command does the work, boto3 prepares and reads back.

A check returns a :class:`Finding`. What the service cannot do for boto3 either is ``lacks``: the product has nothing
to carry there. What the product does otherwise since the service lacks something is ``learned``, by its own words.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import re
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from compat.fleet import Endpoint
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.buckets import CONTENT_HEADERS, odd_keys
from support.processes import RunningProcess, seqferry
from support.waiting import eventually

Verdict = Literal["works", "learned", "in part", "lacks", "fails"]

MIB: Final = 1024 * 1024
IN_PARTS: Final = ("--part-size", "5MiB", "--copy-threshold", "5MiB")
# For a machine with much else to do.
_WITHIN: Final = 300.0
# Retrying what a service lacks is a defect, also when it ends well.
_RETRIES: Final = 5
_REFUSED: Final = (ClientError, BotoCoreError, S3UploadFailedError)


@dataclass(frozen=True)
class Finding:
    """What a check showed, and the reason where there is one."""

    verdict: Verdict
    note: str = ""


class CheckError(Exception):
    """The product did not do what the check asks for; the text says how."""


@dataclass(frozen=True)
class CommandOutcome:
    """A command that has ended."""

    code: int
    summary: dict[str, Any]
    stderr: str

    @property
    def learned(self) -> list[str]:
        """What the product says of the endpoint, without the bucket's name."""
        said = re.findall(r"(?:s3://[^ ]+: )?(the endpoint [^.]+)", self.stderr)
        return list(dict.fromkeys(said))

    @property
    def verification(self) -> str:
        """How the objects were proven."""
        return ", ".join(sorted(self.summary.get("verified", {})))


@dataclass
class Bench:
    """A place of its own in a bucket, and the means to work there."""

    endpoint: Endpoint
    bucket: str
    prefix: str
    folder: Path
    rng: random.Random
    learned: list[str] = field(default_factory=list[str])
    verification: list[str] = field(default_factory=list[str])
    odd: list[str] = field(default_factory=list[str])
    """Keys that may be there and be listed under other names."""

    def __post_init__(self) -> None:
        self.client = self.endpoint.client(max_pool_connections=16)

    # --- what boto3 does ---

    def put(self, key: str, size: int, **more: Any) -> bytes:
        body = self.rng.randbytes(size)
        self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=body, **more)
        return body

    def put_in_parts(self, key: str, size: int, **more: Any) -> bytes:
        body = self.rng.randbytes(size)
        config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, use_threads=False)

        def upload(client: Any) -> None:
            client.upload_fileobj(
                io.BytesIO(body), self.bucket, self.prefix + key, Config=config, ExtraArgs=more or None
            )

        try:
            upload(self.client)
        except _REFUSED:
            # S3Mock wants checksums of parts that it does not tell.
            upload(self.endpoint.client(request_checksum_calculation="when_required"))
        return body

    def listed(self, below: str = "") -> list[str]:
        """Keys below a prefix of ours, without it."""
        start = self.prefix + below
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=start)
        return [entry["Key"][len(start) :] for page in pages for entry in page.get("Contents", ())]

    def read(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"].read()

    def digests(self, below: str) -> dict[str, str]:
        return {key: _digest(self.read(below + key)) for key in self.listed(below)}

    def open_uploads(self) -> list[str] | None:
        """Keys of open uploads of ours; None: the service does not tell."""
        try:
            reply = self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=self.prefix)
        except ClientError as error:
            # rclone says so where there are none.
            return [] if error.response["Error"]["Code"] == "NoSuchUpload" else None
        except BotoCoreError:
            return None
        return [upload["Key"] for upload in reply.get("Uploads", ()) if upload["Key"].startswith(self.prefix)]

    # --- what the product does ---

    @property
    def root(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator[RunningProcess]:
        environment = {**self.endpoint.environment(), "SEQFERRY_STATE_DIR": str(self.state)}
        with RunningProcess([seqferry(), *arguments], environment=environment) as running:
            yield running

    def run(self, *arguments: str, expect: int | None = 0) -> CommandOutcome:
        """A command with ``--json`` to its end."""
        with self.started(*arguments, "--json") as running:
            try:
                code = running.wait(_WITHIN)
            except TimeoutError:
                raise CheckError(f"{arguments[0]} did not end within {_WITHIN:g} s") from None
            ran = _ran(code, running)
        if expect is not None and code != expect:
            raise CheckError(_why(ran))
        self.learned += [text for text in ran.learned if text not in self.learned]
        if ran.summary.get("retries", 0) > _RETRIES:
            raise CheckError(f"{ran.summary['retries']} requests were sent again")
        proven = [text for text in ran.summary.get("verified", {}) if text != "none"]
        self.verification += [text for text in proven if text not in self.verification]
        return ran

    def conclude(self, note: str = "") -> Finding:
        """It works; how, and what was learned on the way."""
        proven = f"proven by {', '.join(sorted(self.verification))}" if self.verification else ""
        text = "; ".join(part for part in (note, proven, *self.learned) if part)
        return Finding("learned" if self.learned else "works", text)


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    name: str
    title: str
    run: Callable[[Bench], Finding]
    quick: bool
    """Whether it is cheap enough for every test run."""


def every_check() -> list[Check]:
    return list(_CHECKS)


def look(endpoint: Endpoint, check: Check, bucket: str, seed: int) -> Finding:
    """Runs one check in a place of its own, which is empty afterwards."""
    prefix = f"seqferry-compat-{seed:08x}/{check.name}/"
    with tempfile.TemporaryDirectory(prefix="seqferry-compat-") as folder:
        bench = Bench(endpoint, bucket, prefix, Path(folder), random.Random(f"{seed}{check.name}"))
        try:
            return check.run(bench)
        except CheckError as failed:
            return Finding("fails", str(failed))
        except _REFUSED as error:
            return Finding("lacks", f"boto3 is refused as well: {_short(str(error))}")
        finally:
            clean(bench)


def clean(bench: Bench) -> None:
    """Best effort: removes objects and uploads of a bench."""
    with contextlib.suppress(*_REFUSED):
        for key in {*bench.listed(), *bench.odd}:
            with contextlib.suppress(*_REFUSED):
                bench.client.delete_object(Bucket=bench.bucket, Key=bench.prefix + key)
    with contextlib.suppress(*_REFUSED):
        uploads = bench.client.list_multipart_uploads(Bucket=bench.bucket, Prefix=bench.prefix).get("Uploads", ())
        for upload in uploads:
            with contextlib.suppress(*_REFUSED):
                bench.client.abort_multipart_upload(Bucket=bench.bucket, Key=upload["Key"], UploadId=upload["UploadId"])


# --- the checks -------------------------------------------------------------------------------------------------------


def _mirror_at_once(bench: Bench) -> Finding:
    made = {f"{n:02}": _digest(bench.put(f"from/{n:02}", size)) for n, size in enumerate((0, 1, *[40_000] * 10))}
    bench.run("cp", f"{bench.root}from/", f"{bench.root}to/")
    _same(made, bench.digests("to/"))
    return bench.conclude()


def _mirror_in_parts(bench: Bench) -> Finding:
    made = {
        "parts": _digest(bench.put_in_parts("from/parts", 12 * MIB)),
        "one": _digest(bench.put("from/one", 12 * MIB)),
    }
    bench.run("cp", f"{bench.root}from/", f"{bench.root}to/", "--copy-threshold", "5MiB")
    bench.run("cp", f"{bench.root}from/", f"{bench.root}cut/", *IN_PARTS)
    _same(made, bench.digests("to/"))
    _same(made, bench.digests("cut/"))
    _nothing_open(bench)
    return bench.conclude()


def _files(bench: Bench, folder: str, sizes: dict[str, int]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, size in sizes.items():
        path = bench.folder / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        body = bench.rng.randbytes(size)
        path.write_bytes(body)
        made[name] = _digest(body)
    return made


def _upload(bench: Bench) -> Finding:
    small = _files(bench, "small", {f"lane/{n}.fq": n * 1000 for n in range(12)})
    bench.run("cp", f"{bench.folder}/small/", f"{bench.root}small/")
    large = _files(bench, "large", {"run.bam": 17 * MIB + 5})
    bench.run("cp", f"{bench.folder}/large/", f"{bench.root}large/", *IN_PARTS)
    _same(small, bench.digests("small/"))
    _same(large, bench.digests("large/"))
    _nothing_open(bench)
    return bench.conclude()


def _download(bench: Bench) -> Finding:
    made = {f"{n}.fq": _digest(bench.put(f"from/{n}.fq", n * 1000)) for n in range(12)}
    made["one.bam"] = _digest(bench.put("from/one.bam", 17 * MIB + 5))
    made["parts.bam"] = _digest(bench.put_in_parts("from/parts.bam", 17 * MIB + 5))
    bench.run("cp", f"{bench.root}from/", f"{bench.folder}/to/", *IN_PARTS)
    _same(made, {path.name: _digest(path.read_bytes()) for path in (bench.folder / "to").iterdir()})
    return bench.conclude()


def _sync_again(bench: Bench) -> Finding:
    for n in range(5):
        bench.put(f"from/{n}", 3000)
    bench.put_in_parts("from/parts", 11 * MIB)
    _files(bench, "files", {"small": 3000, "large": 11 * MIB})
    ways = ((f"{bench.root}from/", f"{bench.root}to/"), (f"{bench.folder}/files/", f"{bench.root}up/"))
    for way in ways:
        bench.run("sync", *way, *IN_PARTS)
        # Another command: the record of the first one decides nothing, and the server is asked.
        again = bench.run("sync", *way, *IN_PARTS, "--exclude", "*.tmp").summary
        if again["objects_skipped"] != again["objects"] or again["bytes_copied"]:
            raise CheckError(f"a second sync skips {again['objects_skipped']} of {again['objects']} objects only")
    return bench.conclude()


def _sync_delete(bench: Bench) -> Finding:
    kept = {f"{n}": _digest(bench.put(f"from/{n}", 3000)) for n in range(5)}
    for n in range(3):
        bench.put(f"to/gone-{n}", 100)
    ran = bench.run("sync", "--delete", f"{bench.root}from/", f"{bench.root}to/")
    _same(kept, bench.digests("to/"))
    if ran.summary["removed"] != 3:
        raise CheckError(f"{ran.summary['removed']} removed instead of 3")
    return bench.conclude()


def _odd_keys(bench: Bench) -> Finding:
    wanted = odd_keys(None)
    bench.odd += [f"{below}/{key}" for below in ("from", "probe", "to") for key in wanted]
    for key in wanted:
        with contextlib.suppress(*_REFUSED):
            bench.put(f"from/{key}", 20)
    # What boto3 can copy there, and is listed under its name afterwards.
    for key in wanted:
        source = {"Bucket": bench.bucket, "Key": f"{bench.prefix}from/{key}"}
        with contextlib.suppress(*_REFUSED):
            bench.client.copy_object(Bucket=bench.bucket, Key=f"{bench.prefix}probe/{key}", CopySource=source)
    fit = set(wanted) & set(bench.listed("from/")) & set(bench.listed("probe/"))
    # Keys that the service lists under another name fail one by one.
    bench.run("cp", f"{bench.root}from/", f"{bench.root}to/", expect=None)
    missing = sorted(fit - set(bench.listed("to/")))
    if missing:
        raise CheckError(f"{len(missing)} of {len(fit)} keys are missing, as {missing[0]!r}")
    if len(fit) < len(wanted):
        note = f"{len(fit)} of {len(wanted)}: the service refuses or renames the others"
        return Finding("in part", "; ".join([note, *bench.learned]))
    return bench.conclude()


def _metadata(bench: Bench) -> Finding:
    dress: dict[str, Any] = {
        "ContentType": "application/x-bam",
        "CacheControl": "max-age=60",
        "ContentDisposition": 'attachment; filename="run 1.bam"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
        "Expires": "Wed, 21 Oct 2037 07:28:00 GMT",
        "Metadata": {"sample-id": "S1", "note": "a value with spaces, commas; and = signs"},
    }
    bench.put("from/one", 100, **dress)
    bench.put_in_parts("from/parts", 6 * MIB, **dress)
    wanted = {key: _dress(bench, f"from/{key}") for key in ("one", "parts")}
    bench.run("cp", f"{bench.root}from/", f"{bench.root}to/", *IN_PARTS)
    bench.run("cp", f"{bench.root}from/parts", f"{bench.root}at-once/parts")
    # What the service's own copies lose.
    source = {"Bucket": bench.bucket, "Key": f"{bench.prefix}from/one"}
    bench.client.copy_object(Bucket=bench.bucket, Key=f"{bench.prefix}probe", CopySource=source)
    dropped = _lost(bench, wanted["one"], "probe")
    for key, path in (("one", "to/one"), ("parts", "to/parts"), ("parts", "at-once/parts")):
        lost = _lost(bench, wanted[key], path) - dropped
        if lost:
            raise CheckError(f"{path} lacks {', '.join(sorted(lost))}")
    unkept = {name for name in CONTENT_HEADERS[:-1] if name not in wanted["one"]}
    notes = [
        *([f"the service keeps no {', '.join(sorted(unkept))}"] if unkept else []),
        *([f"copies that the service makes lose {', '.join(sorted(dropped))}"] if dropped else []),
    ]
    if notes:
        return Finding("in part", "; ".join([*notes, *bench.learned]))
    return bench.conclude()


def _lost(bench: Bench, wanted: dict[str, str], path: str) -> set[str]:
    there = _dress(bench, path)
    return {name for name, value in wanted.items() if there.get(name) != value}


def _dress(bench: Bench, key: str) -> dict[str, str]:
    head = bench.client.head_object(Bucket=bench.bucket, Key=bench.prefix + key)
    headers = {name: head[name] for name in CONTENT_HEADERS if head.get(name)}
    if "ContentEncoding" in headers:
        headers["ContentEncoding"] = headers["ContentEncoding"].replace(",aws-chunked", "").replace("aws-chunked,", "")
    # rclone adds one of its own, with the time of the object.
    return {**headers, **{f"x-amz-meta-{name}": value for name, value in head["Metadata"].items() if name != "mtime"}}


def _tags(bench: Bench) -> Finding:
    tags = {"project": "p1", "purpose": "a value/with:signs"}
    bench.put("from/one", 100, Tagging=urllib.parse.urlencode(tags))
    bench.put_in_parts("from/parts", 6 * MIB, Tagging=urllib.parse.urlencode(tags))
    if _tags_of(bench, "from/one") != tags:
        bench.run("cp", f"{bench.root}from/", f"{bench.root}to/", *IN_PARTS)
        return Finding("lacks", "; ".join(["the service keeps no tags", *bench.learned]))
    bench.run("cp", f"{bench.root}from/", f"{bench.root}to/", *IN_PARTS)
    for key in ("one", "parts"):
        if _tags_of(bench, f"to/{key}") != _tags_of(bench, f"from/{key}"):
            raise CheckError(f"to/{key} has tags {_tags_of(bench, f'to/{key}')}")
    return bench.conclude()


def _tags_of(bench: Bench, key: str) -> dict[str, str] | None:
    try:
        reply = bench.client.get_object_tagging(Bucket=bench.bucket, Key=bench.prefix + key)
    except Exception:  # noqa: BLE001 - botocore has many names for an answer that is no XML
        return None
    return {tag["Key"]: tag["Value"] for tag in reply.get("TagSet", ())}


def _kill_and_resume(bench: Bench) -> Finding:
    made = _files(bench, "files", {"run.bam": 40 * MIB})
    arguments = ("cp", f"{bench.folder}/files/run.bam", f"{bench.root}to/run.bam", *IN_PARTS)
    with bench.started(*arguments, "--max-bandwidth", "10MiB", "--json") as running:
        transfer = _under_way(bench, running)
    ran = bench.run("resume", transfer)
    _same(made, bench.digests("to/"))
    _nothing_open(bench)
    if ran.summary.get("objects_done") != 1:
        raise CheckError(_why(ran))
    return bench.conclude()


def _cancel(bench: Bench) -> Finding:
    _files(bench, "files", {"run.bam": 40 * MIB})
    arguments = ("cp", f"{bench.folder}/files/run.bam", f"{bench.root}to/run.bam", *IN_PARTS)
    with bench.started(*arguments, "--max-bandwidth", "10MiB", "--json") as running:
        transfer = _under_way(bench, running)
        with bench.started("cancel", transfer) as cancelling:
            if cancelling.wait(_WITHIN) != 0:
                raise CheckError(_short(cancelling.stderr))
        running.wait(_WITHIN)
    if bench.listed("to/"):
        raise CheckError("an object was left")
    _nothing_open(bench)
    return bench.conclude("" if bench.open_uploads() is not None else "open uploads are not listed")


def _under_way(bench: Bench, running: RunningProcess) -> str:
    """The id of a transfer that has sent a part."""

    def sent() -> str:
        if not running.running:
            raise CheckError(_why(_ran(running.wait(1.0), running)))
        first = running.stdout.partition("\n")
        if not first[1]:
            return ""
        transfer = json.loads(first[0])["id"]
        with Service.open(Settings.load({"SEQFERRY_STATE_DIR": str(bench.state)})) as service:
            return transfer if service.status(transfer).totals.bytes_done >= 5 * MIB else ""

    try:
        return eventually(sent, what="a part to be sent", deadline=_WITHIN)
    except TimeoutError as error:
        raise CheckError(str(error)) from None


def _conditions(bench: Bench) -> Finding:
    old = bench.put("to/one", 100)
    bench.put("from/one", 100)
    way = (f"{bench.root}from/one", f"{bench.root}to/one")
    bench.run("cp", *way, "--if-exists", "fail", expect=1)
    bench.run("cp", *way, "--if-exists", "skip")
    if bench.read("to/one") != old:
        raise CheckError("what was there was replaced")
    try:
        bench.client.put_object(Bucket=bench.bucket, Key=f"{bench.prefix}to/one", Body=b"", IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] == "PreconditionFailed":
            return bench.conclude("If-None-Match is honoured")
        code = error.response["Error"]["Code"]
        return Finding("in part", f"If-None-Match is refused ({code}): the look before is all there is")
    return Finding("in part", "If-None-Match is ignored: the look before is all there is")


def _checksums(bench: Bench) -> Finding:
    _files(bench, "files", {"small": 1000, "large": 11 * MIB})
    bench.run("cp", f"{bench.folder}/files/", f"{bench.root}to/", *IN_PARTS)
    kept: list[str] = []
    for key in ("small", "large"):
        head = bench.client.head_object(Bucket=bench.bucket, Key=f"{bench.prefix}to/{key}", ChecksumMode="ENABLED")
        kept += sorted(name.removeprefix("Checksum") for name in head if re.fullmatch(r"Checksum[A-Z].*\d\w*", name))
    note = f"the service keeps {', '.join(dict.fromkeys(kept))}" if kept else "the service keeps none"
    found = bench.conclude(note)
    return found if kept else Finding("in part" if found.verdict == "works" else found.verdict, found.note)


_CHECKS: Final = (
    Check("mirror", "Mirror, one request for each object", _mirror_at_once, quick=True),
    Check("parts", "Mirror in parts", _mirror_in_parts, quick=True),
    Check("upload", "Upload, small files and in parts", _upload, quick=True),
    Check("download", "Download, small objects and by ranges", _download, quick=True),
    Check("again", "A second `sync` copies nothing", _sync_again, quick=True),
    Check("delete", "`sync --delete`", _sync_delete, quick=True),
    Check("keys", "Odd keys", _odd_keys, quick=False),
    Check("metadata", "Metadata and content headers", _metadata, quick=True),
    Check("tags", "Tags", _tags, quick=True),
    Check("checksums", "Checksums of uploads", _checksums, quick=True),
    Check("conditions", "Nothing is replaced unasked", _conditions, quick=False),
    Check("kill", "`kill -9` and resume of an upload in parts", _kill_and_resume, quick=False),
    Check("cancel", "A cancel leaves no open upload", _cancel, quick=False),
)


# --- words ------------------------------------------------------------------------------------------------------------


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _same(wanted: dict[str, Any], got: dict[str, Any]) -> None:
    for key in sorted(wanted.keys() | got.keys()):
        if wanted.get(key) != got.get(key):
            how = "is missing" if key not in got else "should not be there" if key not in wanted else "is different"
            raise CheckError(f"{key!r} {how}")


def _nothing_open(bench: Bench) -> None:
    left = bench.open_uploads()
    if left:
        raise CheckError(f"{len(left)} uploads were left open")


def _ran(code: int, running: RunningProcess) -> CommandOutcome:
    events = [json.loads(line) for line in running.stdout.splitlines() if line.startswith("{")]
    return CommandOutcome(code, events[-1] if events else {}, running.stderr)


def _why(ran: CommandOutcome) -> str:
    failures = ran.summary.get("failures") or []
    text = failures[0]["message"] if failures else ran.summary.get("error_message") or ran.stderr or "no word"
    return f"exit status {ran.code}: {_short(text)}"


def _short(text: str, most: int = 200) -> str:
    """One line without what differs from run to run."""
    text = " ".join(text.split())
    text = re.sub(r"s3://[^ ]*?seqferry-compat-[0-9a-f]{8}/", "s3://.../", text)
    text = re.sub(r"[0-9a-f]{8,}[-\w]*", "...", text)
    return text if len(text) <= most else text[: most - 3] + "..."
