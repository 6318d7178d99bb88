"""``seqferry status``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import typer

from seqferry.cli import exits, options
from seqferry.cli.option_groups import Pricing
from seqferry.cli.output import display, summary, text
from seqferry.cli.session import Session, open_session
from seqferry.cli.transfer_options import TransferFilters
from seqferry.db.paging import ALL_TRANSFERS, ObjectFilter, TransferFilter
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import Adjustment, Status
from seqferry.spec.validation import data_path, streaming_reason


@frozen
class View:
    """Argument and options that say what is shown."""

    PANEL: ClassVar = "Arguments"

    transfer: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Transfer id or its beginning. Default: list recent transfers."),
    ] = None
    failed: Annotated[bool, typer.Option("--failed", help="List failed objects with their cause.")] = False
    objects: Annotated[
        bool,
        typer.Option(
            "--objects",
            help="List objects with their state. Select with --state, --prefix and --text.",
        ),
    ] = False
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number of transfers to list.")] = 20
    price: options.Price = None
    as_json: options.Json = False
    state_dir: options.StateDir = None


def status(view: View, wanted: TransferFilters) -> int:
    """Show recent transfers, or one of them. It never does the work; `seqferry resume` does."""
    for option, given in (("--failed", view.failed), ("--objects", view.objects)):
        if given and view.transfer is None:
            raise typer.BadParameter("needs the ID of a transfer.", param_hint=option)
    price = Pricing(view.price).check()
    with open_session(as_json=view.as_json, state_dir=view.state_dir, reads=True) as session:
        if view.transfer is None:
            _recent(session, wanted.filter, view.limit)
            return exits.OK
        of_objects = _object_filter(view, wanted)
        found = session.service.status(view.transfer)
        _show(replace(session, price=price), found)
        if view.failed or view.objects:
            _list_objects(session, found, of_objects, failed_only=not view.objects)
        return exits.OK


def _object_filter(view: View, wanted: TransferFilters) -> ObjectFilter:
    """The filter of the objects of one transfer.

    Raises:
        UsageError: an option selects transfers, and one is named.
    """
    states = wanted.state or ()
    given = wanted.filter
    of_objects = ObjectFilter(states[0] if states else None, given.text, given.prefix)
    rest = replace(given, states=(), text=None, prefix=None)
    if rest != ALL_TRANSFERS or (wanted.selects and not (view.failed or view.objects)):
        raise UsageError("Options that select transfers are for the list of transfers; leave them or the ID out.")
    if len(states) > 1 or (states and not view.objects):
        raise UsageError("Objects are listed in one state: give one --state with --objects, and none with --failed.")
    return of_objects if view.objects else replace(of_objects, state="failed")


def _recent(session: Session, wanted: TransferFilter, limit: int) -> None:
    found: Sequence[Status] = session.service.transfers(limit)
    if wanted != ALL_TRANSFERS:
        found = session.service.transfer_page(wanted, limit=limit).entries
    if session.as_json:
        for each in found:
            display.emit("status", **status_facts(each))
        return
    if not found and wanted != ALL_TRANSFERS:
        display.say("No transfer matched.")
        return
    if not found:
        display.say("No transfers yet. Start one with: seqferry cp s3://from/prefix/ s3://to/prefix/")
        return
    # Most lists have no names: then there is no column of them.
    is_named = any(each.description.name is not None for each in found)
    rows = [("ID", *(("NAME",) if is_named else ()), "STATE", "OBJECTS", "FAILED", "BYTES", "CREATED", "FROM", "TO")]
    for each in found:
        totals = each.totals
        rows.append(
            (
                each.id,
                *((text.printable(each.description.name or "-"),) if is_named else ()),
                text.state_name(each.state) if each.waits_for is None else f"{text.state_name(each.state)}, waits",
                f"{totals.ended - totals.cancelled}/{totals.objects}{'' if each.planned or each.ended else '+'}",
                str(totals.failed),
                text.size(totals.bytes),
                text.timestamp(each.created_at),
                text.printable(each.spec.source.uri),
                text.printable(each.spec.target.uri),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    _say_unanchored(session)


def _say_unanchored(session: Session) -> None:
    """One line when the place of anchors has lacked something for long."""
    left = session.service.find_unanchored()
    if left is not None:
        display.say(
            f"  note      {left.entries:,} of the ledger's entries are not anchored, the first since "
            f"{text.timestamp(left.since)}. See why with: seqferry doctor"
        )


def _show(session: Session, found: Status) -> None:
    if session.as_json:
        cost = summary.cost_facts(session.result(found, priced=True)) if found.ended else None
        display.emit("status", **status_facts(found), preflight=session.service.preflight(found.id), cost=cost)
        return
    spec = found.spec
    print(f"transfer  {found.id}")
    if found.description.name is not None:
        print(f"name      {text.printable(found.description.name)}")
    if found.description.labels:
        given = ", ".join(f"{key}={value}" for key, value in found.description.labels.items())
        print(f"labels    {text.printable(given)}")
    print(f"from      {text.printable(spec.source.uri)}")
    print(f"to        {text.printable(spec.target.uri)}")
    if (why := streaming_reason(spec)) is not None:
        print(f"way       through the machine that does the work: {why}")
    if spec.retry_of is not None:
        print(f"retries   {spec.retry_of}")
    if found.retried_by is not None:
        print(f"retried   by {found.retried_by}")
    if (adjusted := _describe_adjustment(found.adjustment)) is not None:
        print(f"adjusted  {adjusted}")
    print(f"created   {text.timestamp(found.created_at)} by {text.printable(found.created_by)}")
    inspected = session.service.preflight(found.id)
    # The failures of a transfer that has ended are in its summary.
    if inspected is not None and inspected["causes"] and (inspected["stopped"] or not found.ended):
        from seqferry.preflight import report

        print("\n".join(text.printable(line) for line in report.format_report(inspected, spec.source.uri)), end="\n\n")
    if found.ended:
        print("\n".join(session.summary_lines(session.result(found, priced=True))))
        if found.pruned_at is not None:
            when = text.timestamp(found.pruned_at)
            print(f"Pruned {when}; its objects are in its receipt: {session.command('report', found.id)}")
        return
    from seqferry.cli.output import progress_text

    print(progress_text.progress_line(found))
    if found.state == "paused":
        print(f"It is paused. Continue with: {session.command('resume', found.id)}")
    elif found.waits_for is not None:
        print(f"It waits for {text.printable(found.waits_for)}.")
    elif found.live.workers == 0:
        print(f"No worker runs it. Continue with: {session.command('resume', found.id)}")


def _describe_adjustment(adjustment: Adjustment) -> str | None:
    """Adjusted settings of a transfer as text; None when there are none."""
    said = [f"priority {adjustment.priority}"] if adjustment.priority else []
    if adjustment.max_requests is not None:
        said.append(f"at most {adjustment.max_requests} requests")
    if adjustment.max_bandwidth is not None:
        said.append(f"bandwidth {adjustment.max_bandwidth}")
    if adjustment.tpslimit is not None:
        said.append(f"at most {adjustment.tpslimit} requests started per second")
    return ", ".join(said) or None


def _list_objects(session: Session, found: Status, wanted: ObjectFilter, *, failed_only: bool) -> None:
    if session.as_json:
        session.emit_objects(found.id, wanted)
        return
    for record in session.objects(found.id, wanted):
        key = text.printable(record.source_key)
        if failed_only:
            cause = record.error_code or record.error_class or "unknown"
            print(f"{cause}\t{key}\t{text.printable(record.error_message or '')}")
        else:
            print(f"{record.state}\t{record.verified or '-'}\t{record.size}\t{key}")


def status_facts(found: Status) -> dict[str, Any]:
    """The ``status`` event."""
    from seqferry.cli.output import progress_text

    spec = found.spec
    return {
        **progress_text.progress_facts(found),
        "name": found.description.name,
        "labels": dict(found.description.labels),
        "source": spec.source.uri,
        "target": spec.target.uri,
        "way": data_path(spec),
        "retry_of": spec.retry_of,
        "retried_by": found.retried_by,
        "priority": found.adjustment.priority,
        "max_requests": found.adjustment.max_requests,
        "max_bandwidth": found.adjustment.max_bandwidth,
        "tpslimit": found.adjustment.tpslimit,
        "created_at": text.timestamp(found.created_at, milliseconds=True),
        "created_by": found.created_by,
        "started_at": text.optional_timestamp(found.started_at),
        "ended_at": text.optional_timestamp(found.ended_at),
        "error_code": found.error_code,
        "error_message": found.error_message,
        "next_step": found.next_step,
    }
