"""Death is judged by watching, whatever the clocks of databases and of other machines do."""

from __future__ import annotations

from seqferry.dbos.ownership import LastBeat
from seqferry.workflows.liveness import LivenessWatcher


class _WatcherHarness:
    """A watcher, its clock, and the signs that it reads."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.signs: dict[str, LastBeat | None] = {}
        self.reading = 0.0
        self._watcher = LivenessWatcher(10.0, monotonic=lambda: self.now)

    def _read(self) -> dict[str, LastBeat | None]:
        self.now += self.reading
        return dict(self.signs)

    def look(self, seconds: int = 1, beating: tuple[str, ...] = (), database_clock: float = 0.0) -> set[str]:
        """Look once a second for so many seconds, while some executors beat; returns those that were called dead."""
        dead: set[str] = set()
        for _ in range(seconds):
            self.now += 1.0
            for executor_id in beating:
                counter, _at = self.signs.get(executor_id) or (0, 0.0)
                self.signs[executor_id] = (counter + 1, database_clock)
            dead |= self._watcher.find_dead(self._read).keys()
        return dead


def test_who_is_silent_for_long_is_dead_and_who_beats_is_not() -> None:
    world = _WatcherHarness()
    world.look(3, beating=("quick", "dead"))

    assert world.look(9, beating=("quick",)) == set()
    assert world.look(3, beating=("quick",)) == {"dead"}


def test_who_never_beat_is_found() -> None:
    world = _WatcherHarness()
    world.signs["crashed"] = None

    assert world.look(10) == set()
    assert world.look(2) == {"crashed"}


def test_a_clock_of_the_database_that_jumps_kills_nobody_and_hides_no_death() -> None:
    world = _WatcherHarness()
    world.look(3, beating=("quick", "dead"), database_clock=5000.0)

    assert world.look(5, beating=("quick",), database_clock=5060.0) == set()
    assert world.look(3, beating=("quick",), database_clock=4900.0) == set()
    assert world.look(4, beating=("quick",), database_clock=4900.0) == {"dead"}


def test_a_database_that_is_frozen_for_all_kills_nobody() -> None:
    world = _WatcherHarness()
    world.look(3, beating=("a", "b"))

    # This watcher's own beat hangs as long as those of all others do.
    world.now += 14.0
    assert world.look() == set()
    assert world.look(5, beating=("a", "b")) == set()


def test_a_read_that_takes_long_kills_nobody() -> None:
    world = _WatcherHarness()
    world.look(3, beating=("a",))

    world.reading = 14.0
    assert world.look() == set()
    world.reading = 0.0
    assert world.look(5, beating=("a",)) == set()


def test_after_a_gap_a_real_death_is_found_from_then_on() -> None:
    world = _WatcherHarness()
    world.look(3, beating=("dead",))
    world.look(5)

    world.now += 14.0
    assert world.look(10) == set()
    assert world.look(2) == {"dead"}
