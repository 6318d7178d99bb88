"""``seqferry token``: tokens of clients of the HTTP API."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, cast

import typer

from seqferry.cli import exits, options
from seqferry.cli.options import duration
from seqferry.cli.output import display
from seqferry.settings.config import Settings
from seqferry.settings.tokens import ROLES, Role

token = typer.Typer(help="Manage tokens of the HTTP API.", rich_markup_mode=None)


@token.callback()
def _group() -> None: ...


@token.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the client. It appears in the event log.")],
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="|".join(ROLES),
            help="read: view all transfers. submit: also start transfers and cancel its own. admin: everything.",
        ),
    ] = "read",
    expires: Annotated[
        float | None,
        typer.Option(
            "--expires",
            metavar="TIME",
            parser=duration,
            help="Lifetime of the token, as 90d, 12h or 30m. Default: unlimited.",
        ),
    ] = None,
    state_dir: options.StateDir = None,
) -> int:
    """Create a token and print it once. Only its digest is stored."""
    from seqferry.service import tokens
    from seqferry.service.service import Service

    settings = Settings.load(state_dir=state_dir)
    expires_at = None if expires is None else time.time() + expires
    with Service.open(settings) as service:
        print(tokens.add(service, name, cast("Role", role), expires_at))
    until = "" if expires_at is None else f" until {_time(expires_at)}"
    display.say(f"Token '{name}' with the role '{role}' is valid{until}. Keep it now: it cannot be shown again.")
    return exits.OK


@token.command("list")
def list_(state_dir: options.StateDir = None) -> int:
    """List tokens with role, creation and expiry."""
    from seqferry.service import tokens
    from seqferry.service.service import Service

    with Service.open(Settings.load(state_dir=state_dir), reads=True) as service:
        found = tokens.list_tokens(service)
    rows = [("NAME", "ROLE", "CREATED", "EXPIRES")]
    now = time.time()
    for one in found:
        expires = "never" if one.expires_at is None else _time(one.expires_at)
        rows.append((one.name, one.role, _time(one.created_at), "expired" if one.expired(now) else expires))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return exits.OK


@token.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name given to `token add`.")],
    state_dir: options.StateDir = None,
) -> int:
    """Remove a token. All servers reject it within a second."""
    from seqferry.service import tokens
    from seqferry.service.service import Service

    with Service.open(Settings.load(state_dir=state_dir)) as service:
        tokens.remove(service, name)
    return exits.OK


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
