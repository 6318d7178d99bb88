"""The summary at the end of a transfer: figures, verifications, and failures grouped by cause with a next step."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from seqferry.cli.output import text
from seqferry.model.frozen import frozen
from seqferry.model.messages import steps
from seqferry.model.models import (
    WITH_FAILURES,
    FailureGroup,
    ObjectRecord,
    Status,
    Verification,
)
from seqferry.model.operations import Operation
from seqferry.spec.selection import build_conditions, has_conditions
from seqferry.spec.validation import is_empty_archive, streaming_reason

if TYPE_CHECKING:
    from seqferry.db.record.ledger import Head
    from seqferry.proof.costs import CountedCost

KEYS_PER_GROUP: Final = 20
"""Failed keys that are named per cause; ``status --failed`` names them all."""

_TITLE: Final = {"done": "Done", "failed": "Stopped", "cancelled": "Cancelled"}


@frozen
class TransferSummary:
    """The data that a summary shows of a transfer that has ended."""

    status: Status
    verifications: list[Verification]
    failures: list[FailureGroup]
    removed: int = 0
    nearest: Sequence[str] = ()
    """Keys most similar to the requested ones, where nothing was selected."""
    moved: int = 0
    """Objects that were removed at the source, of a move."""
    ledger: Head | None = None
    """Head of the audit ledger after the end; None where no key signs it."""
    cost: CountedCost | None = None
    """Cost of the counted requests; None where they have no price, and where it was not requested."""

    @property
    def seconds(self) -> float:
        """Seconds from the first act of a worker to the end; waiting for a worker does not count."""
        if self.status.started_at is None:
            return 0.0
        return max((self.status.ended_at or time.time()) - self.status.started_at, 0.0)

    @property
    def bytes_copied(self) -> int:
        return sum(each.bytes for each in self.verifications if each.state == "done")

    @property
    def retries(self) -> int:
        return sum(each.retries for each in self.verifications)

    @property
    def not_carried(self) -> int:
        return sum(each.not_carried for each in self.verifications)

    @property
    def streamed(self) -> int:
        return sum(each.streamed for each in self.verifications)

    @property
    def unverified(self) -> int:
        """Objects that were copied as the storage gives them: decompressed, so that nothing verifies them."""
        if not self.status.spec.kind.from_listing:
            return 0
        return sum(each.objects for each in self.verifications if (each.state, each.verified) == ("done", "none"))

    @property
    def left_out(self) -> int:
        return sum(each.left_out for each in self.verifications)

    def count_verified(self) -> dict[str, int]:
        """Objects that are verified (copied ones and those found identical), by kind of verification."""
        found: dict[str, int] = {}
        for each in self.verifications:
            if each.state in {"done", "skipped"} and each.objects > each.left_out:
                found[each.verified] = found.get(each.verified, 0) + each.objects - each.left_out
        return found


def format_summary(result: TransferSummary, *, status_command: str, retry_command: str | None = None) -> list[str]:
    """The summary for a person; every line is printable as it is.

    Args:
        status_command: shows this transfer.
        retry_command: takes up what has failed; None where nothing does.
    """
    status = result.status
    out = [f"{_title(result)} in {text.duration(result.seconds)}"]
    if status.description.name is not None:
        out.append(f"  name      {text.printable(status.description.name)}")
    if status.error_message:
        out.append(f"  why       {text.printable(status.error_message)}")
    if status.totals.objects:
        out += _figures(result, status_command)
    elif status.state == "done" and status.spec.kind.aborts:
        place, age = text.printable(status.spec.source.uri), status.spec.filters.older_than
        out.append(f"  nothing to abort: no open upload at {place} is older than {age}")
    elif status.state == "done" and is_empty_archive(status.spec, 0):
        out.append(f"  no files are in {text.printable(status.spec.source.uri)}")
    elif status.state == "done":
        is_selection = has_conditions(build_conditions(status.spec))
        out.append(f"  nothing {'selected ' if is_selection else ''}is at {text.printable(status.spec.source.uri)}")
        if result.nearest:
            out.append(f"  nearest   {text.printable(', '.join(map(status.spec.source.at, result.nearest)))}")
    if status.receipt_digest is not None:
        out.append(f"  receipt   {status.receipt_digest}")
    if result.ledger is not None:
        out.append(f"  ledger    {result.ledger}")
    for group in result.failures:
        out += ["", *_group(group, status.spec.kind, status_command, retry_command)]
    return out


def _title(result: TransferSummary) -> str:
    """The end in numbers: ``Finished with 1 failure (0 of 1 objects copied)``."""
    status, totals = result.status, result.status.totals
    if status.state == WITH_FAILURES:
        operation = status.spec.kind
        done = totals.skipped - result.left_out if operation.compares else totals.done
        finished = f"{done:,} of {totals.objects:,} objects {operation.finished}"
        return f"Finished with {text.count(totals.failed, 'failure')} ({finished})"
    return f"{_TITLE.get(status.state, status.state)}: {text.count(totals.objects, 'object')}"


def _figures(result: TransferSummary, status_command: str) -> list[str]:
    totals = result.status.totals
    out: list[str] = []
    word = result.status.spec.kind.done
    if totals.done:
        done = f"{text.count(totals.done, 'object')}, {text.size(result.bytes_copied)}"
        timed = result.seconds > 0 and word == "copied"
        mean = f", {text.rate(result.bytes_copied / result.seconds)} on average" if timed else ""
        out.append(f"  {word:<9} {done}{mean}")
    if result.streamed:
        through = text.count(result.streamed, "object")
        packed = result.status.spec.kind.packs
        own = "the storage copies only parts of 5 MiB and more" if packed else "the storage could not copy them itself"
        why = streaming_reason(result.status.spec) or own
        out.append(f"  streamed  {through} through the machine that did the work: {why}")
    if there := totals.skipped - result.left_out:
        what = "" if result.status.spec.kind.compares else " already there"
        out.append(f"  {'skipped' if what else 'identical':<9} {text.count(there, 'object')}{what}")
    if result.left_out:
        out.append(f"  left out  {text.count(result.left_out, 'object')}, see {status_command} --objects --json")
    if totals.failed:
        out.append(f"  failed    {text.count(totals.failed, 'object')}")
    if totals.cancelled:
        out.append(f"  cancelled {text.count(totals.cancelled, 'object')}")
    if result.moved:
        out.append(f"  removed   {text.count(result.moved, 'object')} from the source after arrival")
    if result.removed:
        out.append(f"  removed   {text.count(result.removed, 'object')} that the source does not have")
    elif result.status.spec.removal.delete and totals.failed:
        out.append("  removed   nothing, since not all has arrived")
    verified = ", ".join(f"{number:,} by {kind}" for kind, number in result.count_verified().items() if kind != "none")
    if verified:
        out.append(f"  verified  {verified}")
    if result.unverified:
        kept = "; the source keeps what it has" if result.status.spec.kind.removes_sources else ""
        out.append(
            f"  unverified {text.count(result.unverified, 'object')} that the storage gives decompressed only{kept}"
        )
    if result.retries:
        out.append(f"  retried   {text.count(result.retries, 'request')}")
    if result.cost is not None:
        out.append(f"  cost      {_cost(result.cost)}")
    if result.not_carried:
        lacking = text.count(result.not_carried, "object")
        out.append(
            f"  note      {lacking} copied without all of its tags or headers: {status_command} --objects --json"
        )
    return out


def _cost(counted_cost: CountedCost) -> str:
    """The cost at most, and the price of the same by DataSync."""
    cost = counted_cost.cost
    most = math.ceil(cost.requests * 10_000) / 10_000
    counted = f"at most ${most:,.4f} for {text.count(counted_cost.requests, 'request')}, list prices of {cost.region}"
    egress = f"; up to ${cost.egress:,.2f} for traffic out of AWS" if cost.egress else ""
    month = "" if cost.month is None else f"; ${cost.month:,.2f} for each month of storage"
    return f"{counted}{egress}{month} (DataSync asks ${cost.datasync_enhanced:,.2f}, Basic ${cost.datasync_basic:,.2f})"


def _group(group: FailureGroup, operation: Operation, status_command: str, retry_command: str | None) -> list[str]:
    """A cause: how many objects, what was done, why it failed, the one next step, and the objects."""
    what = " ".join(part for part in (group.operation, group.error_code or group.error_class) if part)
    why, _ = steps.split_next_step(group.message)
    step = steps.command_step(steps.step_code(group), operation, retry_command)
    out = [f"{text.count(group.count, 'object')} failed: {text.printable(what)}"]
    if why:
        out.append(f"  {text.printable(why)}")
    out.append(f"  Next: {step}")
    out += [f"    {text.printable(key)}" for key in group.keys[:KEYS_PER_GROUP]]
    rest = group.count - len(group.keys[:KEYS_PER_GROUP])
    if rest > 0:
        out.append(f"    … and {rest:,} more: {status_command} --failed")
    return out


def facts(result: TransferSummary, exit_code: int) -> dict[str, Any]:
    """The ``summary`` event: raw bytes, seconds, RFC 3339 times."""

    status = result.status
    return {
        "id": status.id,
        "name": status.description.name,
        "labels": dict(status.description.labels),
        "state": status.state,
        "source": status.spec.source.uri,
        "target": status.spec.target.uri,
        "streamed": result.streamed,
        "removed": result.removed + result.moved,
        **status.totals.facts(),
        "bytes_copied": result.bytes_copied,
        "created_at": text.optional_timestamp(status.created_at),
        "started_at": text.optional_timestamp(status.started_at),
        "ended_at": text.optional_timestamp(status.ended_at),
        "seconds": round(result.seconds, 3),
        "verified": result.count_verified(),
        "retries": result.retries,
        "not_carried": result.not_carried,
        "error_code": status.error_code,
        "error_message": status.error_message,
        "receipt_digest": status.receipt_digest,
        "ledger_head": None if result.ledger is None else str(result.ledger),
        "ledger_count": None if result.ledger is None else result.ledger.count,
        "nearest": [status.spec.source.at(key) for key in result.nearest],
        "failures": [
            {
                "id": group.id,
                **asdict(group),
                "next_step": steps.command_step(steps.step_code(group), status.spec.kind),
            }
            for group in result.failures
        ],
        "cost": cost_facts(result),
        "exit_code": exit_code,
    }


def cost_facts(result: TransferSummary) -> dict[str, Any] | None:
    """The cost as values for JSON; None where it has no price, or was not requested."""
    return None if result.cost is None else result.cost.facts()


def object_facts(record: ObjectRecord) -> dict[str, Any]:
    """One object as an ``object`` event."""
    return {
        "source_key": record.source_key,
        "target_key": record.target_key,
        "size": record.size,
        "state": record.state,
        "attempts": record.attempts,
        "retries": record.retries,
        "method": record.method,
        "started_at": text.optional_timestamp(record.started_at),
        "ended_at": text.optional_timestamp(record.ended_at),
        "etag": record.etag,
        "target_etag": record.target_etag,
        "checksum_algorithm": record.checksum_algorithm,
        "checksum": record.checksum,
        "verified": record.verified,
        "not_carried": list(record.not_carried),
        "error_class": record.error_class,
        "error_code": record.error_code,
        "error_operation": record.error_operation,
        "error_message": record.error_message,
        **({} if record.written_by is None else {"written_by": record.written_by}),
    }
