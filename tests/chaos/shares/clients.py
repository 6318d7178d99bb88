"""Clients of a share: each does one operation after another, and repeats it until it is acknowledged."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from chaos.shares.access import Access, AskedLaterError, UnreachableError
from chaos.shares.tree import Tree
from chaos.shares.world import ShareWorld

_STUCK_SECONDS: Final = 180.0
"""A call that is not acknowledged for so long counts as stuck. All faults together last for less."""
_AGAIN_SECONDS: Final = 0.1
_SHARED: Final = 0.3
"""How many of the operations of a client are in the folder of all."""
_BURST: Final = 0.75
"""How many operations follow the one before at once. Files settle in the pauses between the others."""
_PAUSE_SECONDS: Final = 0.25


class Operations:
    """All acknowledged operations, kept in a file as they happen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._by_path: dict[str, list[str]] = {}
        self.counted: Counter[str] = Counter()
        self.asked_again = 0

    def keep(self, **what: Any) -> None:
        line = json.dumps({"at": round(time.time(), 3), **what})
        with self._changed, self._path.open("a") as file:
            file.write(f"{line}\n")
            for path in what["paths"]:
                self._by_path.setdefault(path, []).append(line)
            self._changed.notify_all()

    def of(self, path: str, count: int = 8) -> list[str]:
        """The last operations on a path."""
        with self._changed:
            return self._by_path.get(path, [])[-count:]

    def wait_for(self, is_reached: Callable[[], bool]) -> bool:
        """Wait until something holds after an operation; False when it does not come about."""
        with self._changed:
            return self._changed.wait_for(is_reached, _STUCK_SECONDS)


class Client:
    """One client, in a thread of its own. A context manager: it does no more operations after the block."""

    def __init__(self, number: int, world: ShareWorld, operations: Operations, seed: int) -> None:
        self._number = number
        self._host = world.host
        self._access: Access = world.access()
        self._own = world.trees[number]
        self._shared = world.trees[-1] if len(world.trees) > 1 else None
        self._operations = operations
        self._rng = random.Random(f"{seed} {number}")
        self._may_go_on = threading.Event()
        self._rests = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"client{number}", daemon=True)
        self.findings: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._may_go_on.set()
        # One that hangs in a call of libnfs ends with the process.
        self._thread.join(5)

    def go_on(self) -> None:
        self._rests.clear()
        self._may_go_on.set()

    def pause(self) -> bool:
        """Wait until the operation under way has ended; False when it does not end."""
        self._may_go_on.clear()
        return self._rests.wait(2 * _STUCK_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._may_go_on.is_set():
                self._rests.set()
                self._may_go_on.wait()
                continue
            tree = self._own
            if self._shared is not None and self._rng.random() < _SHARED:
                tree = self._shared
            pause = 0.0 if self._rng.random() < _BURST else self._rng.expovariate(1 / _PAUSE_SECONDS)
            with tree.lock:
                self._do(tree)
            self._ended.wait(pause)
        self._access.close()

    def _do(self, tree: Tree) -> None:
        kind, paths = tree.draw()
        tree.count += 1
        at = {"client": self._number, "tree": tree.top, "n": tree.count, "kind": kind, "paths": paths}
        began = time.time()
        try:
            calls = tree.do(kind, paths, self._access, self._done)
        except Exception as why:  # noqa: BLE001 - each failure that is not expected is a finding, and the run goes on
            self.findings.append(f"operation {tree.count} of {tree.top or '/'} ({kind} {paths}): {why!r}")
            self._operations.keep(**at, began=began, failed=repr(why))
            tree.give_up(paths)
            return
        self._operations.counted[kind] += calls
        file = tree.files.get(paths[-1])
        size = {} if file is None else {"size": len(file.body)}
        self._operations.keep(**at, began=round(began, 3), generation=self._host.generation, **size)

    def _done(
        self,
        call: Callable[[], object],
        *,
        is_name_gone: bool = False,
        is_name_there: bool = False,
        loses_commits: bool = False,
    ) -> tuple[int, int]:
        """See ``chaos.shares.tree.Done``."""
        before, until = time.time_ns(), time.monotonic() + _STUCK_SECONDS
        first, last = self._host.generation, ""
        while time.monotonic() < until:
            began, generation = time.monotonic(), self._host.generation
            try:
                call()
                if loses_commits and self._host.generation != generation:
                    continue
                self._host.acknowledged(began)
                return before, time.time_ns()
            except AskedLaterError as later:
                last = str(later)
            except UnreachableError as away:
                last = str(away)
            except OSError as error:
                expected = (is_name_gone and isinstance(error, FileNotFoundError)) or (
                    is_name_there and isinstance(error, FileExistsError)
                )
                if expected and self._host.generation != first:
                    return before, time.time_ns()
                if self._host.generation == generation:
                    raise
                last = str(error)
            self._operations.asked_again += 1
            self._ended.wait(_AGAIN_SECONDS)
        raise TimeoutError(f"not acknowledged within {_STUCK_SECONDS:.0f} s; last: {last}")
