"""Keys of a share that can be written, as a table ``[[share]]`` with ``read_only = false`` describes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, cast, get_args

from seqferry.model.option_groups import Sse
from seqferry.settings.sizes import parse_rate
from seqferry.settings.tables import NO_OTHER_KEYS, Key, Text

_WINDOW: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])")
_CLASS: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_MOST_PATTERNS: Final = 100
_DAY: Final = 24 * 60
_LONGEST_PATTERN: Final = 255
"""Bytes of the longest name of a file."""
_SHORTEST_SETTLE: Final = 1
"""Programs write a file in several calls: one that is sent between two of them is sent twice."""
_LONGEST_SETTLE: Final = 86400


def _pattern(text: str) -> str:
    if "/" in text:
        raise ValueError(f"'{text}' has a slash, and a pattern is for names without their folders")
    if len(text.encode()) > _LONGEST_PATTERN:
        raise ValueError
    return text


def _window(text: str) -> tuple[int, int]:
    found = _WINDOW.fullmatch(text)
    start, end = (60 * int(found[1]) + int(found[2]), 60 * int(found[3]) + int(found[4])) if found else (0, 0)
    if end > _DAY or start == end:
        raise ValueError
    return start, end


def _bandwidth(value: object) -> int:
    size = parse_rate(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 60:
        raise ValueError
    return size


def _storage_classes(value: object) -> tuple[tuple[str, str], ...]:
    rules = cast("dict[str, object]", value) if isinstance(value, dict) else {"*": value}
    if not 0 < len(rules) <= _MOST_PATTERNS:
        raise ValueError
    for pattern, name in rules.items():
        if not pattern:
            raise ValueError
        _pattern(pattern)
        if not isinstance(name, str) or not _CLASS.fullmatch(name):
            raise ValueError(f"{name!r} is no storage class; write for example STANDARD_IA")
    return tuple((pattern, str(name)) for pattern, name in rules.items())


def _tags(table: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in table.items())


_Pattern = Annotated[
    str, Key("{value!r} is no pattern of a name; write for example *.tmp", min_length=1, read=_pattern)
]
_Patterns = Annotated[
    tuple[_Pattern, ...],
    Key('write a list of at most 100 patterns of names, as ["*.tmp", ".DS_Store"]', max_length=100),
]
_Window = Annotated[
    tuple[int, int],
    Key('{value!r} is no time of the day; write hours and minutes, as "22:00-06:00"', given=str, read=_window),
]
_Windows = Annotated[
    tuple[_Window, ...],
    Key('write a list of 1 to 24 times of the day, as ["22:00-06:00"]', min_length=1, max_length=24),
]
_Settle = Annotated[
    float,
    Key(
        f"write seconds, from {_SHORTEST_SETTLE} to {_LONGEST_SETTLE}",
        strict=True,
        ge=_SHORTEST_SETTLE,
        le=_LONGEST_SETTLE,
        allow_inf_nan=False,
    ),
]
_StorageClasses = Annotated[
    tuple[tuple[str, str], ...],
    Key(
        'write a storage class, or a table of at most 100 patterns of names, as {{ "*.bam" = "GLACIER_IR" }}',
        given=object,
        read=_storage_classes,
    ),
]
_Sse = Annotated[Sse, Key(f"{{value!r}} is none of {', '.join(get_args(Sse))}")]
_Grants = Annotated[
    tuple[Text, ...],
    Key('write a list of 1 to 100 grants, as ["read=id=79a5..."]', min_length=1, max_length=100),
]
_Tags = Annotated[
    tuple[str, ...], Key('write a table of texts, as {{ project = "run42" }}', given=dict[str, str], read=_tags)
]
_Rate = Annotated[int, Key('write bytes per second, as "50MB/s"', given=object, read=_bandwidth)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """Settings for writing to a share.

    Args:
        settle: seconds for which a file must not change before it is uploaded.
        storage_class: of new objects, by patterns of their names; the first counts. None: as the bucket has it.
        sse: server-side encryption, with ``sse_kms_key_id``; None: as the bucket has it. Checked as those of a
            transfer (``spec.properties``), as are ``acl``, ``grants`` and ``tags``.
        ignore: patterns of names that stay on this machine; None: those of the gateway.
        markers: patterns of names that are uploaded after all older files of their folder; None: those of the gateway.
        upload_window: times of the day for uploads, in minutes since midnight of this machine's clock; none: always.
        max_bandwidth: bytes per second that are uploaded at most; None: no limit of its own.
    """

    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS

    settle: _Settle = 5.0
    storage_class: _StorageClasses = ()
    sse: _Sse | None = None
    sse_kms_key_id: Text | None = None
    bucket_key_enabled: Annotated[bool, Key("write true or false", strict=True)] = False
    acl: Text | None = None
    grants: _Grants = ()
    tags: _Tags = ()
    ignore: _Patterns | None = None
    markers: _Patterns | None = None
    upload_window: _Windows = ()
    max_bandwidth: _Rate | None = None
