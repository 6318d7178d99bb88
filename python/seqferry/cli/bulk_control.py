"""Control of one transfer by id, or of all that a filter selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqferry.cli import exits
from seqferry.cli.commands.status import status_facts
from seqferry.cli.output import display, text
from seqferry.cli.session import Session, actor
from seqferry.cli.transfer_options import TransferFilters, TransferSelection
from seqferry.model.errors import UsageError

if TYPE_CHECKING:
    from seqferry.service.control import ControlResult, Verb


def single_transfer(which: TransferSelection, wanted: TransferFilters) -> str | None:
    """The only transfer that is named, if so."""
    named = which.transfers or []
    is_plain = not (which.everything or which.dry_run or which.expect is not None or wanted.selects)
    return named[0] if len(named) == 1 and is_plain else None


def apply(
    session: Session, verb: Verb, which: TransferSelection, wanted: TransferFilters, **change: Any
) -> list[ControlResult]:
    """Apply the verb to the named transfers, or to those that the filter selects.

    Raises:
        UsageError: neither says which, or both do.
        ConflictError: another number than ``--expect`` says is selected; nothing was done.
    """
    from seqferry.service import control
    from seqferry.service.queries import check_count

    ids = _select(session, verb, which, wanted)
    check_count(len(ids), which.expect)
    if which.transfers:
        if len(which.transfers) == 1:  # its error is that of the command
            found = session.service.status(which.transfers[0])
            results = control.apply_to_each(session.service, verb, [found.id], actor=actor(), **change)
            if results[0].error is not None:
                raise results[0].error
            return results
        return control.apply_to_each(session.service, verb, which.transfers, actor=actor(), **change)
    if not ids:
        say(session, "No transfer matched.")
    return control.apply_to_each(session.service, verb, ids, actor=actor(), **change)


def _select(session: Session, verb: Verb, which: TransferSelection, wanted: TransferFilters) -> list[str]:
    from seqferry.service import control

    if bool(which.transfers) == (which.everything or wanted.selects):
        raise UsageError("Select transfers: give ids, --all, or filters such as --state, --prefix or --created-by.")
    return which.transfers or control.select_transfers(session.service, verb, wanted.filter)


def preview(session: Session, verb: Verb, which: TransferSelection, wanted: TransferFilters) -> int:
    """Show the transfers that the verb would be applied to; returns the exit code.

    Raises:
        UsageError, ConflictError: as ``apply``.
    """
    from seqferry.service import control
    from seqferry.service.queries import check_count

    ids = _select(session, verb, which, wanted)
    check_count(len(ids), which.expect)
    results = control.read_results(session.service, ids)
    for result in report_results(session, results):
        status = result.status
        if status is not None and not session.as_json:
            places = f"{status.spec.source.uri} -> {status.spec.target.uri}"
            print(f"{status.id}  {text.state_name(status.state)}  {text.printable(places)}")
    if session.as_json:
        display.emit("selected", count=len(ids))
    say(session, f"Dry run: {verb} would apply to {text.count(len(ids), 'transfer')} (--expect {len(ids)}).")
    return exit_code(results)


def report_results(session: Session, results: list[ControlResult]) -> list[ControlResult]:
    """Report the result of each; returns those that succeeded."""
    for result in results:
        if result.error is not None:
            display.say(f"seqferry: {result.id}: {text.printable(result.error.message)}")
            if session.as_json:
                display.emit("error", id=result.id, code=result.error.code, message=result.error.message)
        elif session.as_json and result.status is not None:
            display.emit("status", **status_facts(result.status))
    return [result for result in results if result.error is None]


def say(session: Session, line: str) -> None:
    """Say a line to a person, where one reads."""
    if not (session.quiet or session.as_json):
        display.say(line)


def follow_all(session: Session, results: list[ControlResult], *, wanted: str = "done", waits: bool = False) -> int:
    """Follow all transfers to their ends, in order; returns the worst exit code."""
    codes = [exit_code(results)]
    for result in results:
        if result.error is None:
            found = result.started or result.id
            codes.append(session.follow(found, wanted=wanted, waits=waits))
            if codes[-1] == exits.INTERRUPTED:
                break
    return max(codes)


def exit_code(results: list[ControlResult]) -> int:
    """The exit code for the results."""
    if not results:
        return exits.NOTHING
    return exits.FAILED if any(result.error is not None for result in results) else exits.OK
