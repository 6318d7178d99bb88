"""``seqferry verify``."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from seqferry.cli import exits, options, spec_arguments
from seqferry.cli.option_groups import Described, Output, Unsigned, merge
from seqferry.cli.output import display, text
from seqferry.cli.session import Session, actor, session_of
from seqferry.cli.start_transfer import start_detached
from seqferry.cli.transfer_options import RecordedTransfer
from seqferry.model.frozen import frozen
from seqferry.model.models import DONE_STATES, Status
from seqferry.model.option_groups import Filters, narrow_group
from seqferry.spec.option_groups import AccessOptions, NameOptions, OneEndpoint, RecordedSpeed, SpeedOptions

if TYPE_CHECKING:
    from seqferry.service.audit_trail import VerificationResult


@frozen
class Reading:
    """Option that sets what is read of each object."""

    PANEL: ClassVar = "Comparison"

    content: Annotated[
        bool,
        options.common(
            typer.Option("--content", help="Read all objects and compare them with the recorded checksums.")
        ),
    ] = False


@frozen
class DetachOption:
    """Option to leave the verification to a worker."""

    PANEL: ClassVar = "Transfer"

    detach: Annotated[
        bool,
        options.common(
            typer.Option("--detach", envvar="SEQFERRY_DETACH", help="Record the verification, print its id and return.")
        ),
    ] = False


def verify(
    transfer: RecordedTransfer,
    reading: Reading,
    filters: Filters,
    names: NameOptions,
    speed: SpeedOptions,
    access: AccessOptions,
    endpoint: OneEndpoint,
    unsigned: Unsigned,
    detach: DetachOption,
    described: Described,
    output: Output,
) -> int:
    """Compare the objects at the target with their receipt, today.

    Exit code 3 if an object or the receipt has changed. Filters select objects by their keys below the target. The
    verification is a transfer of its own: an interrupted one continues with `seqferry resume ID`.
    """
    from seqferry.service import control
    from seqferry.spec.verification import RecordedTargets

    wanted = verification_request(transfer, reading, filters, names, speed, access, endpoint, unsigned)
    with session_of(output, speed) as session:
        verified = session.service.status(wanted.transfer)
        spec = control.verification_spec(verified, **wanted.options)
        description = described.description.merged_over(verified.description)
        if detach.detach:
            return start_detached(
                session, session.service.submit_or_resume(spec, actor=actor(), description=description)
            )
        RecordedTargets(spec).require()
        report = partial(_report, session, verified, content=reading.content)
        return session.submit_and_follow(spec, report=report, description=description)[1]


@frozen
class VerificationRequest:
    """A verification as it was requested: its spec is made when the transfer is read from the records."""

    transfer: str
    options: dict[str, Any]
    """Those of ``build_verification_spec``."""


def verification_request(
    transfer: RecordedTransfer,
    reading: Reading,
    filters: Filters,
    names: NameOptions,
    speed: RecordedSpeed,
    access: AccessOptions,
    endpoint: OneEndpoint,
    unsigned: Unsigned,
) -> VerificationRequest:
    """The request of ``verify`` by the options that are recorded with it.

    Raises:
        UsageError: the list of keys cannot be read.
    """
    given = merge(reading, filters, names, narrow_group(RecordedSpeed, speed), access, endpoint, unsigned)
    spec_arguments.set_keys(given)
    return VerificationRequest(transfer.transfer, given)


def _report(session: Session, verified: Status, end: Status, *, content: bool) -> int:
    """Tell of a verification that has ended; returns the exit code."""
    if end.state not in DONE_STATES:
        return session.report_end(end)
    look = session.service.verification(end)
    looked, findings = look.counts, look.record
    code = exits.MISMATCH if looked.differ or findings else exits.OK if looked.objects else exits.NOTHING
    if session.as_json:
        for finding in findings:
            display.emit("finding", **asdict(finding))
        for one in look.differences:
            display.emit("difference", id=verified.id, **asdict(one))
        facts = {"verification": end.id, "record_findings": len(findings), **asdict(looked), "exit_code": code}
        display.emit("verified", id=verified.id, **facts)
        return code
    for finding in findings:
        print(f"record\t{text.printable(finding.message)}")
    for one in look.differences:
        found = text.printable(one.found)
        print(f"{one.outcome}\t{text.printable(one.key)}\twas {text.printable(one.recorded)}\tis {found}")
    for line in _lines(verified, look, content=content):
        display.say(line)
    return code


def _lines(verified: Status, look: VerificationResult, *, content: bool) -> list[str]:
    looked = look.counts
    first = (
        f"Checked {text.count(looked.objects, 'object')} at {text.printable(verified.spec.target.uri)}: "
        f"{looked.same:,} as received, {looked.changed:,} changed, {looked.missing:,} missing"
    )
    out = [f"{first}, {looked.unreadable:,} unreadable." if looked.unreadable else f"{first}."]
    if look.record:
        out.append(f"  record    {text.count(len(look.record), 'finding')}: the receipt was changed (audit verify)")
    if content:
        out.append(f"  content   {text.count(looked.content, 'object')} read, with the digest on record")
        if unread := looked.same - looked.content:
            out.append(f"  note      {text.count(unread, 'object')} not read: no digest of them is on record")
    if looked.size_only:
        out.append(f"  note      {text.count(looked.size_only, 'object')} compared by size only")
    return out
