"""A model of the ownership of a batch: one batch of few objects, a few workers, every order of their steps.

Plain data and a function from a state to the states that may follow. Time is two orders: a worker's lease lapses before
it can be judged dead, and it can be judged dead only after it was silent. The claims are bounded, so that there are
finitely many states, and all of them are visited, breadth first: a violation comes with a shortest way to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

OBJECTS: Final = 1

Life = Literal["up", "frozen", "dead"]
Judgement = Literal["no", "yes", "outdated"]


class Worker(NamedTuple):
    life: Life = "up"
    beaten: bool = True
    """Its row of beats is there."""
    lease: bool = True
    admitted: bool = True
    """True when it was found, in this epoch of its lease, to have what it runs."""
    judged: Judgement = "no"
    """Another worker is about to reap it: for the sign that it has, or for one that it had before its latest beat."""
    claimed: bool = False
    """Its library has handed it the batch, and it has not begun."""
    run: int = 0
    """Run of the batch that it is at; 0: at none."""
    copied: frozenset[int] = frozenset()
    """Objects that this run has written and not recorded."""


class State(NamedTuple):
    workers: tuple[Worker, ...]
    holder: int | None = None
    """Holder of the work on the queue; None: it waits there."""
    runs: int = 0
    recorded: frozenset[int] = frozenset()
    ended: bool = False
    claims: int = 0
    violation: str = ""

    def put(self, number: int, **changes: Any) -> State:
        workers = list(self.workers)
        workers[number] = workers[number]._replace(**changes)
        return self._replace(workers=tuple(workers))


class Step(NamedTuple):
    action: str
    worker: int
    object: int = -1


@dataclass(frozen=True)
class Rules:
    """What is left out shows that the model sees what it is there for."""

    lease: bool = True
    """No write starts without it."""
    admission: bool = True
    """A worker checks its runs after a lapse, before it writes again."""
    fence: bool = True
    """No run but the latest records."""
    reread: bool = True
    """A reaper looks at the sign once more."""
    claims: int = 3


def start(workers: int) -> State:
    return State(tuple(Worker() for _ in range(workers)))


def steps(state: State, rules: Rules) -> Iterator[tuple[Step, State]]:
    """All that may happen next."""
    if state.violation:
        return
    for number in range(len(state.workers)):
        yield from _of_the_world(state, number)
        if state.workers[number].life == "up":
            yield from _of_a_worker(state, number, rules)


_DEAD: Final[dict[str, Any]] = Worker(life="dead", lease=False)._asdict()
del _DEAD["beaten"], _DEAD["judged"]  # what others see of it stays


def _of_the_world(state: State, number: int) -> Iterator[tuple[Step, State]]:
    one = state.workers[number]
    if one.life == "up":
        yield Step("freeze", number), state.put(number, life="frozen")
        # All but one may die: a worker is left to finish.
        if sum(each.life != "dead" for each in state.workers) > 1:
            yield Step("kill", number), state.put(number, **_DEAD)
    if one.life == "frozen":
        yield Step("thaw", number), state.put(number, life="up")
    if one.lease:
        yield Step("lapse", number), state.put(number, lease=False)
    elif one.judged == "no" and one.beaten:
        yield Step("stale", number), state.put(number, judged="yes")


def _of_a_worker(state: State, number: int, rules: Rules) -> Iterator[tuple[Step, State]]:
    one = state.workers[number]
    yield Step("beat", number), _beat(state, number, rules)
    if one.run and not one.admitted and one.lease:
        yield Step("admit", number), _admit(state, number)
    for other, seen in enumerate(state.workers):
        if other != number and seen.judged != "no":
            yield Step("reap", other), _reap(state, other, rules)
    if state.holder is None and not state.ended and state.claims < rules.claims and not (one.run or one.claimed):
        yield (
            Step("claim", number),
            state.put(number, claimed=True)._replace(holder=number, claims=state.claims + 1),
        )
    if one.claimed:
        yield Step("begin", number), _begin(state, number)
    if one.run:
        for which in range(OBJECTS):
            if which not in one.copied and which not in state.recorded:
                if not rules.lease or (one.lease and one.admitted):
                    yield Step("copy", number, which), _copy(state, number, which)
            elif which in one.copied:
                yield Step("record", number, which), _record(state, number, which, rules)
        if len(state.recorded) == OBJECTS and not state.ended:
            yield Step("finish", number), _finish(state, number)


def _beat(state: State, number: int, rules: Rules) -> State:
    one = state.workers[number]
    anew = not one.lease
    return state.put(
        number,
        beaten=True,
        judged="outdated" if one.judged == "yes" else one.judged,
        lease=True,
        admitted=one.admitted and not (anew and rules.admission),
    )


def _is_its_own(state: State, number: int) -> bool:
    return state.workers[number].run == state.runs and state.holder == number


def _admit(state: State, number: int) -> State:
    if _is_its_own(state, number):
        return state.put(number, admitted=True)
    return state.put(number, run=0, copied=frozenset(), admitted=True)


def _reap(state: State, number: int, rules: Rules) -> State:
    one = state.workers[number]
    if one.judged == "outdated" and rules.reread:
        return state.put(number, judged="no")
    state = state.put(number, judged="no", beaten=False)
    return state._replace(holder=None) if state.holder == number else state


def _begin(state: State, number: int) -> State:
    state = state.put(number, claimed=False)
    if state.holder != number or state.ended:
        return state
    epoch_is_present = state.workers[number].lease
    begun = state.put(number, run=state.runs + 1, copied=frozenset(), admitted=epoch_is_present)
    return begun._replace(runs=state.runs + 1)


def _copy(state: State, number: int, which: int) -> State:
    one = state.workers[number]
    if state.ended:
        return state._replace(violation="written after the end")
    if one.run != state.runs:
        return state._replace(violation="written beside another run")
    return state.put(number, copied=one.copied | {which})


def _record(state: State, number: int, which: int, rules: Rules) -> State:
    one = state.workers[number]
    if rules.fence and one.run != state.runs:
        return state.put(number, run=0, copied=frozenset())
    if which in state.recorded:
        return state._replace(violation="recorded twice")
    return state.put(number, copied=one.copied - {which})._replace(recorded=state.recorded | {which})


def _finish(state: State, number: int) -> State:
    if state.workers[number].run != state.runs:
        return state.put(number, run=0, copied=frozenset())
    state = state.put(number, run=0, copied=frozenset())
    return state._replace(ended=True, holder=None if state.holder == number else state.holder)


def explore(workers: int, rules: Rules, visit: Callable[[State], None] = lambda _state: None) -> tuple[int, list[Step]]:
    """Visit all states; returns how many there are, and the steps to the first violation (none: there is none)."""
    first = start(workers)
    came_from: dict[State, tuple[State, Step] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        visit(state)
        if state.violation:
            return len(came_from), _way(came_from, state)
        for step, after in steps(state, rules):
            if after not in came_from:
                came_from[after] = (state, step)
                queue.append(after)
    return len(came_from), []


def _way(came_from: dict[State, tuple[State, Step] | None], state: State) -> list[Step]:
    way: list[Step] = []
    while (before := came_from[state]) is not None:
        state, step = before
        way.append(step)
    return way[::-1]
