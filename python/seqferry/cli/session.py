"""Shared parts of the commands about transfers: settings, the service, the display, the report of the end."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from seqferry.cli import exits, follow
from seqferry.cli.option_groups import Output, merge
from seqferry.cli.output import display, summary, text
from seqferry.cli.output.display import Display
from seqferry.model.frozen import frozen
from seqferry.model.labels import NOTHING, Description
from seqferry.model.models import (
    ObjectRecord,
    ResolvedSpec,
    Status,
    Submission,
    TransferSpec,
)
from seqferry.settings.config import Settings
from seqferry.spec.option_groups import SpeedOptions

if TYPE_CHECKING:
    from seqferry.db.paging import ObjectFilter
    from seqferry.planning.listing import KnownObjects
    from seqferry.service.service import Service


@frozen
class Session:
    """One command at work.

    Attributes:
        state_dir: as given by ``--state-dir``, so that the commands we suggest find the same state.
        limits: options that were given and hold for this process only.
        known: findings about the transfer that is to be made, if it was inspected first.
    """

    settings: Settings
    service: Service
    as_json: bool
    quiet: bool
    progress: bool
    state_dir: str | None
    limits: tuple[str, ...] = ()
    known: KnownObjects | None = None
    price: str | None = None
    """Region of AWS whose prices hold, whatever the storage is."""

    def display(self) -> Display:
        return display.choose_display(as_json=self.as_json, quiet=self.quiet, progress=self.progress)

    def command(self, verb: str, transfer_id: str, *options: str) -> str:
        """The command line that does ``verb`` to this transfer."""
        place = () if self.state_dir is None else ("--state-dir", self.state_dir)
        return shlex.join(["seqferry", verb, transfer_id, *options, *place])

    def report_submission(self, submission: Submission) -> None:
        """Say which earlier transfer goes on instead of a new one."""
        if not submission.goes_on:
            return
        from seqferry.cli.output import progress_text

        share = progress_text.percent(self.service.status(submission.id).totals)
        if self.as_json:
            display.emit("going_on", id=submission.id, percent=share)
        if self.quiet:
            return
        done = "" if share is None else f", {share} % done"
        display.say(f"Continuing transfer {submission.id}{done}; --new starts another.")

    def run(
        self,
        spec: TransferSpec,
        *,
        new: bool = False,
        known: KnownObjects | None = None,
        priority: int = 0,
        description: Description = NOTHING,
        wait: bool = False,
    ) -> int:
        """Submit the transfer and see it through; returns the exit code. ``known`` is what its check has found."""
        _, code = self.submit_and_follow(
            spec, new=new, known=known, priority=priority, description=description, wait=wait
        )
        return code

    def submit_and_follow(
        self,
        spec: TransferSpec,
        *,
        new: bool = False,
        known: KnownObjects | None = None,
        priority: int = 0,
        report: Callable[[Status], int] | None = None,
        description: Description = NOTHING,
        wait: bool = False,
    ) -> tuple[str, int]:
        """Does what ``run`` does; returns the id of the transfer as well. ``report`` tells of its end."""
        known = known or self.known
        with (
            follow.interruptible() as watch,
            follow.WorkerSupervisor(self.settings, self.service, watch, waits=wait) as supervisor,
        ):
            submission = supervisor.submit(
                spec, actor(), new=new, known=known, priority=priority, description=description
            )
            transfer_id = submission.id
            show = self.display()
            show.show_submission(transfer_id)
            self.report_submission(submission)
            if supervisor.has_other_worker and self.limits:
                show.note(
                    f"Another process runs the transfer with its own limits: {', '.join(self.limits)} of no effect."
                )
            code = self._follow(transfer_id, show, watch, supervisor, report or self.report_end)
        if not (self.quiet or self.as_json or supervisor.has_other_worker):
            self._report_unfinished(transfer_id)
        return transfer_id, code

    def _report_unfinished(self, transfer_id: str) -> None:
        """Tell of unfinished transfers in a local database: this process may have begun to work at them too."""
        if not self.service.is_local:
            return
        for other, state in self.service.unfinished_states().items():
            if other != transfer_id:
                display.say(f"Also unfinished: {other} ({state}); continue with: {self.command('resume', other)}")

    def follow(self, transfer_id: str, *, work: bool = True, wanted: str = "done", waits: bool = False) -> int:
        """Follow a transfer that was submitted before, to its end, and report it; returns the exit code.

        Args:
            work: do the work where no other process can.
            wanted: the state that it is meant to end in.
            waits: wait also where only a worker with other credentials can go on.
        """
        with follow.interruptible() as watch:
            supervisor = follow.WorkerSupervisor(self.settings, self.service, watch, waits=waits) if work else None
            report = partial(self.report_end, wanted=wanted)
            return self._follow(transfer_id, self.display(), watch, supervisor, report)

    def _follow(
        self,
        transfer_id: str,
        show: Display,
        watch: follow.FollowEvents,
        supervisor: follow.WorkerSupervisor | None,
        report: Callable[[Status], int],
    ) -> int:
        try:
            end = follow.follow(self.service, transfer_id, show, watch, supervisor, self.command)
        except follow.Interruption as interruption:
            return self._say_interrupted(transfer_id, going_on=interruption.going_on)
        except follow.NoCapableWorker as why:
            return self._say_out_of_reach(transfer_id, why)
        return report(end)

    def report_end(self, status: Status, wanted: str = "done") -> int:
        """The summary of a transfer that has ended; returns the exit code."""
        result = self.result(status)
        is_as_wanted = status.state == wanted == "cancelled"
        code = exits.OK if is_as_wanted else exits.transfer_exit_code(status, result.failures)
        if self.as_json:
            if result.failures:
                from seqferry.db.paging import ObjectFilter

                self.emit_objects(status.id, ObjectFilter("failed"))
            display.emit("summary", **summary.facts(result, code))
        elif code != exits.OK or not self.quiet:
            for line in self.summary_lines(result):
                display.say(line)
        return code

    def result(self, status: Status, *, priced: bool = False) -> summary.TransferSummary:
        """All there is to tell about a transfer that has ended; ``priced``: with its cost on AWS."""
        kind = status.spec.kind
        failures = self.service.failures(status.id, keys=summary.KEYS_PER_GROUP) if status.totals.failed else []
        removed = self.service.count_removed(status.id) if status.spec.removal.delete else 0
        moved = self.service.count_moved(status.id) if kind.removes_sources or kind.runs_list else 0
        found_nothing = status.state == "done" and status.totals.objects == 0 and not kind.aborts
        nearest = self.service.nearest_keys(status.spec) if found_nothing else ()
        head = self.service.signed_head()
        verifications = self.service.verifications(status.id)
        found = summary.TransferSummary(status, verifications, failures, removed, nearest, moved, head)
        return self._with_cost(found) if priced or self.price is not None else found

    def _with_cost(self, found: summary.TransferSummary) -> summary.TransferSummary:
        return replace(found, cost=self.service.cost(found.status, self.price))

    def summary_lines(self, result: summary.TransferSummary) -> list[str]:
        of = result.status
        retry = None if of.next_step is None else self.command(of.next_step, of.id)
        return summary.format_summary(result, status_command=self.command("status", of.id), retry_command=retry)

    def objects(self, transfer_id: str, wanted: ObjectFilter | None = None) -> Iterator[ObjectRecord]:
        """All objects that the filter selects, read a page at a time."""
        cursor = None
        while True:
            page = self.service.object_page(transfer_id, wanted, cursor=cursor)
            yield from page.entries
            if (cursor := page.next) is None:
                return

    def emit_objects(self, transfer_id: str, wanted: ObjectFilter | None = None) -> None:
        for record in self.objects(transfer_id, wanted):
            display.emit("object", id=transfer_id, **summary.object_facts(record))

    def _say_interrupted(self, transfer_id: str, *, going_on: bool) -> int:
        resume, cancel = self.command("resume", transfer_id), self.command("cancel", transfer_id)
        if self.as_json:
            display.emit("interrupted", id=transfer_id, going_on=going_on, resume=resume, cancel=cancel)
        if going_on:
            display.say("Stopped watching; the transfer continues in another process.")
            display.say(f"  watch again:  {self.command('watch', transfer_id)}")
        else:
            display.say("Interrupted. Finished objects and copied parts are kept.")
            display.say(f"  continue:     {resume}")
        display.say(f"  cancel:       {cancel}")
        return exits.INTERRUPTED

    def _say_out_of_reach(self, transfer_id: str, why: follow.NoCapableWorker) -> int:
        resume, abandon = self.command("resume", why.other_id), self.command("cancel", why.other_id, "--abandon")
        if self.as_json:
            facts = {"waits_for": why.other_id, "lacks": why.missing, "resume": resume, "abandon": abandon}
            display.emit("out_of_reach", id=transfer_id, **facts)
        own = why.other_id == transfer_id
        what = (
            f"Transfer {transfer_id}" if own else f"Transfer {why.other_id}, which writes to the same keys before it,"
        )
        display.say(
            text.printable(f"{what} needs {why.missing}, and no running worker has it: the transfer does not continue.")
        )
        display.say(f"  continue with these credentials: {resume}")
        display.say(f"  cancel it:                       {abandon}")
        display.say("  wait here for either:            the same command with --wait")
        return exits.OUT_OF_REACH


@contextmanager
def open_session(
    *,
    as_json: bool = False,
    quiet: bool = False,
    progress: bool = True,
    state_dir: str | None = None,
    check: ResolvedSpec | None = None,
    begins: bool = False,
    records: bool = True,
    reads: bool = False,
    **settings: Any,
) -> Generator[Session]:
    """Settings from the environment and ``settings``, and an open service.

    Args: ``check`` is the transfer to check first; None checks nothing. ``begins``: this process may do it immediately
    after. ``records``: something may be put on record; what records nothing needs no state folder. ``reads``: only what
    is on record is read, for which a state folder that cannot be written will do.

    Raises:
        ConfigError: the settings make no sense, or the state folder or the database cannot be used.
        UsageError, StorageError: as ``Service.check``.
    """
    loaded = Settings.load(state_dir=state_dir, with_tables=records and not reads, **settings)
    if not records or not loaded.uses_sqlite:
        loaded = loaded.without_records()
    with ThreadPoolExecutor(1, "seqferry-check") as beside:
        engine, checked = None, None
        if check is not None:
            # Imported here, as below: `seqferry --help` need not wait for the engine and SQLAlchemy.
            from seqferry.engine.engine import Engine
            from seqferry.preflight import start

            engine = Engine.of(loaded)
            engine.open_cache()
            # The storage answers while the rest is imported, which takes as long as some answers from far away.
            checked = beside.submit(start.check, engine, check, begins=begins and loaded.uses_sqlite)
        from seqferry.service.service import Service

        opened = Service.open(loaded, engine, reads=reads)
    with opened as service:
        known = None if checked is None else checked.result()
        own = [name for name, value in settings.items() if value is not None and name != "tpslimit"]
        limits = tuple(f"--{name.replace('_', '-')}" for name in own)
        yield Session(loaded, service, as_json, quiet, progress, state_dir, limits, known)


def session_of(
    output: Output,
    speed: SpeedOptions | None = None,
    *,
    check: ResolvedSpec | None = None,
    begins: bool = False,
    records: bool = True,
    reads: bool = False,
) -> AbstractContextManager[Session]:
    """``open_session`` with the groups of options of a command."""
    return open_session(
        as_json=output.as_json,
        quiet=output.quiet,
        progress=not output.no_progress,
        state_dir=output.state_dir,
        check=check,
        begins=begins,
        records=records,
        reads=reads,
        **merge(*([] if speed is None else [speed])),
    )


def actor() -> str:
    """The actor, for the record: ``user@host``."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = f"uid{os.getuid()}"  # a container without an entry in /etc/passwd
    return f"{user}@{socket.gethostname()}"
