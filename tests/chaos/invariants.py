"""What has to hold whenever all is healed and has ended, whatever was struck before.

Looked at by boto3, the simulator's own comparison and plain SQL: nothing here is the product's code but ``audit``.
"""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from chaos.load import Job, digest
from chaos.observer import Effect, Observer, Seen
from chaos.world import World

COUNTERS: Final = ("done", "skipped", "failed", "cancelled")
_MULTIPART: Final = 5 * 1024 * 1024
_HELD_UP_SECONDS: Final = 5.0
_ON_ITS_WAY_SECONDS: Final = 1.0
"""A request may be so long on its way from a worker to the proxy, which dates it."""


class Invariants:
    """``check`` returns what is violated, each as a sentence, and counts what it comes across."""

    def __init__(self, world: World, observer: Observer) -> None:
        self._world = world
        self._observer = observer
        self._audited = 0
        self.counted: Counter[str] = Counter()

    def check(self, jobs: list[Job], seen: Seen, fed: dict[str, bytes], worker_faults: Sequence[float]) -> list[str]:
        """Args: ``worker_faults``: when a worker was struck, by the clock of the effects."""
        listing = self._listing()
        return [
            *self._outcomes(jobs, listing),
            *self._fed(listing, fed),
            *self._moves(jobs, seen),
            *self._written_again(seen),
            *self._parts_again(seen, worker_faults),
            *self._uploads(seen),
            *self._counters(),
            *self._queue(),
            *self._chains(),
        ]

    # --- objects ---

    def _outcomes(self, jobs: list[Job], listing: dict[str, tuple[int, str]]) -> Iterator[str]:
        """Every object is at the target as it was sent, or failed with a cause; none is lost."""
        for job in jobs:
            state, code, message = self._observer.query(
                "SELECT state, error_code, error_message FROM transfer WHERE id = %s", (job.transfer_id,)
            )[0]
            self.counted[f"transfers {state}"] += 1
            what = f"{job.kind} {job.transfer_id} (job {job.number})"
            if state not in {"done", "done_with_failures", "failed"} | (
                {"cancelled"} if job.may_be_cancelled else set()
            ):
                yield f"{what} ended as {state}"
            if state == "failed" and not (code and message):
                yield f"{what} failed without a cause"
            rows = self._observer.query(
                "SELECT source_key, target_key, state, verified, error_class, error_message, size"
                " FROM object WHERE transfer_id = %s",
                (job.transfer_id,),
            )
            self.counted["objects"] += len(rows)
            for row in rows:
                self.counted[f"objects {row[2]}"] += 1
                if row[2] == "failed" and not (row[4] and row[5]):
                    yield f"{what}: {row[0]} failed without a cause"
                if row[2] == "done" and job.kind != "rm" and not row[3]:
                    yield f"{what}: {row[1]} is done and was not verified"
            failed = {row[0] for row in rows if row[2] == "failed"}
            if state == "failed" and not rows:
                continue
            is_whole = state not in {"failed", "cancelled"}
            if state == "cancelled":
                finished = {row[0] for row in rows if row[2] in {"done", "skipped"}}
                failed |= {job.source + name for name in job.expected} - finished
            yield from (f"{what}: {one}" for one in self._outcome(job, rows, failed, listing, is_whole=is_whole))

    def _outcome(
        self,
        job: Job,
        rows: list[tuple[Any, ...]],
        failed: set[str],
        listing: dict[str, tuple[int, str]],
        *,
        is_whole: bool,
    ) -> Iterator[str]:
        """``is_whole``: the transfer neither failed as such, with a cause, nor was cancelled.

        A move then leaves nothing at its source.
        """
        if job.kind.startswith("sim-"):
            yield from self._simulated(job, rows, failed)
            return
        if len(rows) != len(job.expected) and not job.may_be_cancelled:
            yield f"{len(rows)} objects are on record, {len(job.expected)} were sent"
        if job.kind == "pack":
            if not failed:
                yield from self._packed(job)
            return
        for name, body in job.expected.items():
            if job.source + name in failed:
                continue
            if job.kind in {"mv", "rm"} and is_whole and job.source + name in listing:
                yield f"{job.source + name} is still at the source"
            if job.kind != "rm" and (wrong := self._wrong(job.target + name, body, listing)):
                yield wrong
        if job.kind == "mv":
            for name in job.expected:
                if job.source + name not in listing and job.target + name not in listing:
                    yield f"{name} is lost"

    def _wrong(self, key: str, body: bytes, listing: dict[str, tuple[int, str]]) -> str:
        if key not in listing:
            return f"{key} is not at the target"
        size, etag = listing[key]
        if size != len(body):
            return f"{key} has {size} bytes, not {len(body)}"
        if "-" not in etag:
            return "" if etag == digest(body) else f"{key} has other content"
        found = self._world.server.client().get_object(Bucket=self._world.bucket, Key=key)["Body"].read()
        return "" if found == body else f"{key} has other content"

    def _simulated(self, job: Job, rows: list[tuple[Any, ...]], failed: set[str]) -> Iterator[str]:
        if job.kind == "sim-cp":
            found = self._world.simulator.check(f"{job.source}/", f"sim/{job.target}")
            if found["same"] + len(failed) != found["objects"] or found["objects"] != len(rows):
                yield f"the simulator compares {found}; {len(rows)} are on record, {len(failed)} failed"
            return
        client = self._world.simulator.client()
        for name, body in job.expected.items():
            if job.source + name in failed:
                continue
            found = client.head_object(Bucket="sim", Key=job.target + name)
            if (found["ContentLength"], found["ETag"].strip('"')) != (len(body), _etag(body)):
                yield f"{job.target + name} has other content"

    def _packed(self, job: Job) -> Iterator[str]:
        client, bucket = self._world.server.client(), self._world.bucket
        body = client.get_object(Bucket=bucket, Key=job.target)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            members: dict[str, bytes] = {}
            for one in archive:
                content = archive.extractfile(one)
                members[one.name] = content.read() if content else b""
        if members != job.expected:
            yield f"the archive has {len(members)} members, of which other names or contents"

    def _fed(self, listing: dict[str, tuple[int, str]], fed: dict[str, bytes]) -> Iterator[str]:
        """What a schedule has copied is what it was given."""
        for key in listing:
            if key.startswith("fed/") and (wrong := self._wrong(key, fed[key.removeprefix("fed/")], listing)):
                yield f"schedule: {wrong}"

    # --- requests ---

    def _moves(self, jobs: list[Job], seen: Seen) -> Iterator[str]:
        """No source is removed before its target is whole."""
        for job in jobs:
            if job.kind != "mv":
                continue
            for name in job.expected:
                removed = min((one.started for one in seen.removed.get(job.source + name, ())), default=None)
                whole = min((one.ended for one in seen.wholes.get(job.target + name, ())), default=None)
                if removed is not None and (whole is None or removed < whole):
                    yield f"{job.source + name} was removed at {removed}, its target was whole at {whole}"

    def _written_again(self, seen: Seen) -> Iterator[str]:
        """What was on record as done is not written again; what was, was in flight at a fault."""
        since: dict[str, float] = {}
        for (_, key), at in self._observer.done_since.items():
            since[key] = min(at, since.get(key, at))
        for key, effects in seen.wholes.items():
            if len(effects) > 1:
                self.counted["objects written again"] += len(effects) - 1
                self.counted["bytes written again"] += self._size(key) * (len(effects) - 1)
            if any(not one.told for one in effects) and len(effects) == 1:
                name = "late Complete found" if effects[0].operation == "CompleteMultipartUpload" else "late copy found"
                self.counted[name] += 1
            if (both := _at_once(effects)) is not None:
                yield f"{key} was written by two at once: {both}"
            late = [one for one in effects if one.started > since.get(key, float("inf"))]
            if late:
                yield f"{key} was on record at {since[key]}, and written again: {late}"

    def _parts_again(self, seen: Seen, worker_faults: Sequence[float]) -> Iterator[str]:
        """A part that had ended before the parts of its upload were listed is not copied again.

        But for one in flight when a worker was struck: one that was frozen for longer than its lease gives it up.
        """
        for (key, upload, number), effects in seen.parts.items():
            if len(effects) == 1:
                continue
            self.counted["parts copied again"] += len(effects) - 1
            self.counted["bytes written again"] += _MULTIPART * (len(effects) - 1)
            first = min((one for one in effects if one.told), default=None, key=lambda one: one.ended)
            if first is None or any(first.started - _ON_ITS_WAY_SECONDS <= at <= first.ended for at in worker_faults):
                continue
            for one in effects:
                if one is not first and one.started > first.ended and not _listed_during(seen, upload, first):
                    yield f"part {number} of {key} had ended at {first.ended} and was copied again: {effects}"
        for upload, times in seen.listed.items():
            after = max(end for _, end in times)
            if any(one.started > after for (_, of, _), parts in seen.parts.items() if of == upload for one in parts):
                self.counted["upload adopted"] += 1

    def _uploads(self, seen: Seen) -> Iterator[str]:
        """No upload is open, but those whose ids no client was ever told."""
        client, bucket = self._world.server.client(), self._world.bucket
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
            for one in page.get("Uploads", ()):
                if seen.created.get(one["UploadId"], True):
                    yield f"the upload {one['UploadId']} of {one['Key']} is open"
                else:
                    self.counted["uploads without an owner"] += 1
                    client.abort_multipart_upload(Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"])

    # --- rows ---

    def _counters(self) -> Iterator[str]:
        """Counters of batches are those of rows, and those of transfers are sums of their batches."""
        sums = ", ".join(f"count(*) FILTER (WHERE o.state = '{name}') AS {name}" for name in COUNTERS)
        differ = " OR ".join(f"b.{name} <> s.{name}" for name in COUNTERS)
        for row in self._observer.query(
            f"SELECT b.transfer_id, b.number FROM batch b JOIN (SELECT transfer_id, batch_number, count(*) AS objects,"
            f" sum(size) AS bytes, {sums} FROM object o GROUP BY 1, 2) s ON s.transfer_id = b.transfer_id"
            f" AND s.batch_number = b.number WHERE b.objects <> s.objects OR b.bytes <> s.bytes OR {differ}"
        ):
            yield f"the counters of batch {row[1]} of {row[0]} are not those of its rows"
        names = ("objects", "bytes", "bytes_done", *COUNTERS)
        sums = ", ".join(f"sum({name}) AS {name}" for name in names)
        differ = " OR ".join(f"t.{name} <> s.{name}" for name in names)
        for row in self._observer.query(
            f"SELECT t.transfer_id FROM tally t JOIN (SELECT transfer_id, {sums} FROM batch GROUP BY 1) s"
            f" ON s.transfer_id = t.transfer_id WHERE {differ}"
        ):
            yield f"the tally of {row[0]} is not the sum of its batches"
        for row in self._observer.query("SELECT transfer_id, number FROM batch WHERE state <> 'ended'"):
            yield f"batch {row[1]} of {row[0]} has not ended, its transfer has"
        for row in self._observer.query(
            "SELECT o.transfer_id, o.source_key FROM object o JOIN transfer t ON t.id = o.transfer_id"
            " WHERE t.ended_at IS NOT NULL AND o.state NOT IN ('done', 'skipped', 'failed', 'cancelled')"
        ):
            yield f"{row[1]} of {row[0]} is still open, its transfer has ended"

    def _queue(self) -> Iterator[str]:
        """Nothing is left on the queue, and none was given up."""
        for row in self._observer.query(
            "SELECT workflow_uuid, status, executor_id FROM dbos.workflow_status"
            " WHERE status IN ('PENDING', 'ENQUEUED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')"
        ):
            yield f"the work {row[0]} is left as {row[1]} by {row[2]}"

    def _chains(self) -> Iterator[str]:
        """Each entry of the record holds the hash of the one before; the product finds its keyed hashes right."""
        for row in self._observer.query(
            "SELECT e.transfer_id, e.number FROM event e LEFT JOIN event p"
            " ON p.transfer_id = e.transfer_id AND p.number = e.number - 1"
            " WHERE e.number > (SELECT min(number) FROM event m WHERE m.transfer_id = e.transfer_id)"
            " AND e.previous IS DISTINCT FROM p.hash"
        ):
            yield f"event {row[1]} of {row[0]} does not follow the one before"
        for row in self._observer.query(
            "SELECT l.number FROM ledger l LEFT JOIN ledger p ON p.number = l.number - 1"
            " WHERE l.number > (SELECT min(number) FROM ledger) AND l.previous IS DISTINCT FROM p.hash"
        ):
            yield f"entry {row[0]} of the ledger does not follow the one before"
        for row in self._observer.query(
            "SELECT e.transfer_id, e.number FROM event e JOIN transfer t ON t.id = e.transfer_id LEFT JOIN ledger l"
            " ON l.transfer_id = e.transfer_id AND l.event_number = e.number AND l.event_hash = e.hash"
            " WHERE l.number IS NULL AND (e.number = (SELECT min(number) FROM event m WHERE m.transfer_id = t.id)"
            " OR t.ended_at IS NOT NULL AND e.number = (SELECT max(number) FROM event m WHERE m.transfer_id = t.id))"
        ):
            yield f"event {row[1]} of {row[0]} is not in the ledger"
        status, output, errors = self._world.ferry("audit", "verify", deadline=120)
        if status != 0:
            yield f"audit verify: status {status}: {output[-500:]} {errors[-500:]}"

    def _size(self, key: str) -> int:
        found = self._observer.query("SELECT size FROM object WHERE target_key = %s LIMIT 1", (key,))
        return found[0][0] if found else 0

    def _listing(self) -> dict[str, tuple[int, str]]:
        pages = self._world.server.client().get_paginator("list_objects_v2").paginate(Bucket=self._world.bucket)
        return {one["Key"]: (one["Size"], one["ETag"].strip('"')) for page in pages for one in page.get("Contents", ())}


def _etag(body: bytes) -> str:
    """As S3 gives it to an upload, in parts of the size that all commands of the load name."""
    if len(body) <= _MULTIPART:
        return digest(body)
    parts = [body[at : at + _MULTIPART] for at in range(0, len(body), _MULTIPART)]
    whole = b"".join(bytes.fromhex(digest(part)) for part in parts)
    return f"{digest(whole)}-{len(parts)}"


def _at_once(effects: list[Effect]) -> tuple[Effect, Effect] | None:
    """Two writes side by side, of which both writers were told: the one owner of a batch sends none beside another.

    Those that were held up for long are left out: their client may have been stopped meanwhile, and another have its
    work (docs/guarantees/durability.md, "One case is left").
    """
    told = [one for one in effects if one.told and one.ended - one.started < _HELD_UP_SECONDS]
    for first, second in pairwise(sorted(told, key=lambda one: one.started)):
        if second.started < first.ended:
            return first, second
    return None


def _listed_during(seen: Seen, upload: str, part: Effect) -> bool:
    """Whether a new owner may have listed the parts while this one was in flight."""
    return any(began <= part.ended and part.started <= ended for began, ended in seen.listed.get(upload, ()))
