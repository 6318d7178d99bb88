"""``seqferry schedule``: transfers that begin by themselves at the times of a cron expression."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from seqferry.cli import exits, foreign_commands, options, pipes, spec_arguments
from seqferry.cli.option_groups import SourcesAndTarget
from seqferry.cli.output import display, text
from seqferry.cli.session import Session, actor, open_session
from seqferry.model import labels
from seqferry.model.errors import UsageError
from seqferry.model.models import MAX_PRIORITY, TransferSpec
from seqferry.model.option_groups import Attributes, Filters, Protection, Removal
from seqferry.spec.build import build_spec
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    PartOptions,
    SelectionOptions,
    StorageOptions,
)

if TYPE_CHECKING:
    from seqferry.service.schedules import Schedule, ScheduleRun

schedule = typer.Typer(
    help="Start transfers at the times of a cron expression.",
    no_args_is_help=True,
)

_VERBS: Final = ("cp", "sync")

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
        typer.Argument(metavar="cp|sync SRC DST [OPTIONS]", help="Command to run, with its options."),
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

    Endpoints and identities are read from the environment now, as for cp.
    """
    import time

    from seqferry.service import schedules
    from seqferry.service.cron import UTC_ZONE, parse
    from seqferry.spec import identity

    timezone = timezone or UTC_ZONE
    parse(cron, timezone, time.time())  # before the storage is asked
    given = labels.parse(None, label or ())
    spec = identity.resolve(_spec(command))
    with open_session(as_json=as_json, state_dir=state_dir, check=spec) as session:
        made = schedules.add(
            session.service,
            cron,
            spec,
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
    """Start a schedule's transfer now and print its id. A worker runs it."""
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


def _spec(words: list[str]) -> TransferSpec:
    """Spec of the transfer that a command line asks for.

    Raises:
        UsageError: the command line is not valid, or its verb cannot be scheduled.
    """
    from seqferry.cli.app import build_command

    words = foreign_commands.translate(words[1:] if words[:1] == ["seqferry"] else words)
    verb = words[0] if words else ""
    if verb not in _VERBS:
        raise UsageError(f"'{verb}' cannot be scheduled; use cp or sync: seqferry schedule add CRON sync SRC DST")
    command = build_command(verb, {"cp": _cp, "sync": _sync}[verb])
    made = command.main(words[1:], prog_name=f"seqferry schedule add CRON {verb}", standalone_mode=False)
    return cast("TransferSpec", made)


def _cp(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    parts: PartOptions,
    storage: StorageOptions,
    access: AccessOptions,
    protection: Protection,
    attributes: Attributes,
    endpoints: Endpoints,
) -> TransferSpec:
    pipes.reject_streams(places, "schedule")
    given = spec_arguments.build(
        places, selection, filters, names, parts, storage, access, protection, attributes, endpoints
    )
    return build_spec(**given, allow_local=True)


def _sync(
    places: SourcesAndTarget,
    selection: SelectionOptions,
    filters: Filters,
    names: NameOptions,
    removal: Removal,
    parts: PartOptions,
    storage: StorageOptions,
    access: AccessOptions,
    protection: Protection,
    attributes: Attributes,
    endpoints: Endpoints,
) -> TransferSpec:
    pipes.reject_streams(places, "schedule")
    given = spec_arguments.build(
        places,
        selection,
        filters,
        names,
        removal,
        parts,
        storage,
        access,
        protection,
        attributes,
        endpoints,
        below=True,
    )
    return build_spec(**given, below=True, allow_local=True)


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
    print(f"added     {text.timestamp(one.created_at)} by {text.printable(one.created_by)}")
    print("runs" if one.runs else "runs      none yet")
    for run in one.runs:
        line = f"  {text.timestamp(run.due_at)}  {run.outcome}  {run.transfer_id or ''}".rstrip()
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
