"""``seqferry share``: links by which others see a delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqferry.cli import exits, options
from seqferry.cli.options import duration
from seqferry.cli.output import display, text
from seqferry.cli.session import actor
from seqferry.model.errors import UsageError
from seqferry.settings.config import Settings

if TYPE_CHECKING:
    from seqferry.service.share_links import ShareLink


def share(
    transfer: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Transfer id, its beginning, or name. The link shows its retries too."),
    ] = None,
    shared_label: Annotated[
        str | None,
        typer.Option(
            "--label", metavar="KEY[=VALUE]", help="Show all transfers with this label, including later ones."
        ),
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(
            "--expires",
            metavar="TIME",
            parser=duration,
            help="Lifetime of the link, as 30d or 12h, at most 365d. Default: 14d.",
        ),
    ] = None,
    list_links: Annotated[bool, typer.Option("--list", help="List links. With ID, those of a transfer.")] = False,
    revoke: Annotated[
        str | None, typer.Option("--revoke", metavar="LINK", help="Revoke the link with this id (see --list).")
    ] = None,
    as_json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Print a link that shows a delivery without a token. It is read-only and expires."""
    from seqferry.service import share_links
    from seqferry.service.service import Service

    makes = not (list_links or revoke is not None)
    if (makes and (transfer is None) == (shared_label is None)) or (shared_label is not None and not makes):
        raise UsageError("Give the id of a transfer or --label to make a link; or --list; or --revoke with its id.")
    if revoke is not None and (list_links or transfer is not None):
        raise UsageError("--revoke takes the id of a link, and nothing else.")
    with Service.open(Settings.load(state_dir=state_dir)) as service:
        if list_links:
            _show(share_links.list_links(service, transfer_id=transfer), as_json=as_json)
            return exits.OK
        if revoke is not None:
            ended = share_links.revoke(service, revoke, actor=actor())
            if as_json:
                display.emit("share_link", **_facts(ended))
            else:
                display.say(f"Link {ended.id} is revoked.")
            return exits.OK
        base = share_links.base_url(service)
        lifetime = share_links.DEFAULT_LIFETIME_SECONDS if expires is None else expires
        link, token = share_links.create(
            service, actor=actor(), transfer_id=transfer, label=shared_label, lifetime=lifetime
        )
        address = share_links.url(service, token)
    if as_json:
        display.emit("share_link", **_facts(link), url=address)
        return exits.OK
    print(address)
    display.say(
        f"The link is valid until {text.timestamp(link.expires_at)}. It cannot be shown again. To "
        f"revoke it: seqferry share --revoke {link.id}"
    )
    if share_links.is_loopback(base):
        display.say(
            "Other machines cannot open this address: write public_url into [server] of the configuration file."
        )
    return exits.OK


def _show(found: list[ShareLink], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            display.emit("share_link", **_facts(one))
        return
    if not found:
        display.say("There are no share links. Make one with: seqferry share ID")
        return
    rows = [("LINK", "STATE", "EXPIRES", "SHOWS", "MADE BY")]
    rows += [
        (one.id, one.state, text.timestamp(one.expires_at), _scope(one), text.printable(one.created_by))
        for one in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _scope(one: ShareLink) -> str:
    return f"transfer {one.transfer_id}" if one.label is None else f"label {text.printable(one.label)}"


def _facts(one: ShareLink) -> dict[str, Any]:
    """The ``share_link`` event."""
    return {
        "link": one.id,
        "state": one.state,
        "transfer_id": one.transfer_id,
        "label": one.label,
        "created_at": text.timestamp(one.created_at, milliseconds=True),
        "created_by": one.created_by,
        "expires_at": text.timestamp(one.expires_at, milliseconds=True),
        "revoked_at": text.optional_timestamp(one.revoked_at),
        "revoked_by": one.revoked_by,
    }
