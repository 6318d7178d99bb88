"""Cron expressions and time zones: validation, and the times at which they fire.

DBOS computes its ticks with the same library, so that both name the same times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen

if TYPE_CHECKING:
    from datetime import tzinfo

UTC_ZONE: Final = "UTC"
MAX_TEXT: Final = 100
"""Characters of an expression or a time zone: real ones have a third of it."""

_ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS: Final = (5, 6)
_DAY_SECONDS: Final = 86_400
_CLOCK_FIELDS: Final = {0: 60, 1: 24, 5: 60}
"""Minutes, hours and seconds: their place in what the library reads, and how many values each has."""

_SOME_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_LEAP_YEARS_DAYS: Final = 4 * 366
"""Days within which each date of an expression comes at least once."""

_RANDOM: Final = re.compile(r"(?i)(?<![a-z])[hr](?![a-z])")
"""Fields that the library fills in by chance: each worker would fire at another time."""

_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}")


@frozen
class Cron:
    """A cron expression in its time zone. Made by ``parse``."""

    expression: str
    timezone: str

    def next_time(self, at: float) -> float:
        """The first time after ``at`` at which it fires; seconds since the epoch."""
        return float(self._from(at).get_next(datetime).timestamp())

    def previous_time(self, at: float) -> float:
        """The last time at which it fired, up to and including ``at``; seconds since the epoch."""
        # A tick at this very time counts, and the library looks strictly before.
        return float(self._from(at + 1e-3).get_prev(datetime).timestamp())

    def fires_at(self, at: float) -> bool:
        return self.next_time(at - 1.0) == at

    @property
    def zone(self) -> tzinfo:
        return ZoneInfo(self.timezone)

    def _from(self, at: float) -> Any:
        from croniter import croniter

        return croniter(
            self.expression, datetime.fromtimestamp(at, UTC).astimezone(self.zone), second_at_beginning=True
        )


@lru_cache(maxsize=4096)
def shortest_interval(expression: str) -> float:
    """Seconds between the two closest times of a valid expression.

    By the clock on the wall: where that goes back, an hour comes twice.
    """
    expression = _ALIASES.get(expression.lower(), expression)
    minutes, hours, seconds = (_read_field(expression, at) for at in _CLOCK_FIELDS)
    times = [hour * 3600 + minute * 60 + second for hour, minute, second in product(hours, minutes, seconds)]
    shortest = min((later - earlier for earlier, later in pairwise(times)), default=math.inf)
    overnight = times[0] + _DAY_SECONDS - times[-1]
    if overnight < shortest:
        shortest = min(shortest, overnight + (_fewest_days(expression) - 1) * _DAY_SECONDS)
    return float(shortest)


def _read_field(expression: str, at: int) -> list[int]:
    """Values of a field of the clock, in their order."""
    from croniter import croniter

    fields: Sequence[Sequence[int | str]] = croniter.expand(expression, second_at_beginning=True)[0]
    if at >= len(fields):
        return [0]  # an expression without seconds
    values = fields[at]
    return list(range(_CLOCK_FIELDS[at])) if "*" in values else sorted({int(value) for value in values})


def _fewest_days(expression: str) -> int:
    """Days between the two days of an expression that are closest to each other."""
    from croniter import CroniterBadDateError, croniter

    days = croniter(f"0 0 {' '.join(expression.split()[-3:])}", _SOME_DAY)
    fewest, last, until = _LEAP_YEARS_DAYS, None, _SOME_DAY + timedelta(days=_LEAP_YEARS_DAYS)
    try:
        while fewest > 1 and (last is None or last < until):
            day: datetime = days.get_next(datetime)
            fewest, last = fewest if last is None else min(fewest, (day - last).days), day
    except CroniterBadDateError:
        pass  # there is no other day
    return fewest


def parse(expression: str, timezone: str, now: float) -> Cron:
    """The expression, once it is known to fire.

    Raises:
        UsageError: the text is not a cron expression, or never fires, or the time zone is unknown.
    """
    words = expression.split()
    found = Cron(" ".join(words), _check_zone(timezone))
    is_cron = found.expression.lower() in _ALIASES or (len(words) in _FIELDS and not _RANDOM.search(expression))
    if not is_cron or len(expression) > MAX_TEXT:
        raise _no_cron(expression)
    from croniter import CroniterBadDateError

    try:
        found.next_time(now)
        found.previous_time(now)
    except CroniterBadDateError:
        raise UsageError(
            f"'{expression}' never fires: no date matches it. Check its day of the month and its month."
        ).about("cron") from None
    except (ValueError, TypeError, KeyError, ArithmeticError):
        raise _no_cron(expression) from None
    return found


def _no_cron(expression: str) -> UsageError:
    return UsageError(
        f"'{expression[:MAX_TEXT]}' is not a cron expression. Write minute, hour, day of the month, month and day of "
        "the week, as '0 2 * * *' for 02:00 each day; a field of seconds may come first."
    ).about("cron")


def _check_zone(timezone: str) -> str:
    error = UsageError(
        f"There is no time zone '{timezone[:MAX_TEXT]}'. Give a name of the IANA list, as Europe/Berlin or UTC."
    ).about("timezone")
    if len(timezone) > MAX_TEXT or not _ZONE.fullmatch(timezone):
        raise error
    try:
        ZoneInfo(timezone)
    except (ValueError, OSError, KeyError):
        raise error from None
    return timezone
