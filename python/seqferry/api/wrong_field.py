"""The field of a request that a refusal is about, so that a form shows it beside that field.

An error names its field itself (``SeqferryError.field``), or its text does: by an option, as ``--part-size``, by the
value that it quotes, or by the bucket of an address.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from fastapi import Request

from seqferry.model.errors import SeqferryError

_OPTION: Final = re.compile(r"--([a-z][a-z-]*[a-z])")
_OTHER_NAMES: Final = {"days": "restore_days", "tier": "restore_tier"}
"""Options whose field has another name."""

_BUCKET: Final = re.compile(r"s3://[A-Za-z0-9._-]+")
_CUT: Final = re.compile(r"'([^']{20,})\.\.\.'")
"""A long value that the text quotes the begin of."""

_NESTED: Final = "transfer"
"""The field of a schedule that holds a whole request."""

_LARGEST: Final = 1024 * 1024
"""Bytes of a body that is looked into: larger ones come from programs."""

_SHORTEST: Final = 8
"""Characters of a value that is looked for without quotes: a short one stands in other words as well."""


def place_of(request: Request, error: SeqferryError) -> str | None:
    """``body.FIELD`` or ``query.FIELD``; None where no field, or more than one, may be meant."""
    where, fields = _given(request)
    text = error.message
    found = (
        _named(error.field, fields) or _by_option(text, fields) or _by_value(text, fields) or _by_bucket(text, fields)
    )
    return None if found is None else f"{where}.{found}"


def _given(request: Request) -> tuple[str, dict[str, Any]]:
    """The fields that the request has, those of a nested one with a dot, and where they stand."""
    body: bytes = request.scope.get("state", {}).get("body", b"")
    if not body:
        return "query", dict(request.query_params)
    if len(body) > _LARGEST:
        return "body", {}
    try:
        read: Any = json.loads(body)
    except ValueError:
        return "body", {}
    if not isinstance(read, dict):
        return "body", {}
    fields = {name: value for name, value in cast("dict[str, Any]", read).items() if value is not None}
    nested: Any = fields.pop(_NESTED, None)
    if isinstance(nested, dict):
        inner = cast("dict[str, Any]", nested)
        fields |= {f"{_NESTED}.{name}": value for name, value in inner.items() if value is not None}
    elif nested is not None:
        fields[_NESTED] = nested
    return "body", fields


def _named(name: str | None, fields: Mapping[str, Any]) -> str | None:
    if name is None:
        return None
    return next((one for one in (name, f"{_NESTED}.{name}") if one in fields), None)


def _by_option(text: str, fields: Mapping[str, Any]) -> str | None:
    options = (_OTHER_NAMES.get(one, one.replace("-", "_")) for one in _OPTION.findall(text))
    return next((found for one in options if (found := _named(one, fields)) is not None), None)


def _by_value(text: str, fields: Mapping[str, Any]) -> str | None:
    """The field whose value the text quotes; of source and target the target, which is the one to be changed."""
    found = [name for name, value in fields.items() if any(_is_in(text, one) for one in _texts(value))]
    targets = [name for name in found if name.rpartition(".")[2] == "target"]
    if len(found) == 1 or targets:
        return (targets or found)[0]
    return None


def _is_in(text: str, value: str) -> bool:
    if f"'{value}'" in text or any(begin in value for begin in _CUT.findall(text)):
        return True
    key = value.removeprefix("s3://").partition("/")[2] if value.startswith("s3://") else ""
    return any(
        len(one) >= _SHORTEST and re.search(rf"(?<!\S)'?{re.escape(one)}(?![\w/])", text) for one in (value, key)
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (one for one in cast("list[Any]", value) if isinstance(one, str))
    elif isinstance(value, dict):
        for name, one in cast("dict[str, Any]", value).items():
            yield from (name, str(one))


def _by_bucket(text: str, fields: Mapping[str, Any]) -> str | None:
    named = set(_BUCKET.findall(text))
    found = [
        name
        for name, value in fields.items()
        if isinstance(value, str) and (bucket := _BUCKET.match(value)) is not None and bucket[0] in named
    ]
    return found[0] if len(found) == 1 else None
