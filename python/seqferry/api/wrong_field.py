"""The field of a request that a refusal is about, so that a form shows it beside that field.

An error names the options that it is about (``SeqferryError.options``). Here they become fields: most have the name of
their option, some requests have another one for it, and those of what a schedule starts stand below its field, as
``transfer``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from fastapi import Request

from seqferry.model.errors import SeqferryError

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "all_versions": ("versions",),
    "keys": ("objects", "members", "src_keys"),
    "labels": ("label",),
    "source": ("sources", "place", "src_bucket"),
    "state": ("states",),
    "target": ("dst_bucket",),
}
"""Fields of some bodies and queries for options that have another name elsewhere."""

_NESTED: Final = ("transfer", "move", "check", "verification", "cleanup")
"""Fields of a schedule that hold a whole request."""

_LARGEST: Final = 1024 * 1024
"""Bytes of a body that is looked into: larger ones come from programs."""


def find_field(request: Request, error: SeqferryError) -> str | None:
    """``body.FIELD`` or ``query.FIELD`` for the first option of the error that the request has; None: it has none."""
    if not error.options:
        return None
    given = dict.fromkeys(request.query_params, "query") | dict.fromkeys(_fields(request), "body")
    for option in error.options:
        for name in _names(option):
            if name in given:
                return f"{given[name]}.{name}"
    return None


def _names(option: str) -> Iterator[str]:
    names = (option, *_OTHER_NAMES.get(option, ()))
    yield from names
    yield from (f"{outer}.{name}" for outer in _NESTED for name in names)


def _fields(request: Request) -> Iterator[str]:
    """Names of the fields of the body that hold something, those of a nested object with a dot."""
    body: bytes = request.scope.get("state", {}).get("body", b"")
    if not body or len(body) > _LARGEST:
        return
    try:
        read: Any = json.loads(body)
    except ValueError:
        return
    if not isinstance(read, dict):
        return
    for name, value in cast("dict[str, Any]", read).items():
        if value is None:
            continue
        yield name
        if name in _NESTED and isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            yield from (f"{name}.{one}" for one, of_it in inner.items() if of_it is not None)
