"""Columns of a transfer's row that its events seal: source, target, retried transfer, priority, limits, name.

The event of the submission holds their values, and each event that changes one holds the new value.
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
_TIMES: Final = {"planned": "planned_at", "pruned": "pruned_at"}
"""Events whose time a column repeats."""


def sealed_values(row: Any) -> dict[str, Any]:
    """The values of a row that are sealed."""
    return {name: getattr(row, name) for name in COLUMNS}


class SealedRow:
    """The columns according to the events of a transfer."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._times: dict[str, Any] = dict.fromkeys(_TIMES.values())

    def read(self, kind: str, at: float, data: Mapping[str, Any]) -> None:
        """Apply the next event."""
        sealed = data.get(SEALED)
        if isinstance(sealed, dict):
            self._values.update(cast("dict[str, Any]", sealed))
        if kind == "adjusted":
            self._values.update({name: data[name] for name in COLUMNS if name in data})
        if kind == "described":
            described = Description(data["name"], data["labels"])
            self._values.update(name=described.name, labels=described.stored_labels())
        if kind in _TIMES:
            self._times[_TIMES[kind]] = at

    def column_values(self) -> dict[str, Any]:
        """Values of the columns by name."""
        return {**self._values, **self._times}
