"""``seqferry pause``, ``resume``, ``retry``, ``cancel`` and ``set``: one transfer, or many by what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqferry.cli import display, exits, text
from seqferry.cli.commands.status import status_facts
from seqferry.cli.groups import Background, Change, End, Output, TransferSelection
from seqferry.cli.session import Session, actor, session_of
from seqferry.model.errors import UsageError
from seqferry.model.models import DONE_STATES
from seqferry.spec.option_groups import Speed

if TYPE_CHECKING:
    from seqferry.service.control import Result, Verb


def pause(which: TransferSelection, output: Output) -> int:
    """Pause transfers. Workers leave them within a second; open uploads stay, so that no part is copied twice."""
    with session_of(output) as session:
        results = _each(session, "pause", which)
        for result in _told(session, results):
            _say(session, f"Paused. Go on with: {session.command('resume', result.id)}")
        return _code(results)


def resume(which: TransferSelection, background: Background, speed: Speed, output: Output) -> int:
    """Go on with a transfer and show it until it ends. Finished objects and parts are not copied again."""
    from seqferry.service import control

    with session_of(output, speed) as session:
        if (wanted := _one(which)) is not None:
            return _resume_one(session, wanted, speed, detach=background.detach)
        results = _each(session, "resume", which)
        if speed.tpslimit is not None:
            going_on = [result.id for result in results if result.status is not None and not result.status.ended]
            control.each(session.service, "set", going_on, actor=actor(), tpslimit=speed.tpslimit)
        if background.detach:
            _told(session, results)
            return _code(results)
        return _see_all(session, results)


def _resume_one(session: Session, wanted: str, speed: Speed, *, detach: bool) -> int:
    from seqferry.service import control

    found = session.service.status(wanted)
    session.service.check_folders(found)
    session.service.check_access(found)
    if not found.ended:
        control.resume(session.service, found.id, actor=actor())
        if speed.tpslimit is not None:
            control.adjust(session.service, found.id, actor=actor(), tpslimit=speed.tpslimit)
    if detach and not found.ended:
        return exits.OK
    code = session.see_through(found.id)
    if found.ended and found.state not in DONE_STATES:
        display.say(
            f"This transfer had ended before ({found.state}), and what has ended is not taken up again. "
            f"Copy the rest with: {session.command('retry', found.id)}"
        )
    return code


def retry(which: TransferSelection, background: Background, speed: Speed, output: Output) -> int:
    """Copy what has failed of an ended transfer, and nothing else, as a transfer of its own."""
    with session_of(output, speed) as session:
        results = _each(session, "retry", which)
        for result in _told(session, results):
            _say(session, f"transfer {result.started} retries {result.id}")
        if background.detach:
            return _code(results)
        return _see_all(session, results)


def cancel(which: TransferSelection, end: End, background: Background, output: Output) -> int:
    """Cancel transfers. Finished objects stay; uploads that are open are aborted."""
    with session_of(output) as session:
        if (wanted := _one(which)) is not None:
            return _cancel_one(session, wanted, abandon=end.abandon, detach=background.detach)
        results = _each(session, "cancel", which, abandon=end.abandon)
        if background.detach:
            _told(session, results)
            return _code(results)
        # The worker aborts open uploads; without one anywhere, this process is it.
        return _see_all(session, results, wanted="cancelled")


def _cancel_one(session: Session, wanted: str, *, abandon: bool, detach: bool) -> int:
    found = session.service.status(wanted)
    found = session.service.cancel(found.id, actor=actor(), abandon=abandon)
    missing = session.service.missing(found)
    if not found.ended and found.live.workers == 0 and missing is not None:
        display.say(f"The cancel is recorded; a worker with {missing} aborts the open uploads.")
        display.say(f"  if there will be none: {session.command('cancel', found.id, '--abandon')}")
        return exits.FAILED
    if detach:
        return exits.OK
    return session.see_through(found.id, wanted="cancelled")


def adjust(which: TransferSelection, change: Change, output: Output) -> int:
    """Change the priority or the limits of transfers under way, as `seqferry set ID --max-bandwidth 50MB`.

    Limits hold for each process that works at the transfer, and for all that it does meanwhile.
    """
    limits = {"max_requests": change.max_requests, "max_bandwidth": change.max_bandwidth, "tpslimit": change.tpslimit}
    changes: dict[str, Any] = {**dict.fromkeys(limits), "priority": 0} if change.defaults else {}
    given = {"priority": change.priority, **limits}
    changes |= {name: value for name, value in given.items() if value is not None}
    if not changes:
        options = "--priority, --max-requests, --max-bandwidth, --tpslimit"
        raise UsageError(f"Nothing is to be changed: give {options} or --defaults.")
    with session_of(output) as session:
        results = _each(session, "set", which, **changes)
        for result in _told(session, results):
            _say(session, f"Set. See it with: {session.command('status', result.id)}")
        return _code(results)


def _one(which: TransferSelection) -> str | None:
    """The only transfer that is named, if so."""
    named = which.transfers or []
    return named[0] if len(named) == 1 and not (which.everything or which.state or which.prefix) else None


def _each(session: Session, verb: Verb, which: TransferSelection, **change: Any) -> list[Result]:
    """Do it to all that are named, or that the filter selects.

    Raises:
        UsageError: neither says which, or both do.
    """
    from seqferry.service import control

    by_filter = which.everything or which.state or which.prefix or which.created_by
    if bool(which.transfers) == bool(by_filter):
        raise UsageError("Say which transfers: give their ids, or --all, --state, --prefix or --created-by.")
    if which.transfers:
        if len(which.transfers) == 1:  # its error is that of the command
            found = session.service.status(which.transfers[0])
            results = control.each(session.service, verb, [found.id], actor=actor(), **change)
            if results[0].error is not None:
                raise results[0].error
            return results
        return control.each(session.service, verb, which.transfers, actor=actor(), **change)
    states = control.Filter(tuple(which.state or ()), which.prefix, which.created_by)
    ids = control.selected(session.service, verb, states)
    if not ids:
        _say(session, "No transfer matched.")
    return control.each(session.service, verb, ids, actor=actor(), **change)


def _told(session: Session, results: list[Result]) -> list[Result]:
    """Tell what became of each; returns those to which it was done."""
    for result in results:
        if result.error is not None:
            display.say(f"seqferry: {result.id}: {text.printable(result.error.message)}")
            if session.as_json:
                display.emit("error", id=result.id, code=result.error.code, message=result.error.message)
        elif session.as_json and result.status is not None:
            display.emit("status", **status_facts(result.status))
    return [result for result in results if result.error is None]


def _say(session: Session, line: str) -> None:
    if not (session.quiet or session.as_json):
        display.say(line)


def _see_all(session: Session, results: list[Result], *, wanted: str = "done") -> int:
    """See all of them through, one after the other; returns the worst exit code."""
    codes = [_code(results)]
    for result in results:
        if result.error is None:
            codes.append(session.see_through(result.started or result.id, wanted=wanted))
            if codes[-1] == exits.INTERRUPTED:
                break
    return max(codes)


def _code(results: list[Result]) -> int:
    if not results:
        return exits.NOTHING
    return exits.FAILED if any(result.error is not None for result in results) else exits.OK
