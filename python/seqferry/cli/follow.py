"""Following a transfer to its end: show its progress, work when no other worker does, stop cleanly on Ctrl-C.

Used by ``cp``, ``resume``, ``cancel`` and ``watch``. Stopping here never harms a transfer: its state is in the
database and at the storage, and whichever worker comes next goes on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final, Self

from seqferry.cli import exits
from seqferry.cli.output import text
from seqferry.cli.output.display import Display
from seqferry.model.errors import WorkerBusyError
from seqferry.model.labels import NOTHING, Description
from seqferry.model.models import Status, Submission, TransferSpec
from seqferry.settings.config import Settings

if TYPE_CHECKING:
    from seqferry.model.workers import ProcessStatus
    from seqferry.planning.listing import KnownObjects
    from seqferry.service.service import Service
    from seqferry.workflows.worker import Worker

_POLL: Final = (0.05, 0.5)
"""Seconds between polls of the database, first and longest; they grow with the time waited, since workers record every
half second. The end of a transfer that this process runs itself is reported immediately."""
_STOP: Final = 2.0
"""Seconds that a worker may take to stop after Ctrl-C."""
_LOOK_FOR_ATTENDANTS: Final = 1.0
"""Seconds from the start in which a command searches for another worker that runs its transfer."""
_REAPING: Final = 2.0
"""Seconds until the work of a dead worker is taken over: a heartbeat, and a check of its key."""
_LEARNING: Final = 5.0
"""Seconds in which a worker that can do a transfer says so: it reports its lanes each two seconds at work."""
_TAKE_OVER: Final = 1.0
"""Seconds between attempts to become the worker when another process was it."""


class Interruption(Exception):  # noqa: N818 - a request of the user, no error
    """Ctrl-C or SIGTERM: stop, leaving the work resumable.

    Attributes:
        going_on: another process is at the transfer, so it goes on without us.
    """

    def __init__(self, *, going_on: bool) -> None:
        super().__init__(going_on)
        self.going_on = going_on


class NoCapableWorker(Exception):  # noqa: N818 - the transfer is in order, and stays on record
    """Only a worker with other credentials can continue the transfer, and none is connected.

    Attributes:
        other_id: the transfer that needs them: this one, or one that it waits for.
        missing: what it needs, as text.
    """

    def __init__(self, other_id: str, missing: str) -> None:
        super().__init__(other_id, missing)
        self.other_id, self.missing = other_id, missing


class FollowEvents:
    """Events that wake the command that follows a transfer: a signal to stop, or a change."""

    def __init__(self) -> None:
        self.asked_to_stop = False
        # Its put may be called from a signal handler that interrupts its get; Event's and Condition's may not.
        self._wakeups: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> None:
        """Wake up the waiting thread. Safe from any thread."""
        self._wakeups.put(None)

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or as soon as there is news."""
        with suppress(Empty):
            self._wakeups.get(timeout=seconds)


@contextmanager
def interruptible() -> Generator[FollowEvents]:
    """Within: the first Ctrl-C, SIGTERM or closed terminal is noted in the watch and rings it, the second ends all."""
    watch = FollowEvents()

    def note(_signal: int, _frame: FrameType | None) -> None:
        if watch.asked_to_stop:
            os._exit(exits.INTERRUPTED)
        watch.asked_to_stop = True
        watch.wake()

    # nohup ignores SIGHUP before it starts the command; that stays so.
    closed = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, *closed)}
    try:
        yield watch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class WorkerSupervisor:
    """Makes sure that a worker serves the queue: this process, when no other holds the state folder.

    With Postgres any number of workers may run. This process becomes one where none of them can do the transfer.

    With ``waits`` it waits also for what only others can do, though none of them is there.
    """

    def __init__(self, settings: Settings, service: Service, watch: FollowEvents, *, waits: bool = False) -> None:
        self._settings = settings
        self._service = service
        self._watch = watch
        self._worker: Worker | None = None
        self._next_try = 0.0
        self._busy = False
        self._renewal: tuple[str, TransferSpec, str] | None = None
        self._next_renewal = 0.0
        self._waits = waits
        self._next_reach = 0.0
        self._out_of_reach_since: float | None = None
        self._left_to: int | None = None
        self._alone_since: float | None = None
        self._notes: list[str] = []

    @property
    def has_other_worker(self) -> bool:
        """True when another process does the work: it holds the state folder, or is one of several workers."""
        return self._busy or self._left_to is not None

    @property
    def is_left_to_others(self) -> bool:
        """True while other workers do the work."""
        return self._left_to is not None

    def take_messages(self) -> list[str]:
        """New messages for the user about which process does the work."""
        notes, self._notes = self._notes, []
        return notes

    def continues_elsewhere(self, status: Status) -> bool:
        """True when another process runs the transfer, or will."""
        return self.has_other_worker or status.live.workers > (0 if self._worker is None else 1)

    def is_own(self, executor_id: str) -> bool:
        """True for the worker of this process."""
        return self._worker is not None and self._worker.executor_id == executor_id

    @property
    def has_other_key(self) -> bool:
        """True while the continued transfer has the key of an earlier submission."""
        return self._renewal is not None

    def can_run(self, status: Status) -> bool:
        """True when this process meets all requirements to run the transfer."""
        return self._service.unmet_requirement(status) is None

    def submit(
        self,
        spec: TransferSpec,
        actor: str,
        *,
        new: bool = False,
        known: KnownObjects | None = None,
        priority: int = 0,
        description: Description = NOTHING,
    ) -> Submission:
        """Record a transfer, for the worker of this process or for the one that runs already."""
        self._service.allow_local_folders(spec)
        fleet = [] if self._settings.uses_sqlite else self._service.available_workers()
        if not fleet:
            self._start_worker(queue=False)
        if self._worker is None:
            found = self._service.submit_or_resume(
                spec, actor=actor, new=new, priority=priority, description=description
            )
        else:
            found = self._worker.submission(
                spec, actor=actor, new=new, known=known, priority=priority, description=description
            )
        if found.goes_on:
            self._renewal = found.id, spec, actor
        if able := self._service.capable_workers(found.id, fleet) if fleet else []:
            self._note_others(able, found.id)
        return found

    def work(self, status: Status) -> None:
        """Become the worker of the transfer if no other process can. Cheap when called often.

        Raises:
            ConfigError: this process is the worker, and cannot work.
        """
        if self._worker is not None:
            self._worker.check()
        elif time.monotonic() >= self._next_try and (self._settings.uses_sqlite or self._is_left(status)):
            self._service.allow_local_folders(status.spec)
            self._start_worker(queue=True)
        if self._renewal is not None and time.monotonic() >= self._next_renewal:
            self._renew(*self._renewal)

    def check_reach(self, status: Status) -> None:
        """Cheap when called often.

        Raises:
            NoCapableWorker: no connected worker can run the transfer, for longer than ``_LEARNING``.
        """
        if self._waits or time.monotonic() < self._next_reach:
            return
        self._next_reach = time.monotonic() + _TAKE_OVER
        found = None if self.has_other_key else self._find_out_of_reach(status)
        if found is None:
            self._out_of_reach_since = None
            return
        self._out_of_reach_since = self._out_of_reach_since or time.monotonic()
        if time.monotonic() - self._out_of_reach_since >= _LEARNING:
            raise found

    def _find_out_of_reach(self, status: Status) -> NoCapableWorker | None:
        if status.ended or status.state == "paused" or status.live.workers:
            return None
        if status.blocked_by is not None:
            blocker = self._service.find_unreachable_blocker(status)
            needing, missing = blocker or (status, None)
        else:
            needing, missing = status, self._service.unmet_requirement(status)
        if missing is None or needing.live.workers or self._service.active_worker(needing.id) is not None:
            return None
        able = self._service.capable_workers(needing.id, self._service.available_workers())
        return None if able else NoCapableWorker(needing.id, missing)

    def _is_left(self, status: Status) -> bool:
        """True when no worker of the fleet can do the transfer, and it has had time to find out."""
        self._next_try = time.monotonic() + _TAKE_OVER
        fleet = self._service.available_workers()
        able = self._service.capable_workers(status.id, fleet)
        if able or status.live.workers:
            self._alone_since = None
            if self._left_to is None:
                self._note_others(able, status.id)
            return False
        if fleet:
            # A worker learns of what a transfer needs by looking at it.
            self._alone_since = self._alone_since or time.monotonic()
            if time.monotonic() - self._alone_since < _LEARNING:
                return False
        why = "No worker is connected to the database" if not fleet else "No connected worker can run the transfer"
        needs = self._service.unmet_requirement(status)
        if needs is None:
            self._notes.append(f"{why}; this command runs it.")
        self._left_to = None
        return True

    def _note_others(self, able: Sequence[ProcessStatus], transfer_id: str) -> None:
        self._left_to = len(able)
        self._notes.append(_following_note(able, transfer_id))

    def _renew(self, transfer_id: str, spec: TransferSpec, actor: str) -> None:
        """Let the transfer that was joined go on with the key of this submission, once no other worker is at it."""
        if self._service.renew_keys(transfer_id, spec, actor=actor):
            self._renewal = None
        self._next_renewal = time.monotonic() + _TAKE_OVER

    def _start_worker(self, *, queue: bool) -> None:
        from seqferry.workflows.worker import Worker  # showing the status alone must not wait for this import

        try:
            self._worker = Worker.start(
                self._settings, self._service, queue=queue, on_end=self._watch.wake, own_work=True
            )
        except WorkerBusyError:
            self._busy = True
            self._next_try = time.monotonic() + _TAKE_OVER
            return
        self._busy = False

    def leave(self) -> None:
        """Stop working; what is in flight stays resumable."""
        worker, self._worker = self._worker, None
        if worker is not None:
            # What does not stop in time ends with the process, which is at its end anyway.
            worker.stop(timeout=_STOP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def follow(
    service: Service,
    transfer_id: str,
    show: Display,
    watch: FollowEvents,
    supervisor: WorkerSupervisor | None,
    command: Callable[..., str],
) -> Status:
    """Show the transfer until it has ended; with a ``supervisor`` also do the work whenever no other worker does.

    Args:
        command: the command line that does a verb to a transfer.

    Raises:
        Interruption: the user wants to stop; the transfer is resumable.
        NoCapableWorker: no connected worker can run the transfer.
    """
    began = time.monotonic()
    shortest, longest = _POLL
    waits_for = None
    attendants = _PreviousWorker(service, transfer_id)
    was_paused = is_preflight_shown = False
    try:
        while True:
            status = service.status(transfer_id)
            show.update(status)
            if not is_preflight_shown and (status.planned or status.totals.objects or status.ended):
                is_preflight_shown = True
                _show_preflight(service, status, show)
            if status.waits_for != waits_for:
                waits_for = status.waits_for
                if not _show_blocker(service, status, show, command):
                    _note_wait(status, show, supervisor)
            if (status.state == "paused") != was_paused:
                was_paused = not was_paused
                show.note(f"Paused. Continue with: seqferry resume {transfer_id}" if was_paused else "Resumed.")
            if supervisor is not None:
                _note_workers(supervisor, show)
            if status.ended:
                return status
            if supervisor is not None:
                supervisor.work(status)
                supervisor.check_reach(status)
                _note_workers(supervisor, show)
                if supervisor.has_other_key or not supervisor.is_left_to_others:
                    attendants.tell(show, supervisor)
            if not watch.asked_to_stop:
                watch.wait(min(max((time.monotonic() - began) / 8, shortest), longest))
            if watch.asked_to_stop:
                show.note("Stopping (press Ctrl-C again to exit immediately) ...")
                raise Interruption(
                    going_on=status.live.workers > 0 if supervisor is None else supervisor.continues_elsewhere(status)
                )
    finally:
        show.close()
        if supervisor is not None:
            supervisor.leave()


def _note_workers(supervisor: WorkerSupervisor, show: Display) -> None:
    for note in supervisor.take_messages():
        show.note(text.printable(note))


def _following_note(able: Sequence[ProcessStatus], transfer_id: str) -> str:
    """The note of a command that follows what others do."""
    if len(able) == 1:
        process = able[0].process
        others = f"The worker {process.host}-{process.pid} does the work"
    else:
        others = f"{len(able)} workers share the work" if able else "Another worker does the work"
    return f"{others}, also without this command. Watch it again with: seqferry watch {transfer_id}"


class _PreviousWorker:
    """Other workers at the transfer: each is named once, with the moment at which its lease ends in silence."""

    def __init__(self, service: Service, transfer_id: str) -> None:
        self._service = service
        self._transfer_id = transfer_id
        self._named = set[str]()
        self._looks_until = time.monotonic() + _LOOK_FOR_ATTENDANTS

    def tell(self, show: Display, supervisor: WorkerSupervisor) -> None:
        """Name the worker that holds the transfer. At the start only, unless this command waits for its end."""
        if not supervisor.has_other_key and time.monotonic() > self._looks_until:
            return
        found = self._service.active_worker(self._transfer_id)
        if found is None or found.executor_id in self._named or supervisor.is_own(found.executor_id):
            return
        self._named.add(found.executor_id)
        key = ", with another key" if supervisor.has_other_key else ""
        process = found.process[:1].upper() + found.process[1:]
        heard = f"{process} is at the transfer{key}, last heartbeat {max(found.silent, 0):.0f} s ago."
        if self._service.is_local:
            show.note(text.printable(f"{heard} This command continues the transfer after that process has ended."))
            return
        from seqferry.workflows.liveness import DEAD_AFTER_SECONDS

        until = text.timestamp(time.time() + DEAD_AFTER_SECONDS + _REAPING)
        show.note(text.printable(f"{heard} Without another heartbeat its work is taken over by {until}."))


def _show_preflight(service: Service, status: Status, show: Display) -> None:
    found = service.preflight(status.id)
    if found is not None and found["causes"]:
        from seqferry.preflight import report  # it brings the engine, which --help need not wait for

        # Failures of the objects that are copied all the same are in the summary at the end.
        lines = (
            report.format_report(found, status.spec.source.uri) if found["stopped"] else [report.format_headline(found)]
        )
        show.preflight({"id": status.id, **found}, [text.printable(line) for line in lines])


def _show_blocker(service: Service, status: Status, show: Display, command: Callable[..., str]) -> bool:
    """Say how to go on where the transfer waits for one that needs other credentials; False when it does not."""
    found = service.find_unreachable_blocker(status)
    if found is None:
        return False
    other, missing = found
    resume, abandon = command("resume", other.id), command("cancel", other.id, "--abandon")
    facts = {"id": status.id, "waits_for": status.waits_for, "lacks": missing, "resume": resume, "abandon": abandon}
    lines = [
        f"The transfer waits for transfer {other.id}, which writes to the same keys, and this process lacks {missing}.",
        f"  continue that one with these credentials:  {resume}",
        f"  cancel it, to start this one:              {abandon}",
    ]
    show.waiting(facts, [text.printable(line) for line in lines])
    return True


def _note_wait(status: Status, show: Display, supervisor: WorkerSupervisor | None) -> None:
    if status.waits_for is None:
        return
    note = f"The transfer waits for {status.waits_for}."
    if (
        status.blocked_by is None
        and supervisor is not None
        and supervisor.has_other_worker
        and supervisor.can_run(status)
    ):
        note += (
            " The process that holds the lock of the state folder is not a worker. "
            "This command runs the transfer after it has ended."
        )
    show.note(text.printable(note))
