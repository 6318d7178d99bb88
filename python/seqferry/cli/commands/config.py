"""``seqferry config``: shows the settings in effect with their origin, and checks them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.model.errors import SeqferryError
from seqferry.settings.config import Settings

config = typer.Typer(help="Show and check the configuration.", rich_markup_mode=None)

_HIDDEN: Final = "(set, not shown)"


@config.callback()
def _group() -> None: ...


@config.command()
def show(as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Print each setting, its value and its origin. Secrets are not printed."""
    settings = Settings.load(state_dir=state_dir)
    rows = list(_rows(settings))
    if as_json:
        for name, value, origin in rows:
            display.emit("setting", name=name, value=value, origin=origin)
        return exits.OK
    print(f"configuration file: {settings.config_file or 'none'}")
    widths = [max(len(text.printable(str(row[column]))) for row in rows) for column in range(2)]
    for name, value, origin in rows:
        shown = "-" if value is None else text.printable(str(value))
        print(f"{name.ljust(widths[0])}  {shown.ljust(widths[1])}  {text.printable(origin)}".rstrip())
    return exits.OK


@config.command()
def check(as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Check the configuration, the state folder and the database."""
    settings = Settings.load(state_dir=state_dir)
    problems = list(_problems(settings))
    if as_json:
        for problem in problems:
            display.emit("problem", message=problem)
        display.emit("checked", problems=len(problems), database=settings.database_label)
    else:
        for problem in problems:
            display.say(text.printable(problem))
        if not problems:
            print(f"The configuration is valid; the database is {settings.database_label}.")
    return exits.FAILED if problems else exits.OK


def _rows(settings: Settings) -> Iterator[tuple[str, Any, str]]:
    for name, origin in settings.origins.items():
        value = getattr(settings, name)
        if name == "database_url":
            yield name, None if value is None else settings.database_label, origin
        elif name == "database_direct_url":
            yield name, settings.direct_label, origin
        elif name == "token":
            yield name, None if value is None else _HIDDEN, origin
        elif name == "max_bandwidth":
            yield name, str(value), origin
        else:
            yield name, value if value is None or isinstance(value, int) else str(value), origin
    of_file = str(settings.config_file) if settings.config_file is not None else "default"
    for name in ("endpoints", "profiles", "read", "write"):
        yield f"server.{name}", ", ".join(getattr(settings.policy, name)) or None, of_file
    yield "server.most_schedules", settings.policy.most_schedules, of_file
    yield "server.schedule_interval", f"{settings.policy.schedule_interval:g}s", of_file
    yield "server.trusted_proxies", ", ".join(settings.trusted_proxies) or None, of_file
    yield "server.public_url", settings.public_url, of_file


def _problems(settings: Settings) -> Iterator[str]:
    from seqferry.service.service import Service
    from seqferry.settings import tokens

    path = settings.config_file
    if path is not None and os.stat(path).st_mode & 0o077 and _holds_password(settings, path):  # noqa: PTH116
        yield f"{path} holds the password of the database and others can read it. Run: chmod 600 {path}"
    yield from _notice_problems(settings)
    if settings.token is not None:
        try:
            tokens.check_environment_token(settings.token)
        except SeqferryError as why:
            yield why.message
    try:
        with Service.open(settings) as service:
            service.transfers(limit=1)
    except SeqferryError as why:
        yield why.message


def _notice_problems(settings: Settings) -> Iterator[str]:
    from seqferry.service import notices

    path, channels = settings.config_file, settings.notices.channels
    if path is not None and channels and os.stat(path).st_mode & 0o077:  # noqa: PTH116
        yield f"{path} holds secrets of channels of notices and others can read it. Run: chmod 600 {path}"
    for channel in channels:
        if (why := notices.find_url_fault(channel)) is not None:
            yield f"{why}. Correct url in [notices.{channel.name}]."


def _holds_password(settings: Settings, path: Path) -> bool:
    """True when an address of the database in the file has a password."""
    addresses = {"database_url": settings.postgres_url, "database_direct_url": settings.direct_url}
    for name, parsed in addresses.items():
        if getattr(settings, name) is not None and settings.origins[name].startswith(str(path)):
            url = parsed()
            if url is not None and url.password is not None:
                return True
    return False
