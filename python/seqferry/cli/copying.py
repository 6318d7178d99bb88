"""``seqferry cp`` and ``seqferry sync``."""

from __future__ import annotations

import itertools

from seqferry import access
from seqferry.cli import display, exits, pipes, selecting, text
from seqferry.cli.groups import (
    Endpoints,
    Filters,
    Names,
    Output,
    Parts,
    Places,
    Removal,
    Selection,
    Speed,
    Start,
    Storage,
)
from seqferry.cli.session import Session, actor, session_of
from seqferry.models import OPERATION_TRANSFER, PlannedCopy, Submission, TransferSpec
from seqferry.spec import build_spec, data_path, why_streamed


def cp(
    places: Places,
    selection: Selection,
    filters: Filters,
    names: Names,
    speed: Speed,
    parts: Parts,
    storage: Storage,
    endpoints: Endpoints,
    start: Start,
    output: Output,
) -> int:
    """Copy objects between S3 places, or between S3 and local files, durably and verified.

    Within one S3 endpoint the storage itself copies the data; else it passes through this machine, checked on the way.
    """
    if pipes.is_asked_for(places):
        pipes.check(places, storage, start, output)
        with session_of(output, speed) as session:
            return pipes.copy(session, selecting.asked(places, selection, filters, names, parts, storage, endpoints))
    given = selecting.asked(places, selection, filters, names, parts, storage, endpoints)
    return run(build_spec(**given, allow_local=True), speed, start, output)


def sync(
    places: Places,
    selection: Selection,
    filters: Filters,
    names: Names,
    removal: Removal,
    speed: Speed,
    parts: Parts,
    storage: Storage,
    endpoints: Endpoints,
    start: Start,
    output: Output,
) -> int:
    """Make DST hold what is below SRC: cp of a prefix or a folder that can also remove.

    Objects that are there and identical are left alone; nothing is removed without --delete.
    """
    pipes.refuse(places, "sync")
    given = selecting.asked(places, selection, filters, names, removal, parts, storage, endpoints)
    return run(build_spec(**given, below=True, allow_local=True), speed, start, output)


def run(spec: TransferSpec, speed: Speed, start: Start, output: Output) -> int:
    """Preview, record or do the transfer; returns the exit code."""
    spec = access.resolved(spec)
    with session_of(output, speed, check=spec) as session:
        if start.dry_run:
            return _preview(session, spec)
        if start.detach:
            return detached(session, session.service.submission(spec, actor=actor(), new=start.new))
        return session.copy(spec, new=start.new)


def detached(session: Session, submission: Submission) -> int:
    """Tell of a transfer that is left to a worker; returns the exit code."""
    transfer_id = submission.id
    if session.as_json:
        display.emit("submitted", id=transfer_id)
    else:
        print(transfer_id, flush=True)
    session.tell_of_submission(submission)
    if not session.quiet and not submission.goes_on:
        display.say("Recorded. A running `seqferry worker` or `seqferry serve` does it; if none runs, start one.")
        display.say(f"  watch:  {session.command('status', transfer_id, '--watch')}")
        display.say(f"  cancel: {session.command('cancel', transfer_id)}")
    return exits.OK


def _preview(session: Session, spec: TransferSpec) -> int:
    """Shows what would happen to each object, and why. Objects of equal size are compared by the transfer itself."""
    from seqferry import planning  # it brings the engine, which --help need not wait for

    met = objects = skipped = compared = total = refused = 0
    for planned in session.service.preview(spec):
        met += 1
        if planned.refusal is not None:
            refused += not planned.left_out
            if session.as_json:
                display.emit(
                    "refused",
                    source_key=planned.source_key,
                    error_message=planned.refusal,
                    left_out=planned.left_out,
                )
            else:
                display.say(text.printable(f"{spec.source.at(planned.source_key)}: {planned.refusal}"))
            continue
        if planned.action == "skip":
            skipped += 1
        else:
            objects += 1
            compared += planned.action == "compare"
            total += planned.size
        if session.as_json:
            display.emit(
                "planned",
                source_key=planned.source_key,
                target_key=planned.target_key,
                size=planned.size,
                action=planned.action,
                because=planned.because,
            )
        elif not session.quiet:
            print(f"(dry run) {_foretold(spec, planned)}")
    removed = 0
    kept = None
    if spec.delete and (why_kept := planning.why_kept(spec, met, refused)) is not None:
        kept = why_kept.reason
    unwanted = session.service.preview_removal(spec) if kept is None else iter(())
    if spec.max_delete is not None:
        first = list(itertools.islice(unwanted, spec.max_delete + 1))
        unwanted = iter(first)
        if (too_many := planning.too_many(spec, len(first))) is not None:
            kept = too_many.reason
            unwanted = iter(())
    for key in unwanted:
        removed += 1
        if session.as_json:
            display.emit("planned_removal", target_key=key)
        elif not session.quiet:
            print(f"(dry run) remove {text.printable(spec.target.at(key))}")
    free = session.service.free_space(spec)
    if session.as_json:
        display.emit(
            "dry_run",
            objects=objects,
            compared=compared,
            skipped=skipped,
            bytes=total,
            removed=removed,
            way=data_path(spec),
            free_bytes=free,
        )
    elif not session.quiet:
        if (why := why_streamed(spec)) is not None:
            display.say(f"The bytes would pass through the machine that does the work: {why}.")
        if free is not None and free < total:
            display.say(f"{text.printable(spec.target.container)} has only {text.size(free)} free.")
        also = f"; {text.count(compared, 'object')} of them would be compared first" if compared else ""
        also += f"; {text.count(skipped, 'object')} would be skipped" if skipped else ""
        also += f", {text.count(removed, 'object')} to remove" if removed else ""
        display.say(
            f"Dry run: {text.count(objects, 'object')}, {text.size(total)}{also}. Nothing was copied or recorded."
        )
    if kept is not None:
        display.say(text.printable(kept))
    if refused or kept is not None:
        return exits.FAILED
    return exits.OK if objects or skipped else exits.NOTHING


def _foretold(spec: TransferSpec, planned: PlannedCopy) -> str:
    """One object of a dry run, in words."""
    source = text.printable(spec.source.at(planned.source_key))
    target = text.printable(spec.target.at(planned.target_key))
    if planned.action == "skip":
        return f"skip {source}: {planned.because}"
    verb = "copy" if spec.operation == OPERATION_TRANSFER else spec.operation
    why = "" if planned.because == "absent" else f" ({planned.because})"
    return f"{verb if planned.action == 'copy' else planned.action} {source} to {target}{why}"
