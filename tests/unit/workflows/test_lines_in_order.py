"""Runs in order: which line is next, also after a kill at any moment."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from seqferry.db.record import events
from seqferry.workflows.operations import Barrier
from seqferry.workflows.operations.run import in_order


def _acts(
    patch: pytest.MonkeyPatch,
    lines: str,
    *,
    arrived: int = 0,
    ended: int | None = None,
    after: int | None = None,
    failing: int = 0,
    unwanted: tuple[str, int] | None = None,
) -> list[str]:
    """Acts of a run; ``lines`` are c (copy) and m (move), numbered from 1.

    ``arrived`` and ``ended`` are on record, ``after`` is an option, ``failing`` is a line with failures, and before
    ``unwanted`` is put on record, the run is cancelled.
    """
    acts: list[str] = []
    recorded = {in_order.ARRIVED: arrived or None, in_order.ENDED: ended}

    def last(_connection: Any, _transfer_id: str, kind: str) -> dict[str, int] | None:
        return None if recorded[kind] is None else {"line": recorded[kind] or 0}

    def note(_runtime: Any, _transfer_id: str, kind: str, line: int) -> bool:
        acts.append(f"{'arrived' if kind == in_order.ARRIVED else 'ended'} {line}")
        return (kind, line) != unwanted

    def stop(_runtime: Any, _transfer_id: str, line: int) -> bool:
        return line == failing

    patch.setattr(events, "last", last)
    patch.setattr(in_order, "_note", note)
    patch.setattr(in_order, "_stop_after_failures", stop)
    patch.setattr(in_order, "_remove_sources", lambda _runtime, _id, line: acts.append(f"remove {line}"))
    parts: Any = [
        (
            SimpleNamespace(lines=(number,), spec=SimpleNamespace(kind=SimpleNamespace(removes_sources=kind == "m"))),
            None,
        )
        for number, kind in enumerate(lines, start=1)
    ]
    options = {} if after is None else {"after": after}
    spec: Any = SimpleNamespace(options=options)
    runtime: Any = SimpleNamespace(database=SimpleNamespace(read=nullcontext))
    find: Any = lambda _runtime, _id, part, _operation: iter([[part.lines[0]]])  # noqa: E731
    for page in in_order.find(runtime, spec, "t", parts, find):
        acts.append("wait" if isinstance(page, Barrier) else f"copy {page[0]}")
    return acts


def _copy(line: int) -> list[str]:
    return [f"copy {line}", "wait", f"ended {line}"]


def _move(line: int) -> list[str]:
    return [f"copy {line}", "wait", f"arrived {line}", f"remove {line}", f"ended {line}"]


@pytest.mark.parametrize(
    ("lines", "given", "acts"),
    [
        ("", {}, []),
        ("cm", {}, [*_copy(1), *_move(2)]),
        # Killed after a line, within a copy, and between the arrival of a move and its end.
        ("cmc", {"ended": 1}, [*_move(2), *_copy(3)]),
        ("cmc", {"arrived": 2, "ended": 1}, ["remove 2", "ended 2", *_copy(3)]),
        ("cmc", {"arrived": 2, "ended": 3}, []),
        ("mm", {"arrived": 1}, ["remove 1", "ended 1", *_move(2)]),
        # A retry goes on behind the lines that have ended well, and what it has ended itself counts more.
        ("ccc", {"after": 2}, _copy(3)),
        ("ccc", {"after": 1, "ended": 2}, _copy(3)),
        # A line with failures is the last one, and its sources stay.
        ("ccc", {"failing": 2}, [*_copy(1), "copy 2", "wait"]),
        ("mc", {"failing": 1}, ["copy 1", "wait"]),
        # Cancelled meanwhile.
        ("mc", {"unwanted": (in_order.ARRIVED, 1)}, ["copy 1", "wait", "arrived 1"]),
        ("mc", {"unwanted": (in_order.ENDED, 1)}, _move(1)),
    ],
)
def test_a_line_begins_when_the_one_before_it_has_ended_well(
    monkeypatch: pytest.MonkeyPatch, lines: str, given: dict[str, Any], acts: list[str]
) -> None:
    assert _acts(monkeypatch, lines, **given) == acts
