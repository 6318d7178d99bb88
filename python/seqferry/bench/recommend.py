"""Conclusions from the figures: the fastest tool, the cheapest in CPU, and how sure that is, for each workload.

The rule is plain on purpose: a method is ahead of another when the ranges of their runs (lowest to highest) do not
overlap. With fewer than three runs of each nothing is said to be ahead. All that overlap with the best median share the
first place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from seqferry.bench.methods import ACCELERATED, Direction
from seqferry.bench.spread import FEWEST, Spread
from seqferry.bench.workload import Workload
from seqferry.model.formatting import count, rate, size
from seqferry.model.frozen import frozen

RULE: Final = (
    "A method is ahead of another when the ranges of their runs, lowest to highest, do not overlap; with fewer than "
    f"{FEWEST} runs of each nothing is said to be ahead."
)

_Render = Callable[[Spread], str]


@frozen
class Series:
    """One method with its settings, on one workload in one direction."""

    workload: Workload
    direction: Direction
    label: str
    method: str
    threads: int | None
    part_size: int | None
    failed: int
    """Runs that failed, those of warming up included."""
    speed: Spread | None
    """Bytes per second."""
    wall_s: Spread | None
    cpu_s: Spread | None
    cpu_per_gib: Spread | None
    peak_bytes: Spread | None
    on_disk_s: Spread | None = None
    """Seconds of a download until its bytes were on the disk itself."""


@frozen
class Advice:
    workload: str
    direction: Direction
    fastest: tuple[str, ...]
    """Labels of the best median, and of all that do not differ from it. Empty when nothing succeeded."""
    least_cpu: tuple[str, ...]
    speed_text: str
    cpu_text: str
    sentence: str
    """One sentence that a person can act on."""


def advise(series: Sequence[Series]) -> list[Advice]:
    """Advice for each workload and direction, in the order in which they come."""
    cases: dict[tuple[Workload, Direction], None] = {(each.workload, each.direction): None for each in series}
    return [
        _case(
            workload, direction, [each for each in series if (each.workload, each.direction) == (workload, direction)]
        )
        for workload, direction in cases
    ]


def _case(workload: Workload, direction: Direction, series: Sequence[Series]) -> Advice:
    speeds = [(each.label, each.speed) for each in series if each.speed is not None]
    cpus = [(each.label, each.cpu_per_gib) for each in series if each.cpu_per_gib is not None]
    fastest, speed_text = _rank(speeds, most=True, render=lambda one: rate(one.median), word="fastest", unit="as fast")
    least, cpu_text = _rank(
        cpus, most=False, render=lambda one: f"{one.median:.2f} s/GiB", word="cheapest in CPU", unit="the CPU time"
    )
    sentence = _sentence(workload, direction, fastest, series)
    return Advice(workload.name, direction, fastest, least, speed_text, cpu_text, sentence)


def few_runs(runs: int) -> str:
    """Reason that so many runs of each give no verdict."""
    return f"{count(runs, 'run')} of each tell{'' if runs > 1 else 's'} no difference: a verdict needs {FEWEST}"


_WAYS: Final = {"upload": "up", "download": "down", "copy": "from bucket to bucket"}
_NAMES: Final = {
    "boto3": "boto3 as it is",
    "boto3-tuned": "boto3 tuned",
    "boto3-copy": "boto3 as S3Mirror calls it",
    "crt": "AWS CRT",
    "aws": "the AWS CLI",
    "seqferry": "Seqferry",
}
_MOST_NAMED: Final = 3


def display_name(method: str) -> str:
    """Name of a method in a sentence."""
    plain = method.removesuffix(ACCELERATED)
    return _NAMES.get(plain, plain) + (" with acceleration" if plain != method else "")


def join_names(names: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def case_name(workload: Workload, direction: Direction) -> str:
    """``One file of 2.0 GiB up``."""
    what = (
        f"One file of {size(workload.size)}"
        if workload.files == 1
        else f"{count(workload.files, 'file')} of {size(workload.size)}"
    )
    return f"{what} {_WAYS[direction]}"


def _sentence(workload: Workload, direction: Direction, fastest: Sequence[str], series: Sequence[Series]) -> str:
    case = case_name(workload, direction)
    if not fastest:
        return f"{case}: no run succeeded."
    by_label = {each.label: each for each in series}
    ranked = sorted((each for each in series if each.speed), key=lambda each: -_median(each.speed))
    if len(ranked) == 1:
        return f"{case}: {_label(ranked[0])}, with nothing to compare it with."
    first = _one_of_each([by_label[label] for label in fastest])
    others = [each for each in _one_of_each(ranked) if each.method != first[0].method]
    if len(fastest) == 1:
        second = others[0] if others else ranked[1]
        times = _median(first[0].speed) / _median(second.speed)
        return f"{case}: {_label(first[0])}, {times:.2f} times as fast as {_label(second)}{_own_cpu(first[0], ranked)}."
    if any(each.speed is None or each.speed.values < FEWEST for each in first):
        few = few_runs(min(0 if each.speed is None else each.speed.values for each in first))
        return f"{case}: {few}; {_label(first[0])} was the fastest. Repeat it for more."
    if len(first) == 1:
        own = f"{_label(first[0])}{_own_cpu(first[0], ranked)}"
        return f"{case}: {own}; its other settings do not differ beyond the spread."
    return f"{case}: {_alike(first)}."


def _one_of_each(series: Sequence[Series]) -> list[Series]:
    """Of each method its best settings, which come first."""
    found: dict[str, Series] = {}
    for each in series:
        found.setdefault(each.method, each)
    return list(found.values())


def _median(spread: Spread | None) -> float:
    return 1.0 if spread is None else spread.median


def _label(each: Series) -> str:
    settings = each.label.removeprefix(each.method).removeprefix(", ")
    return display_name(each.method) + (f" ({settings})" if settings else "")


def _alike(first: Sequence[Series]) -> str:
    """Those that share the first place, and of them the one with the least CPU time."""
    thrifty = sorted(
        (each for each in first if each.cpu_per_gib),
        key=lambda each: each.cpu_per_gib.median if each.cpu_per_gib else 0,
    )
    take = thrifty[0] if thrifty else first[0]
    if len(first) > _MOST_NAMED:
        named = f"{_label(take)}, which {len(first) - 1} others do not differ from beyond the spread"
    else:
        named = f"{join_names([_label(each) for each in first])}, no difference beyond the spread"
    return named + _saving(take, thrifty[1:])


def _saving(take: Series, others: Sequence[Series]) -> str:
    """The share of CPU time of the thriftiest among those that are as fast."""
    if not others or take.cpu_per_gib is None or others[0].cpu_per_gib is None:
        return ""
    if min(take.cpu_per_gib.values, others[0].cpu_per_gib.values) < FEWEST or take.cpu_per_gib.overlaps(
        others[0].cpu_per_gib
    ):
        return ""
    share = 100 * take.cpu_per_gib.median / others[0].cpu_per_gib.median
    return f"; {_label(take)} takes the least CPU time, {share:.0f} % of that of {_label(others[0])}"


def _own_cpu(first: Series, ranked: Sequence[Series]) -> str:
    least = min(
        (each for each in ranked if each.cpu_per_gib),
        key=lambda each: each.cpu_per_gib.median if each.cpu_per_gib else 0,
        default=None,
    )
    if least is None or first.cpu_per_gib is None or least.cpu_per_gib is None:
        return ""
    if least is first:
        others = [each.cpu_per_gib for each in ranked if each is not first and each.cpu_per_gib]
        return "" if any(first.cpu_per_gib.overlaps(each) for each in others) else ", and with the least CPU time"
    if first.cpu_per_gib.overlaps(least.cpu_per_gib):
        return ""
    times = first.cpu_per_gib.median / least.cpu_per_gib.median
    return f", for {times:.1f} times the CPU time of {_label(least)}"


def _rank(
    found: Sequence[tuple[str, Spread]], *, most: bool, render: _Render, word: str, unit: str
) -> tuple[tuple[str, ...], str]:
    if not found:
        return (), "no run succeeded"
    ranked = sorted(found, key=lambda each: each[1].median, reverse=most)
    (label, best), others = ranked[0], ranked[1:]
    if not others:
        return (label,), f"{label}: {render(best)}; there is nothing to compare it with"
    alike = [(name, other) for name, other in others if min(best.values, other.values) < FEWEST or best.overlaps(other)]
    behind = [each for each in others if each not in alike]
    if not alike:
        name, second = behind[0]
        ratio = best.median / second.median if most else second.median / best.median
        if most:
            return (label,), f"{label} is {word}: {render(best)}, {ratio:.2f} times {unit} as {name} ({render(second)})"
        return (label,), f"{label} is {word}: {render(best)}; {name} takes {ratio:.2f} times {unit} ({render(second)})"
    names = (label, *(name for name, _ in alike))
    listed = ", ".join(f"{name} ({render(one)})" for name, one in ((label, best), *alike))
    least = min(one.values for one in (best, *(other for _, other in alike)))
    why = f"{few_runs(least)};" if least < FEWEST else "no difference beyond the spread"
    return names, f"{why} between {listed}"
