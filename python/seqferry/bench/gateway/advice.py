"""Conclusions from the figures, for each size of file: which folder is ahead, or that none is.

The rule is that of ``recommend``: a folder is ahead of another when the ranges of their runs do not overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from seqferry.bench.gateway.experiments import rounds_for, whole
from seqferry.bench.recommend import few_runs
from seqferry.bench.spread import FEWEST
from seqferry.model.frozen import frozen

RULE: Final = (
    "A folder is ahead of another when the ranges of their runs, lowest to highest, do not overlap; with fewer than "
    f"{FEWEST} runs of each nothing is said to be ahead. Outliers are runs beyond 1.5 times the distance of the "
    "quartiles; they stay in all figures."
)
_TWO: Final = 2
_CASES: Final = (
    ("small", "For files of 1 MiB", ("small-dsync", "small-direct")),
    ("large", "for files of {sizes}", ("large-1", "large-3", "large-5")),
    ("random", "for random work of several jobs", ("fio-randrw", "fio-randwrite", "fio-randread")),
    ("sequential", "for sequential work of several jobs", ("fio-write", "fio-read")),
)


@frozen
class GatewayAdvice:
    """Advice on one kind of work.

    Attributes:
        take: the folder that is ahead in all of its experiments that tell a difference; None where none is.
    """

    case: str
    take: str | None
    text: str


def advise(results: Sequence[Mapping[str, Any]]) -> list[GatewayAdvice]:
    """Advice on each kind of work that there are figures for."""
    found: list[GatewayAdvice] = []
    for case, words, names in _CASES:
        tests = [[each for each in results if each["experiment"] == name and each["runs"]] for name in names]
        tests = [each for each in tests if each]
        if tests:
            sizes = " to ".join(dict.fromkeys(whole(edge[0]["bytes"]) for edge in (tests[0], tests[-1])))
            found.append(_case(case, words.format(sizes=sizes), tests))
    return found


def sentence(advice: Sequence[GatewayAdvice]) -> str:
    """All of it in one sentence that a person can act on."""
    return "; ".join(each.text for each in advice) + "." if advice else "No run succeeded."


def _case(case: str, words: str, tests: Sequence[Sequence[Mapping[str, Any]]]) -> GatewayAdvice:
    if all(len(test) < _TWO for test in tests):
        return GatewayAdvice(case, None, f"{words} there is nothing to compare {tests[0][0]['folder']} with")
    compared = [test for test in tests if len(test) >= _TWO]
    runs = [min(each["runs"] for each in test) for test in compared]
    if max(runs) < FEWEST:
        rounds = rounds_for(FEWEST, small=case == "small")
        return GatewayAdvice(case, None, f"{words} there is no verdict: {few_runs(max(runs))} (--rounds {rounds})")
    tests = [test for test, least in zip(compared, runs, strict=True) if least >= FEWEST]
    firsts = [ahead for test in tests if (ahead := _ahead(test)) is not None]
    leaders = list(dict.fromkeys(name for name, _ in firsts))
    if not leaders:
        return GatewayAdvice(case, None, f"{words} take the cheaper: no difference beyond the spread")
    shares = [share for _, share in firsts]
    least, most = round(100 * min(shares)), round(100 * max(shares))
    if len(leaders) > 1:
        names = " and ".join(leaders)
        return GatewayAdvice(case, None, f"{words} no folder is ahead in all, {names} each in some")
    by = f"{most:,} %" if least == most else f"{least:,} to {most:,} %"
    where = "" if len(firsts) == len(tests) else f" in {len(firsts)} of {len(tests)} experiments"
    return GatewayAdvice(case, leaders[0], f"{words} take {leaders[0]}, {by} faster{where}")


def _ahead(test: Sequence[Mapping[str, Any]]) -> tuple[str, float] | None:
    """The folder that is ahead of all others, and by which share of the next one's speed; None where none is."""
    ranked = sorted(test, key=lambda each: -each["bytes_per_second"]["median"])
    first, others = ranked[0], ranked[1:]
    if any(each["bytes_per_second"]["high"] >= first["bytes_per_second"]["low"] for each in others):
        return None
    best, second = (each["bytes_per_second"]["median"] for each in ranked[:2])
    return first["folder"], best / second - 1
