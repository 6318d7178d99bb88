"""Selection of a source's objects: a wildcard in its address, ordered include and exclude rules, sizes, ages.

Rules follow the AWS CLI: the last rule that matches decides, and what no rule matches is selected. A pattern is
matched with the key below the source; ``*`` crosses slashes.

What must stay true: no request and no clock; ages count from ``Conditions.as_of``, so a transfer that goes on days
later selects the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from seqferry.model.errors import UsageError, errors_about
from seqferry.model.locations import LocalFolder
from seqferry.model.models import TransferSpec
from seqferry.model.option_groups import Filters, Names
from seqferry.spec.patterns import Wildcards

_WILDCARDS: Final = r"[*?]"
_AGE: Final = r"(\d+(?:\.\d+)?)\s*([smhdwy])"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
_AGE_FORM: Final = "write an age as 90s, 12h, 7d or 2w, or a time as 2026-11-01 or 2026-11-01T08:00:00Z"


class Conditions(NamedTuple):
    """Conditions that select the objects of a source.

    Attributes:
        pattern: wildcard that a whole key has to match; None for every key.
        names: those that select keys, as rules in the order in which they were given; none that renames.
        filters: sizes are inclusive; an age or a time is as a person wrote it.
        as_of: the time that ages count from, in seconds since the epoch.
        strip: the start of a key that is not matched with ``names``.
        is_path: the wildcard is one of a shell: only ``**`` crosses slashes.
    """

    pattern: str | None = None
    names: Names = Names()
    filters: Filters = Filters()
    as_of: float | None = None
    strip: str = ""
    is_path: bool = False


def build_conditions(spec: TransferSpec) -> Conditions:
    """The conditions that select the objects of its source."""
    return Conditions(
        pattern=spec.pattern,
        names=replace(spec.names, rename=()),
        filters=spec.filters,
        as_of=spec.as_of,
        strip=spec.strip,
        is_path=isinstance(spec.source, LocalFolder),
    )


def has_wildcard(text: str) -> bool:
    """True when an address names several objects by ``*`` or ``?``."""
    return re.search(_WILDCARDS, text) is not None


def literal_prefix(pattern: str) -> str:
    """The text before the first wildcard."""
    return re.split(_WILDCARDS, pattern, maxsplit=1)[0]


def parse_age(written: str) -> float | None:
    """Seconds of an age (``90s``, ``7d``); None for any other text."""
    found = re.fullmatch(_AGE, written.strip().lower())
    return None if found is None else float(found[1]) * _SECONDS[found[2]]


def parse_time(written: str, as_of: float) -> float:
    """Seconds since the epoch of an age (``7d``) or a time (``2026-11-01``, in UTC where it names no zone).

    Raises:
        ValueError: the text is neither an age nor a time.
    """
    if (seconds := parse_age(written)) is not None:
        return as_of - seconds
    try:
        found = datetime.fromisoformat(written.strip())
    except ValueError:
        raise ValueError(f"'{written}' is neither an age nor a time; {_AGE_FORM}") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def check_conditions(conditions: Conditions) -> None:
    """Raise UsageError when the conditions make no sense."""
    for rule in conditions.names.rules:
        if rule[:2] not in ("+ ", "- ") or len(rule) == 2:
            raise UsageError(f"'{rule}' is not a rule; write '+ PATTERN' to include or '- PATTERN' to exclude.").about(
                "rules"
            )
    _wildcards(conditions)
    if conditions.names.max_depth is not None and conditions.names.max_depth < 1:
        raise UsageError(
            f"--max-depth {conditions.names.max_depth}: 1 is for the objects directly in SRC; give 1 or more."
        ).about("max_depth")
    low, high = conditions.filters.min_size, conditions.filters.max_size
    if low is not None and high is not None and low > high:
        raise UsageError(f"--min-size {low} is more than --max-size {high}: nothing would be selected.").about(
            "min_size", "max_size"
        )
    for name, written in (
        ("newer_than", conditions.filters.newer_than),
        ("older_than", conditions.filters.older_than),
    ):
        if written is not None:
            try:
                parse_time(written, conditions.as_of or 0.0)
            except ValueError as why:
                raise UsageError(f"--{name.replace('_', '-')}: {why}.").about(name) from None


def has_conditions(conditions: Conditions) -> bool:
    """True when a condition could leave an object out; compiles nothing, so that it fails for no pattern on record."""
    return bool(conditions._replace(as_of=None, strip="", is_path=False) != Conditions())


def only_includes(rules: Iterable[str]) -> bool:
    """True when there are rules and none excludes, so that they leave nothing out."""
    signs = {rule[:1] for rule in rules}
    return signs == {"+"}


@lru_cache(maxsize=64)
def build_matcher(conditions: Conditions) -> Callable[[str, int, float], bool] | None:
    """The test of an object by key, size (bytes) and time (seconds since the epoch); None when all are selected."""
    tests: list[Callable[[str, int, float], bool]] = []
    whole, rules = _wildcards(conditions)
    if whole is not None:
        tests.append(lambda key, _size, _time: whole.decide(key) is True)
    if rules is not None:
        start = conditions.strip
        tests.append(lambda key, _size, _time: rules.decide(key.removeprefix(start)) is not False)
    if (depth := conditions.names.max_depth) is not None:
        above = conditions.strip
        tests.append(lambda key, _size, _time: key.removeprefix(above).count("/") < depth)
    low, high = conditions.filters.min_size, conditions.filters.max_size
    if low is not None:
        tests.append(lambda _key, size, _time: size >= low)
    if high is not None:
        tests.append(lambda _key, size, _time: size <= high)
    as_of = conditions.as_of or 0.0
    if conditions.filters.newer_than is not None:
        since = parse_time(conditions.filters.newer_than, as_of)
        tests.append(lambda _key, _size, time: time > since)
    if conditions.filters.older_than is not None:
        until = parse_time(conditions.filters.older_than, as_of)
        tests.append(lambda _key, _size, time: time < until)
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda key, size, time: all(test(key, size, time) for test in tests)


def _wildcards(conditions: Conditions) -> tuple[Wildcards | None, Wildcards | None]:
    """The wildcard of the address and the rules, compiled."""
    whole = rules = None
    if conditions.pattern is not None:
        dialect: Literal["path", "key"] = "path" if conditions.is_path else "key"
        with errors_about("source"):
            whole = Wildcards([(True, conditions.pattern)], dialect, "The wildcard of SRC")
    if conditions.names.rules:
        written = [(rule[0] == "+", rule[2:]) for rule in conditions.names.rules]
        with errors_about("rules"):
            rules = Wildcards(written, "rule", "--include and --exclude")
    return whole, rules
