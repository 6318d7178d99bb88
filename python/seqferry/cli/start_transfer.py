"""Start of a transfer: preview, preflight, record for a worker, or run in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from seqferry.cli import exits
from seqferry.cli.option_groups import Output, Pricing, Start
from seqferry.cli.output import display, preview, text
from seqferry.cli.session import Session, actor, session_of
from seqferry.model.labels import Description
from seqferry.model.models import ResolvedSpec, Submission, TransferSpec
from seqferry.spec import identity
from seqferry.spec.option_groups import SpeedOptions

_KEYS_PER_CAUSE: Final = 20


def start_arguments(speed: SpeedOptions, start: Start) -> dict[str, Any]:
    """Arguments of ``build_spec`` from options that say how a transfer is done: they are checked with the others."""
    return {"attempts": speed.attempts, "preflight": start.preflight is not False}


def start_transfer(spec: TransferSpec, speed: SpeedOptions, start: Start, output: Output, pricing: Pricing) -> int:
    """Preview, record or do the transfer; returns the exit code."""
    price = pricing.check()
    description = start.description  # before the storage is asked
    spec = identity.resolve(spec)
    begins = not (start.dry_run or start.detach)
    with session_of(output, speed, check=spec, begins=begins, records=not start.dry_run) as session:
        if start.dry_run:
            return preview.show_preview(session, spec, price=price)
        if start.preflight and not passes_preflight(session, spec):
            return exits.FAILED
        return run_or_record(replace(session, price=price), spec, start, description)


def run_or_record(session: Session, spec: ResolvedSpec, start: Start, description: Description) -> int:
    """Do the transfer, or record it for a worker (``--detach``); returns the exit code."""
    if start.detach:
        submission = session.service.submit_or_resume(
            spec, actor=actor(), new=start.new, priority=start.priority, description=description
        )
        return start_detached(session, submission)
    return session.run(spec, new=start.new, priority=start.priority, description=description, wait=start.wait)


def passes_preflight(session: Session, spec: ResolvedSpec) -> bool:
    """Run the preflight of all objects; False, with its report printed, when some would fail."""
    from seqferry.preflight import report  # it brings the engine, which --help need not wait for

    findings = session.service.inspect(spec, at_most=None)
    facts = report.event_data(findings)
    if session.as_json:
        display.emit("preflight", **facts)
    if findings.failing:
        for line in report.format_report(facts, spec.source.uri, keys=_KEYS_PER_CAUSE):
            display.say(text.printable(line))
        display.say("Nothing was started. Without --preflight the other objects are copied.")
    elif not session.quiet:
        display.say(f"Preflight: {text.count(findings.objects, 'object')} checked, none would fail.")
    return not findings.failing


def start_detached(session: Session, submission: Submission) -> int:
    """Report a transfer that is left to a worker; returns the exit code."""
    transfer_id = submission.id
    if session.as_json:
        display.emit("submitted", id=transfer_id)
    else:
        print(transfer_id, flush=True)
    session.report_submission(submission)
    if not session.quiet and not submission.goes_on:
        display.say("Recorded. A running `seqferry worker` or `seqferry serve` runs it; if none is running, start one.")
        if (waits := session.service.status(transfer_id).waits_for) is not None:
            display.say(f"It waits for {waits}.")
        display.say(f"  watch:  {session.command('watch', transfer_id)}")
        display.say(f"  cancel: {session.command('cancel', transfer_id)}")
    return exits.OK
