"""Rounds of runs, the work folder and the outcome of a comparison, alike for all that are compared."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from seqferry.bench.machine import load
from seqferry.model.errors import ConfigError, SeqferryError, UsageError
from seqferry.model.formatting import size

MOST_REPETITIONS: Final = 100
ROOM: Final = 64 * 2**20
"""Disk space for records and settings of the methods."""


class _FallibleRun(Protocol):
    @property
    def error(self) -> str | None: ...


Item = TypeVar("Item")
Run = TypeVar("Run", bound=_FallibleRun)


@dataclass
class Outcome(Generic[Run]):
    """Result of a comparison, also of one that was stopped half-way."""

    runs: list[Run] = field(default_factory=list[Any])
    interrupted: bool = False
    error: SeqferryError | None = None
    """Error that stopped the comparison."""
    left: str | None = None
    """Places that could not be removed, with advice; None when no removal failed."""
    load_before: float = 0.0
    load_after: float = 0.0

    @property
    def failed(self) -> list[Run]:
        return [run for run in self.runs if run.error is not None]

    @contextlib.contextmanager
    def noted(self, folder: Path) -> Generator[None]:
        """Notes the load before and after the block, and what ends it early: an interruption, or an error."""
        self.load_before = load()
        try:
            yield
        except (KeyboardInterrupt, BrokenPipeError):  # or the reader has gone
            self.interrupted = True
        except SeqferryError as error:
            self.error = error
        except OSError as error:
            self.error = ConfigError(f"{folder}: {error.strerror or error}. Give another folder with --work-folder.")
        finally:
            self.load_after = load()


def check_repetitions(repetitions: int, warm_up: int) -> None:
    """Raises UsageError for numbers of runs that are not valid."""
    if not 1 <= repetitions <= MOST_REPETITIONS:
        raise UsageError(f"--repetitions {repetitions}: choose 1 to {MOST_REPETITIONS}.")
    if not 0 <= warm_up <= MOST_REPETITIONS:
        raise UsageError(f"--warm-up {warm_up}: choose 0 to {MOST_REPETITIONS}.")


def rotated(items: Sequence[Item], round_: int) -> list[Item]:
    """The order of a round: each begins with another item, so that a slow minute of the machine hits all alike."""
    turn = round_ % len(items) if items else 0
    return [*items[turn:], *items[:turn]]


def run_in_rounds(
    items: Sequence[Item],
    once: Callable[[Item, int, int], Run],
    record: Callable[[Run], None],
    *,
    warm_up: int,
    rounds: range,
) -> None:
    """Runs each item once in each round.

    Args:
        once: runs an item; given are the number of the round, -1 to warm up, and its place in the order of the round.
        record: takes each measured run, and the run that shows that an item fails, which is left out then.
    """
    able = list(items)
    for _ in range(warm_up):
        for place, item in enumerate(list(able)):
            run = once(item, -1, place)
            if run.error is not None:
                # It would fail in every round; once is enough to say so.
                record(run)
                able.remove(item)
    for round_ in rounds:
        for place, item in enumerate(rotated(able, round_)):
            record(once(item, round_, place))


def make_work_folder(above: Path | None, needed: int, smaller: str) -> Path:
    """A new folder below ``above``, or below the system's temporary folder.

    Args:
        needed: bytes that must be free.
        smaller: what the user can give to need less.

    Raises:
        UsageError, ConfigError: the folder cannot be used, or has too little room.
    """
    above = Path(tempfile.gettempdir()) if above is None else above
    try:
        above.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(above).free
        if free < needed:
            raise ConfigError(
                f"{above} has {size(free)} free and the bench needs {size(needed)} there. Give another folder with "
                f"--work-folder, or {smaller}."
            )
        return Path(tempfile.mkdtemp(prefix="seqferry-bench-", dir=above)).resolve()
    except OSError as error:
        raise UsageError(f"--work-folder {above}: {error.strerror or error}.") from None
