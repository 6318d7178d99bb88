"""A schedule of faults, drawn from a seed alone, as JSON lines.

All chance is drawn before the run: the same seed and sizes give the same lines, whatever happens meanwhile. A line
names the kind of a fault, its victim, and when it begins: ``t`` seconds after the start (calm phases do not count), or
when a state is seen after that.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

Range = tuple[float, float]


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        victim: the class of its victims.
        weight: how often it is drawn, relative to others.
        lasts: seconds, drawn evenly.
        rests: seconds that the victim needs afterwards, before its next fault.
        whens: states that it may wait for.
    """

    victim: str
    weight: float
    lasts: Range = (0.0, 0.0)
    rests: float = 1.0
    whens: tuple[str, ...] = ()


_WRITES: Final = ("copy-in-flight", "part-in-flight", "complete-in-flight", "delete-in-flight")

KINDS: Final[dict[str, Kind]] = {
    "worker.kill": Kind("worker", 22, rests=2.5, whens=_WRITES),
    "worker.freeze": Kind("worker", 8, (1.0, 8.0), whens=_WRITES),
    "worker.freeze-long": Kind("worker", 3, (12.0, 16.0)),
    "worker.term": Kind("worker", 8, rests=3.5),
    "worker.partition": Kind("worker", 6, (1.0, 14.0)),
    "worker.cut": Kind("worker", 5),
    "worker.clock": Kind("worker", 5, rests=0.5),
    "database.kill9": Kind("database", 4, rests=3.5),
    "database.backend-kill9": Kind("database", 4, rests=3.0),
    "database.restart-fast": Kind("database", 4, rests=2.5),
    "database.restart-immediate": Kind("database", 4, rests=3.5),
    "database.freeze": Kind("database", 5, (0.5, 6.0)),
    "database.freeze-long": Kind("database", 1.5, (11.0, 14.0)),
    "database.terminate": Kind("database", 8, rests=0.5),
    "database.exhaust": Kind("database", 4, (1.0, 5.0)),
    "database.clock": Kind("database", 3, rests=0.5),
    "storage.refuse": Kind("storage", 4, (0.5, 5.0)),
    "storage.reset": Kind("storage", 5, (0.5, 6.0)),
    "storage.black-hole": Kind("storage", 4, (1.0, 10.0)),
    "storage.throttle": Kind("storage", 7, (1.0, 8.0)),
    "storage.errors": Kind("storage", 6, (1.0, 8.0)),
    "storage.lost-replies": Kind("storage", 6, (1.0, 6.0)),
    "storage.slow": Kind("storage", 5, (1.0, 6.0)),
    "storage.truncate": Kind("storage", 4, (1.0, 5.0)),
    "simulator.throttle": Kind("simulator", 2, (1.0, 6.0)),
    "simulator.errors": Kind("simulator", 2, (1.0, 6.0)),
    "simulator.reset": Kind("simulator", 2, (1.0, 5.0)),
    "simulator.lost-replies": Kind("simulator", 2, (1.0, 5.0)),
    "simulator.stall": Kind("simulator", 2, (1.0, 5.0)),
}

OF_SHARES: Final[dict[str, Kind]] = {
    "gateway.kill": Kind("gateway", 18, rests=4.0, whens=_WRITES),
    **{name: kind for name, kind in KINDS.items() if kind.victim == "storage"},
}
"""Kinds of faults that strike a share that is written."""

CALM: Final = "calm"
_CALM_EVERY_SECONDS: Final = 330.0
_WHEN_SHARE: Final = 0.5


@dataclass(frozen=True)
class Fault:
    """One line of a schedule; ``lasts`` is 0 for what happens at once."""

    n: int
    t: float
    kind: str
    who: str
    lasts: float = 0.0
    when: str = ""
    value: float = field(default=0.0)
    """Chance or seconds, for kinds that take one."""


def draw(
    seed: int,
    faults: int,
    *,
    workers: int,
    gap: float,
    calm_every: float = _CALM_EVERY_SECONDS,
    first: Sequence[str] = (),
    kinds: Mapping[str, Kind] = KINDS,
) -> list[Fault]:
    """So many faults, ``gap`` seconds apart on average, with a calm phase now and then and one at the end.

    Args:
        first: kinds that are drawn once each before others, by chance, as soon as their victims are free.
    """
    rng = random.Random(seed)
    hosts = [f"worker{number}" for number in range(workers)]
    classes = {kind.victim: hosts if kind.victim == "worker" else [kind.victim] for kind in kinds.values()}
    free = {victim: 0.0 for victims in classes.values() for victim in victims}
    wanted = dict.fromkeys(first)
    drawn: list[Fault] = []
    t, calm_at = 0.0, calm_every
    while sum(one.kind != CALM for one in drawn) < faults:
        t += rng.expovariate(1.0 / gap)
        if t >= calm_at:
            drawn.append(Fault(len(drawn), round(calm_at, 2), CALM, ""))
            calm_at += calm_every
        ready = {
            name: kind for name, kind in kinds.items() if any(free[victim] <= t for victim in classes[kind.victim])
        }
        if not ready:
            t = min(free.values())
            continue
        begun = [name for name in wanted if name in ready]
        name = rng.choice(begun) if begun else rng.choices(list(ready), [kind.weight for kind in ready.values()])[0]
        wanted.pop(name, None)
        kind = ready[name]
        who = rng.choice([victim for victim in classes[kind.victim] if free[victim] <= t])
        lasts = round(rng.uniform(*kind.lasts), 2)
        when = rng.choice(kind.whens) if kind.whens and rng.random() < _WHEN_SHARE else ""
        drawn.append(Fault(len(drawn), round(t, 2), name, who, lasts, when, _value(rng, name)))
        free[who] = t + lasts + kind.rests
    drawn.append(Fault(len(drawn), round(max(free.values()), 2), CALM, ""))
    return drawn


def _value(rng: random.Random, kind: str) -> float:
    if kind.endswith(".clock"):
        return round(rng.choice((-1, 1)) * rng.choice((5.0, 60.0, 240.0)), 1)
    return round(rng.uniform(0.1, 0.6), 2)


def to_lines(faults: Iterable[Fault]) -> str:
    return "".join(json.dumps(asdict(one)) + "\n" for one in faults)


def from_lines(text: str) -> list[Fault]:
    return [Fault(**json.loads(line)) for line in text.splitlines() if line]
