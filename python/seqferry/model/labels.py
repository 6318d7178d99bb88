"""Name and labels of a transfer, by which people know it. They say nothing of the work, and may be alike."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen

MAX_NAME_LENGTH: Final = 200
MAX_LABELS: Final = 20
MAX_VALUE_LENGTH: Final = 200
"""Characters of a name, labels, and characters of a value: fit for a line of a list, and a bounded row."""

KEY: Final = "[a-z0-9._/-]{1,63}"
"""Pattern of the key of a label."""

_NOT_IN_TEXTS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that no name or value holds: control characters, halves of characters, ends of lines."""

_UNSEEN: Final = frozenset({"Cf", "Zs"})
"""Categories of characters that a list does not show: marks of direction, joiners and spaces."""


@frozen
class Description:
    """Name and labels of a transfer, for people. No part of its equality."""

    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    def __bool__(self) -> bool:
        """True when something is given."""
        return self.name is not None or bool(self.labels)

    def check(self) -> None:
        """Raise UsageError when the name or a label is not valid."""
        if self.name is not None and not (_is_text(self.name, MAX_NAME_LENGTH) and _is_seen(self.name)):
            raise UsageError(
                f"The name of a transfer has 1 to {MAX_NAME_LENGTH} characters, not all of them blank, and no control "
                "characters; give another name."
            ).about("name")
        if len(self.labels) > MAX_LABELS:
            raise UsageError(f"A transfer has at most {MAX_LABELS} labels, and {len(self.labels)} are given.").about(
                "labels"
            )
        for key, value in self.labels.items():
            if not re.fullmatch(KEY, key):
                raise UsageError(
                    f"'{key[:63]}' cannot be the key of a label: use 1 to 63 of a-z, 0-9, dot, hyphen, underscore and "
                    "slash."
                ).about("labels")
            if not _is_text(value, MAX_VALUE_LENGTH):
                raise UsageError(
                    f"A value has at most {MAX_VALUE_LENGTH} characters, and no control characters: label '{key}'."
                ).about("labels")

    def is_valid(self) -> bool:
        """True when ``check`` raises nothing."""
        try:
            self.check()
        except UsageError:
            return False
        return True

    def merged_over(self, before: Description) -> Description:
        """This description completed from ``before``: a given name or given labels replace those of ``before``."""
        return Description(before.name if self.name is None else self.name, self.labels or before.labels)

    def with_changes(
        self, *, name: str | None = None, labels: Mapping[str, str | None] = MappingProxyType({})
    ) -> Description:
        """This one with another name ('' for none) and with these labels in place of those of the same keys.

        A name that is None stays; a label whose value is None is removed.

        Raises:
            UsageError: the name or a label is not valid, or there would be too many labels.
        """
        kept = {key: value for key, value in self.labels.items() if key not in labels}
        given = {key: compose(value) for key, value in labels.items() if value is not None}
        after = Description(self.name if name is None else compose(name) or None, kept | given)
        for key in labels:  # also of those that are removed
            Description(labels={key: ""}).check()
        after.check()
        return after

    def stored_labels(self) -> str | None:
        """Labels as a row holds them: JSON, the same text for equal labels; None without any."""
        return json.dumps(dict(sorted(self.labels.items())), ensure_ascii=False) if self.labels else None


NOTHING: Final = Description()


def read_stored(name: str | None, labels: str | None) -> Description:
    """The description that a row holds."""
    return Description(name, {} if labels is None else json.loads(labels))


def compose(text: str) -> str:
    """The text with each letter as one character where there is one (NFC): texts that look alike are alike."""
    return unicodedata.normalize("NFC", text)


def describe(name: str | None, labels: Mapping[str, str]) -> Description:
    """The description that a person gives, not yet checked."""
    return Description(None if name is None else compose(name), {key: compose(value) for key, value in labels.items()})


def parse(name: str | None, labels: Iterable[str]) -> Description:
    """The description that options give, each label as ``key=value``.

    Raises:
        UsageError: the name or a label is not valid, or two labels have the same key.
    """
    found: dict[str, str] = {}
    for written in labels:
        key, equals, value = written.partition("=")
        if not equals:
            raise UsageError(f"'{written[:100]}' is not a label; write key=value, for example project=run42.").about(
                "labels"
            )
        if key in found:
            raise UsageError(f"The label '{key[:63]}' is given twice; give it once.").about("labels")
        found[key] = value
    made = describe(name, found)
    made.check()
    return made


def parse_filter(labels: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    """Labels that a list is filtered by: ``key=value``, or ``key`` for any value.

    Raises:
        UsageError: a key is none that a label can have.
    """
    found: list[tuple[str, str | None]] = []
    for written in labels:
        key, equals, value = written.partition("=")
        Description(labels={key: ""}).check()
        found.append((key, compose(value) if equals else None))
    return tuple(found)


def _is_text(value: str, most: int) -> bool:
    return len(value) <= most and not any(unicodedata.category(one) in _NOT_IN_TEXTS for one in value)


def _is_seen(text: str) -> bool:
    return any(unicodedata.category(one) not in _UNSEEN for one in text)
