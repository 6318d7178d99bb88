"""Columns of a transfer's row that its events seal: source, target, retried transfer, priority, limits, name.

The event of the submission holds their values, and each event that changes one holds the new value. Their presence is
the version of the seal: of a transfer that was recorded by an earlier version, nothing is known of these columns until
it is adopted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from seqferry.model.labels import Description

SEALED: Final = "sealed"
"""Key in the data of an event."""

COLUMNS: Final = (
    "source_uri",
    "target_uri",
    "retry_of",
    "priority",
    "max_requests",
    "max_bandwidth",
    "tpslimit",
    "name",
    "labels",
)
_SUBMITTED: Final = "submitted"
_TIMES: Final = {"planned": "planned_at", "pruned": "pruned_at"}
"""Events whose time a column repeats."""


def sealed_values(row: Any) -> dict[str, Any]:
    """The values of a row that are sealed."""
    return {name: getattr(row, name) for name in COLUMNS}


class SealedRow:
    """The columns according to the events of a transfer."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._times: dict[str, Any] = {}

    def read(self, kind: str, at: float, data: Mapping[str, Any]) -> None:
        """Apply the next event."""
        sealed = data.get(SEALED)
        if isinstance(sealed, dict):
            self._values.update(cast("dict[str, Any]", sealed))
            if kind == _SUBMITTED:  # an adoption does not know what earlier events left out
                self._times = dict.fromkeys(_TIMES.values())
        if kind == "adjusted" and self._values:
            self._values.update({name: data[name] for name in COLUMNS if name in data})
        if kind == "described" and self._values:
            described = Description(data["name"], data["labels"])
            self._values.update(name=described.name, labels=described.stored_labels())
        if kind in _TIMES and self._times:
            self._times[_TIMES[kind]] = at

    def column_values(self) -> dict[str, Any]:
        """Values of the columns by name; empty for a transfer of an earlier version."""
        return {**self._values, **self._times} if self._values else {}
