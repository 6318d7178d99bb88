"""Watch over the shares of gateways: files that wait for long cause a notice.

The rows of gateways name the waiting files (``workers.WAITING``). Files that wait outside the upload windows of their
share count only once a window has been open for long.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from seqferry.db.notice_rows import Subject
from seqferry.model.workers import WAITING, ProcessStatus

_DAY: Final = 86400


def subject_of(worker_id: str, share: str) -> Subject:
    """A share of a gateway, as notices name it."""
    return Subject("share", f"{worker_id}/{share}")


class ShareWatch:
    """Shares that one notifier has checked before.

    Args:
        after: seconds for which the oldest file may wait.
    """

    def __init__(self, after: float) -> None:
        self._after: Final = after
        self._open_since: dict[Subject, float] = {}

    def find_waiting(self, processes: Iterable[ProcessStatus], now: float) -> list[Subject]:
        """Shares whose oldest file has waited for too long. ``now`` is of a clock that never goes back, in seconds."""
        open_since, found = dict[Subject, float](), list[Subject]()
        for one in processes:
            shares: dict[str, dict[str, Any]] = one.activity.facts.get(WAITING, {}) if one.alive else {}
            for name, facts in shares.items():
                if not facts.get("window_is_open", True):
                    continue
                subject = subject_of(one.process.id, name)
                since = open_since[subject] = self._open_since.get(subject, now)
                if (facts["oldest_dirty_seconds"] or 0.0) >= self._after and now - since >= self._after:
                    found.append(subject)
        self._open_since = open_since
        return found


def episode() -> int:
    """Episode of a notice about a share: one a day, for as long as its files wait."""
    return int(time.time() // _DAY)
