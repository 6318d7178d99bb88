"""Jobs in waves: the next version of each object, in one job of the engine, when all of the wave before have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from seqferry.db.objects import OpenObject
from seqferry.engine.executor import Events, Job, JobPlan, rows
from seqferry.engine.thread_jobs import End, Ends
from seqferry.model.errors import StorageError

WaveStarter = Callable[[Sequence[OpenObject], int | None], Job]


class Waves(JobPlan):
    """See ``JobPlan``. ``written`` are the ends of versions that an earlier run has written."""

    def __init__(self, items: Sequence[OpenObject], start: WaveStarter, written: Sequence[End] = ()) -> None:
        super().__init__()
        self._start = start
        known = {one.id for one in written}
        self._left: dict[str, list[OpenObject]] = {}
        for one in items:
            if one.id not in known:
                self._left.setdefault(one.target_key, []).append(one)
        self._key_of = {one.id: one.target_key for one in items}
        self._tell(written)

    def next(self, epoch: int | None, /) -> Job | None:
        wave = [versions.pop(0) for versions in self._left.values() if versions]
        self._left = {key: versions for key, versions in self._left.items() if versions}
        return self._start(wave, epoch) if wave else None

    def has_more(self) -> bool:
        return bool(self._left)

    def see(self, events: Events, /) -> None:
        """No version follows one that has failed, or that the target does not keep as a version."""
        for row in rows(events):
            key = self._key_of[row["id"]]
            if row["state"] == "done" and row["target_version_id"] is None and key in self._left:
                self._give_up(key, "NoVersions", "its target keeps no versions; switch that on")
            elif row["state"] == "failed":
                self._give_up(key, "EarlierVersionFailed", "an earlier version of it has failed; retry that one")

    def _give_up(self, key: str, code: str, why: str) -> None:
        ends: list[End] = []
        for one in self._left.pop(key, ()):
            text = f"Version {one.version_id} of {one.source_key} was not copied: {why}."
            ends.append(End(one.id, "failed", failure=StorageError(text, "object", code, "plan")))
        self._tell(ends)

    def drop(self, *, tells: bool) -> None:
        if tells and self._left:
            self._tell((), [one.id for versions in self._left.values() for one in versions])
        self._left = {}

    def _tell(self, ends: Sequence[End], cancelled: Sequence[int] = ()) -> None:
        if ends or cancelled:
            now = time.time()
            self.pending.append(Ends([(now, now, end) for end in ends], cancelled))
