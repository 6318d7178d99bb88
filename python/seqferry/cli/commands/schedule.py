"""``seqferry schedule``: commands that begin by themselves at the times of a cron expression."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from seqferry.cli import exits, foreign_commands, options, pipes
from seqferry.cli.commands.check import comparison_spec
from seqferry.cli.commands.cleanup import cleanup_spec
from seqferry.cli.commands.cp import copy_spec
from seqferry.cli.commands.mv import move_spec
from seqferry.cli.commands.sync import sync_spec
from seqferry.cli.commands.verify import VerificationRequest, verification_request
from seqferry.cli.option_groups import SourcesAndTarget
from seqferry.cli.output import display, text
from seqferry.cli.session import Session, actor, open_session
from seqferry.model import labels
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import MAX_PRIORITY, ResolvedSpec, TransferSpec
from seqferry.spec import key_lists
from seqferry.spec.option_groups import ListFormat, NameOptions

if TYPE_CHECKING:
    from seqferry.service.schedule_runs import ScheduleRun
    from seqferry.service.schedules import Schedule

schedule = typer.Typer(
    help="Start commands at the times of a cron expression.",
    no_args_is_help=True,
)

SPECS: Final[dict[str, Callable[..., TransferSpec | VerificationRequest]]] = {
    "cp": copy_spec,
    "sync": sync_spec,
    "mv": move_spec,
    "check": comparison_spec,
    "verify": verification_request,
    "cleanup": cleanup_spec,
}
"""Commands that can be scheduled, each with the function that makes its spec of its groups of options."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]
Timezone = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="ZONE",
        help="Time zone of the cron expression, as Europe/Berlin. Default: UTC.",
    ),
]


@schedule.command("add", context_settings={"ignore_unknown_options": True})
def add(
    cron: Annotated[
        str,
        typer.Argument(
            metavar="CRON",
            help="Cron expression: minute, hour, day of month, month, day of week, as '0 2 * * *'. An optional"
            " field for seconds comes first.",
        ),
    ],
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND [OPTIONS]",
            help="Command to run, with its options: cp, sync, mv, check, verify or cleanup.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the schedule. Default: generated."),
    ] = None,
    timezone: Timezone = None,
    priority: Annotated[
        int,
        typer.Option(
            "--priority",
            envvar="SEQFERRY_PRIORITY",
            metavar="N",
            min=-MAX_PRIORITY,
            max=MAX_PRIORITY,
            help="Priority of the transfers, from -10 to 10. Higher runs first.",
        ),
    ] = 0,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            envvar="SEQFERRY_LABEL",
            metavar="KEY=VALUE",
            help="Label of the transfers. Their name is that of the schedule. Can be repeated.",
        ),
    ] = None,
    as_json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Add a schedule. A running `seqferry serve` or `seqferry worker` starts its transfers.

    Endpoints and identities are read from the environment now, as for cp. Each run reads the list of --files-from
    again.
    """
    import time

    from seqferry.service import schedules
    from seqferry.service.cron import UTC_ZONE, parse

    timezone = timezone or UTC_ZONE
    parse(cron, timezone, time.time())  # before the storage is asked
    given = labels.parse(None, label or ())
    wanted = _parse(command)
    spec = _resolve(wanted, state_dir)
    with open_session(as_json=as_json, state_dir=state_dir, check=spec) as session:
        made = schedules.add(
            session.service,
            cron,
            spec if wanted.files_from is None else _defer_list(spec, wanted.files_from, wanted.files_format),
            actor=actor(),
            name=name,
            timezone=timezone,
            priority=priority,
            labels=given.labels,
        )
        _show_state(session, made)
        if not as_json:
            if schedules.uses_temporary_keys(spec):
                display.say(
                    "Its credentials are temporary. Later runs wait for a worker with newer ones. A profile "
                    "or a role does not expire."
                )
            if (folder := session.service.find_unserved(made.spec)) is not None:
                display.say(f"No connected worker serves {folder}: its transfers wait for one.")
            display.say("A running `seqferry serve` or `seqferry worker` starts it; if none runs, start one.")
        return exits.OK


@schedule.command("list")
def list_(as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """List schedules with their next and last run."""
    from seqferry.service import schedules

    with open_session(as_json=as_json, state_dir=state_dir, reads=True) as session:
        found = schedules.list_schedules(session.service)
        if as_json:
            for one in found:
                display.emit("schedule", **facts(one))
        elif not found:
            display.say("No schedules yet. Add one with: seqferry schedule add '0 2 * * *' sync SRC DST")
        else:
            _print_table(found)
        return exits.OK


@schedule.command()
def show(name: Name, as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Show a schedule, its latest runs and its history. For a removed schedule only the history is shown."""
    from seqferry.model.errors import NotFoundError
    from seqferry.service import schedules

    with open_session(as_json=as_json, state_dir=state_dir, reads=True) as session:
        history = schedules.history(session.service, name)
        try:
            found = schedules.find_schedule(session.service, name)
        except NotFoundError:
            found = None
        if as_json:
            if found is not None:
                display.emit("schedule", **facts(found))
                for run in found.runs:
                    display.emit("schedule_run", schedule=name, **run_facts(run))
            for event in history:
                at = text.optional_timestamp(event.at)
                display.emit("schedule_event", schedule=name, **(asdict(event) | {"at": at}))
            return exits.OK
        if found is None:
            print(f"schedule  {name} (removed)")
        else:
            _print(found)
        print("record")
        for event in history:
            print(f"  {text.timestamp(event.at)}  {event.kind} by {text.printable(event.actor)}{_change(event.data)}")
        return exits.OK


@schedule.command()
def edit(
    name: Name,
    cron: Annotated[
        str | None,
        typer.Option("--cron", metavar="CRON", help="New cron expression."),
    ] = None,
    timezone: Timezone = None,
    as_json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Change the times of a schedule. To change its command, remove it and add another."""
    from seqferry.service import schedules

    if cron is None and timezone is None:
        raise UsageError("Nothing to change: give --cron or --timezone.")
    with open_session(as_json=as_json, state_dir=state_dir) as session:
        edited = schedules.edit(session.service, name, actor=actor(), expression=cron, timezone=timezone)
        _show_state(session, edited)
        return exits.OK


@schedule.command()
def pause(name: Name, as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Pause a schedule. Running transfers continue."""
    from seqferry.service import schedules

    with open_session(as_json=as_json, state_dir=state_dir) as session:
        _show_state(session, schedules.pause(session.service, name, actor=actor()))
        return exits.OK


@schedule.command()
def resume(name: Name, as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Resume a paused schedule. Missed runs are not started."""
    from seqferry.service import schedules

    with open_session(as_json=as_json, state_dir=state_dir) as session:
        _show_state(session, schedules.resume(session.service, name, actor=actor()))
        return exits.OK


@schedule.command("run")
def run_(name: Name, as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Start a schedule's command now and print the id of its transfer. A worker runs it."""
    from seqferry.service import schedules

    with open_session(as_json=as_json, state_dir=state_dir) as session:
        run = schedules.run_now(session.service, name, actor=actor())
        if as_json:
            display.emit("schedule_run", schedule=name, **run_facts(run))
        elif run.transfer_id is not None:
            print(run.transfer_id)
            if run.outcome != "submitted":
                display.say(text.printable(run.message or ""))
            display.say(f"  watch:  {session.command('watch', run.transfer_id)}")
        if run.outcome == "failed":
            if not as_json:
                display.say(f"seqferry: {text.printable(run.message or '')}")
            return exits.FAILED
        return exits.OK


@schedule.command("rm")
def rm(name: Name, as_json: options.Json = False, state_dir: options.StateDir = None) -> int:
    """Remove a schedule. Its transfers and its history are kept."""
    from seqferry.service import schedules

    with open_session(as_json=as_json, state_dir=state_dir) as session:
        schedules.remove(session.service, name, actor=actor())
        if as_json:
            display.emit("removed", schedule=name)
        else:
            display.say(f"Schedule {name} is removed. Its transfers continue.")
        return exits.OK


# --- what begins ------------------------------------------------------------------------------------------------------


@frozen
class _Command:
    """A command that was parsed.

    Attributes:
        spec: a draft, with the keys of its list.
        files_from: the list that each run reads; None: there is none.
    """

    spec: TransferSpec | VerificationRequest
    files_from: str | None = None
    files_format: ListFormat = "auto"


def _parse(words: list[str]) -> _Command:
    """The command that a command line asks for.

    Raises:
        UsageError: the command line is not valid, or its verb cannot be scheduled.
    """
    from seqferry.cli.app import build_command

    words = foreign_commands.translate(words[1:] if words[:1] == ["seqferry"] else words)
    verb = words[0] if words else ""
    if verb not in SPECS:
        known = f"{', '.join([*SPECS][:-1])} or {[*SPECS][-1]}"
        raise UsageError(f"'{verb}' cannot be scheduled; use {known}: seqferry schedule add CRON sync SRC DST")
    command = build_command(verb, _parsed(SPECS[verb]))
    return cast(
        "_Command", command.main(words[1:], prog_name=f"seqferry schedule add CRON {verb}", standalone_mode=False)
    )


def _parsed(make: Callable[..., TransferSpec | VerificationRequest]) -> Callable[..., _Command]:
    """The function of a command that takes the groups of ``make``."""

    @wraps(make)
    def parsed(**groups: Any) -> _Command:
        if isinstance(places := groups.get("places"), SourcesAndTarget):
            pipes.reject_streams(places, "schedule")
        names = groups.get("names")
        if not isinstance(names, NameOptions) or names.files_from is None:
            return _Command(make(**groups))
        if names.files_from == "-":
            raise UsageError("A schedule reads its list at each run: give --files-from a file, not standard input.")
        return _Command(make(**groups), names.files_from, names.files_format)

    return parsed


def _resolve(wanted: _Command, state_dir: str | None) -> ResolvedSpec:
    """The spec of a command, with the keys of its list now."""
    from seqferry.service import control
    from seqferry.spec import identity

    if not isinstance(wanted.spec, VerificationRequest):
        return identity.resolve(wanted.spec)
    with open_session(state_dir=state_dir, reads=True) as session:
        verified = session.service.status(wanted.spec.transfer)
    return identity.resolve(control.verification_spec(verified, **wanted.spec.options))


def _defer_list(spec: ResolvedSpec, name: str, asked: ListFormat) -> ResolvedSpec:
    """The spec of a schedule whose runs read the list; a manifest is read by planning in any case."""
    from seqferry.spec import list_files

    form = key_lists.detect_format(name, asked)
    return spec if form == "inventory" else list_files.defer(spec, name, form)


# --- what is shown ----------------------------------------------------------------------------------------------------


def facts(one: Schedule) -> dict[str, Any]:
    """A schedule for JSON."""
    return {
        "name": one.name,
        "cron": one.cron.expression,
        "timezone": one.cron.timezone,
        "state": one.state,
        "operation": one.spec.operation,
        "source": one.spec.source.uri,
        "target": one.spec.target.uri,
        "files_from": one.spec.files_from,
        "priority": one.priority,
        "labels": dict(one.labels),
        "created_at": text.optional_timestamp(one.created_at),
        "created_by": one.created_by,
        "next_at": text.optional_timestamp(one.next_at),
        "last_run": run_facts(one.runs[0]) if one.runs else None,
    }


def run_facts(run: ScheduleRun) -> dict[str, Any]:
    """A run for JSON."""
    return {
        "due_at": text.optional_timestamp(run.due_at),
        "at": text.optional_timestamp(run.at),
        "outcome": run.outcome,
        "transfer": run.transfer_id,
        "message": run.message,
        "list_sha256": run.list_sha256,
    }


def _print_table(found: list[Schedule]) -> None:
    rows = [("NAME", "CRON", "ZONE", "STATE", "NEXT", "LAST RUN", "FROM", "TO")]
    rows += [
        (
            one.name,
            one.cron.expression,
            one.cron.timezone,
            one.state,
            _local(one.next_at, one),
            f"{text.timestamp(one.runs[0].due_at)} {one.runs[0].outcome}" if one.runs else "-",
            text.printable(one.spec.source.uri),
            text.printable(one.spec.target.uri),
        )
        for one in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print(one: Schedule) -> None:
    print(f"schedule  {one.name} ({one.state})")
    print(f"cron      {one.cron.expression} ({one.cron.timezone})")
    print(f"next      {_local(one.next_at, one)}")
    print(f"does      {one.spec.operation}")
    print(f"from      {text.printable(one.spec.source.uri)}")
    print(f"to        {text.printable(one.spec.target.uri)}")
    if (name := one.spec.files_from or one.spec.inventory) is not None:
        print(f"list      {text.printable(name)}")
    print(f"added     {text.timestamp(one.created_at)} by {text.printable(one.created_by)}")
    print("runs" if one.runs else "runs      none yet")
    for run in one.runs:
        line = f"  {text.timestamp(run.due_at)}  {run.outcome}  {run.transfer_id or ''}".rstrip()
        line += "" if run.list_sha256 is None else f"  list SHA-256 {run.list_sha256}"
        print(line if run.message is None else f"{line}  {text.printable(run.message)}")


def _show_state(session: Session, one: Schedule) -> None:
    if session.as_json:
        display.emit("schedule", **facts(one))
        return
    print(one.name)
    if one.next_at is None:
        display.say(f"It is paused. Resume it with: {_command('resume', one.name, session)}")
    else:
        display.say(f"Next: {_local(one.next_at, one)}. See it with: {_command('show', one.name, session)}")


def _command(verb: str, name: str, session: Session) -> str:
    place = () if session.state_dir is None else ("--state-dir", session.state_dir)
    return shlex.join(["seqferry", "schedule", verb, name, *place])


def _local(at: float | None, one: Schedule) -> str:
    """A time in the zone of the schedule."""
    return "-" if at is None else datetime.fromtimestamp(at, one.cron.zone).isoformat(timespec="seconds")


def _change(data: dict[str, Any]) -> str:
    if "before" in data:
        before = data["before"]
        return f": {before['cron']} ({before['timezone']}) becomes {data['cron']} ({data['timezone']})"
    return f": {data['cron']} ({data['timezone']})" if "cron" in data else ""
