"""``seqferry audit``: the record of all transfers against its hashes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.cli.session import open_session

if TYPE_CHECKING:
    from seqferry.proof.anchors import StoredAnchors
    from seqferry.proof.auditing import AuditCounts

audit = typer.Typer(
    help="Check the recorded history against its hashes. See docs/guarantees/audit.md.",
    no_args_is_help=True,
)


@audit.command("verify")
def verify(
    transfer: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this transfer and the ledger. Default: all transfers.")
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option("--head", metavar="HEAD", help="Ledger head that you have kept. Can be repeated."),
    ] = None,
    as_json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Report all records that were changed. Exit code 3 if there are any.

    Example: seqferry audit verify --head 14-9f3c...
    """
    with open_session(as_json=as_json, state_dir=state_dir, reads=True) as session:
        full_id = None if transfer is None else session.service.status(transfer).id
        audited = session.service.audit(head or [], transfer_id=full_id)
        checked, outside, found = audited.counts, audited.anchors, 0
        for finding in audited.findings:
            found += 1
            if as_json:
                display.emit("finding", **asdict(finding))
            else:
                print(f"{finding.kind}\t{text.printable(finding.message)}")
        code = exits.MISMATCH if found else exits.OK
        if as_json:
            facts = asdict(checked) | {"head": str(checked.head)}
            anchored = None if outside is None else {"place": outside.uri, "anchors": len(outside.known)}
            display.emit(
                "audit", findings=found, outside_heads=audited.heads, anchored=anchored, **facts, exit_code=code
            )
        else:
            for line in [*_lines(checked, found, outside=audited.heads), *_anchor_lines(checked, outside)]:
                display.say(line)
        return code


@audit.command("anchor")
def anchor(as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Write the ledger head to the anchor location now. Workers do this automatically. The location is [audit]
    anchor."""
    with open_session(as_json=as_json, state_dir=state_dir) as session:
        written = session.service.anchor()
        if as_json:
            facts = {} if written is None else {"uri": written.uri, "locked_until": written.locked_until}
            display.emit("anchor", written=written is not None, **facts)
        elif written is None:
            display.say("Nothing to do: an anchor covers the ledger as it is.")
        else:
            print(written.uri)
            if written.locked_until is None:
                display.say("  note      the object is not locked: set [audit] retention, with Object Lock")
        return exits.OK


@audit.command("head")
def head(as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Print the ledger head. Keep it where users with write access to the database cannot change it."""
    with open_session(as_json=as_json, state_dir=state_dir, reads=True) as session:
        found = session.service.ledger_head()
        if as_json:
            display.emit("head", head=str(found), count=found.count, hash=found.hash)
        else:
            print(found)
        return exits.OK


def _anchor_lines(checked: AuditCounts, outside: StoredAnchors | None) -> list[str]:
    if outside is None:
        return []
    lines = [f"  anchors    {text.count(len(outside.known), 'anchor')} at {text.printable(outside.uri)}"]
    if (uncovered := checked.head.count - outside.last) > 0:
        lines.append(f"  uncovered  {uncovered:,} of the ledger's entries came after the last anchor")
    if outside.unlocked:
        lines.append(f"  unlocked   {text.count(outside.unlocked, 'anchor')} without Object Lock")
    return lines


def _lines(checked: AuditCounts, found: int, *, outside: int) -> list[str]:
    what = ", ".join(
        text.count(number, noun)
        for number, noun in (
            (checked.transfers, "transfer"),
            (checked.objects, "object"),
            (checked.events, "event"),
        )
    )
    result = "nothing was changed" if not found else f"{text.count(found, 'finding')}"
    lines = [f"Checked {what} and a ledger of {checked.entries:,}: {result}."]
    notes: dict[str, Any] = {
        "  no key     the record has no key: only accidental changes are detected": bool(checked.entries)
        and not checked.keyed,
        f"  open       batches that have not ended, and so are not covered yet: {checked.open_batches:,}": (
            checked.open_batches
        ),
        "  no anchor  no head is kept outside: a cut at the end and an older backup do not show": not outside,
    }
    lines += [line for line, holds in notes.items() if holds]
    lines.append(f"  head       {checked.head}")
    return lines
