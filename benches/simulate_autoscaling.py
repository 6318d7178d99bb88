"""Simulates a day of deliveries under three policies of an autoscaler, behind a ceiling that all workers share.

    simulate_autoscaling.py [--seeds 20] [--json]

Nothing is moved and no server is asked: a worker moves 0.4 GiB/s by itself, takes 45 s to start, and all together move
no more than the ceiling. The policy ``formula`` is that of the view ``seqferry_autoscale``; the autoscaler follows as
KEDA does with the values of the chart: at most doubled each 15 s, down to the highest wish of 5 minutes. See
docs/operate/autoscaling.md.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

GIB: Final = 1024**3
TB: Final = 10**12
STEP: Final = 15.0
"""Seconds between two looks of the autoscaler."""

DAY: Final = 24 * 3600.0
ALONE: Final = 0.4 * GIB
"""Bytes a second of one worker by itself."""

START: Final = 45.0
MOST: Final = 40
DRAIN: Final = 900.0
BATCH: Final = 8 * GIB
CONCURRENT_BATCHES: Final = 8
UNKNOWN: Final = 400 * 1024**2
"""Bytes a second that a worker is taken to move while none has worked."""


@dataclass
class Minute:
    """Workers that worked all of it, bytes a second of all, and of each."""

    at: float
    workers: int
    bytes: float
    of_each: float


@dataclass
class Fleet:
    """Workers and what was seen of them."""

    ceiling: float
    ready: int = 0
    starting: list[float] = field(default_factory=list[float])
    minutes: deque[Minute] = field(default_factory=deque[Minute])
    wishes: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    @property
    def size(self) -> int:
        return self.ready + len(self.starting)

    def follow(self, now: float, wish: int) -> None:
        """Start or stop workers, as the autoscaler of Kubernetes does."""
        self.wishes.append((now, wish))
        while self.wishes[0][0] < now - 300:
            self.wishes.popleft()
        if wish > self.size:
            goal = min(wish, max(1, 2 * self.size))
            self.starting += [now + START] * (goal - self.size)
        else:
            goal = max(max(one for _, one in self.wishes), 0)
            for _ in range(max(0, self.size - goal)):
                if self.starting:
                    self.starting.pop()
                else:
                    self.ready -= 1
        self.ready += sum(1 for at in self.starting if at <= now)
        self.starting = [at for at in self.starting if at > now]


@dataclass
class State:
    now: float
    left: float
    fleet: Fleet

    @property
    def batches(self) -> int:
        return math.ceil(self.left / BATCH)

    def recent(self, seconds: float) -> list[Minute]:
        return [one for one in self.fleet.minutes if one.at > self.now - seconds and one.workers]


def by_batches(state: State) -> int:
    return math.ceil(state.batches / 10)


def by_mean_rate(state: State) -> int:
    seen = state.recent(300)
    rate = statistics.mean(one.of_each for one in seen) if seen else UNKNOWN
    return math.ceil(state.left / (max(rate, 1.0) * DRAIN))


def by_formula(state: State) -> int:
    """As the view: its parts about bytes, batches and the knee."""
    seen = state.recent(DAY)
    alone = max(max((one.of_each for one in seen), default=0.0), 64 * 1024**2) if seen else UNKNOWN
    hour = state.recent(3600)
    best = max((one.bytes / alone for one in hour), default=0.0)
    futile = sum(1 for one in hour if one.workers > 1 and one.workers * 0.8 > best)
    knee = max(1, math.ceil(best)) if futile >= 3 else MOST
    return min(
        max(1, math.ceil(state.left / (alone * DRAIN))), max(1, math.ceil(state.batches / CONCURRENT_BATCHES)), knee
    )


POLICIES: Final[dict[str, Callable[[State], int]]] = {
    "open batches / 10": by_batches,
    "bytes / (mean rate * T)": by_mean_rate,
    "the formula": by_formula,
}


@dataclass
class Outcome:
    """Of one day: worker-hours, those that moved nothing more, the largest fleet, and seconds of each delivery."""

    hours: float
    useless: float
    peak: int
    waits: list[float]


def simulate(policy: Callable[[State], int], ceiling: float, seed: int) -> Outcome:
    rng = random.Random(seed)
    due = sorted(
        (rng.uniform(0, 20 * 3600), rng.lognormvariate(math.log(3 * TB), 0.6)) for _ in range(rng.randint(5, 9))
    )
    moved_in_all = sum(size for _, size in due)
    open_ones: list[list[float]] = []
    fleet, now, hours, peak, waits = Fleet(ceiling), 0.0, 0.0, 0, list[float]()
    minute_bytes, minute_workers, worker_seconds = 0.0, MOST, 0.0
    while now < 3 * DAY and (due or open_ones or fleet.size):
        while due and due[0][0] <= now:
            open_ones.append([*due.pop(0)])
        state = State(now, sum(left for _, left in open_ones), fleet)
        fleet.follow(now, min(MOST, policy(state)) if open_ones else 0)
        working = min(fleet.ready, math.ceil(state.batches / CONCURRENT_BATCHES)) if open_ones else 0
        moved = min(working * ALONE, ceiling) * STEP
        minute_bytes, minute_workers = minute_bytes + moved, min(minute_workers, working)
        worker_seconds += working * STEP
        for one in open_ones:
            taken = min(one[1], moved)
            one[1], moved = one[1] - taken, moved - taken
        waits += [now + STEP - at for at, left in open_ones if left <= 0]
        open_ones = [one for one in open_ones if one[1] > 0]
        hours += fleet.size * STEP / 3600
        peak = max(peak, fleet.size)
        now += STEP
        if now % 60 == 0:
            of_each = minute_bytes / worker_seconds if worker_seconds else 0.0
            fleet.minutes.append(Minute(now, minute_workers, minute_bytes / 60, of_each))
            minute_bytes, minute_workers, worker_seconds = 0.0, MOST, 0.0
    return Outcome(hours, hours - moved_in_all / ALONE / 3600, peak, waits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    for ceiling in (6, 2):
        for name, policy in POLICIES.items():
            found = [simulate(policy, ceiling * GIB, seed) for seed in range(given.seeds)]
            waits = sorted(wait for one in found for wait in one.waits)
            rows.append(
                {
                    "ceiling_gib_s": ceiling,
                    "policy": name,
                    "worker_hours": round(statistics.mean(one.hours for one in found), 1),
                    "useless_hours": round(statistics.mean(one.useless for one in found), 1),
                    "peak": max(one.peak for one in found),
                    "p95_wait_s": round(waits[int(0.95 * (len(waits) - 1))]),
                }
            )
    if given.json:
        print(json.dumps(rows))
        return
    print("simulated: mean worker-hours of a day, those of no use, largest fleet, p95 of a delivery's wait")
    for row in rows:
        line = f"{row['ceiling_gib_s']} GiB/s  {row['policy']:<24} {row['worker_hours']:>6} h"
        print(f"{line} {row['useless_hours']:>6} h {row['peak']:>3} {row['p95_wait_s']:>6} s")


if __name__ == "__main__":
    main()
