"""Tables of the configuration file: each is described by a dataclass, which pydantic reads and builds.

Pydantic takes longer to import than a short command runs, so only ``build`` imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_type_hints

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

T = TypeVar("T")

MOST: Final = 256
"""Tables of one list."""

NO_OTHER_KEYS: Final[Mapping[str, Any]] = {"extra": "forbid"}
"""``__pydantic_config__`` of tables."""

_EXPLAINED: Final = "explained"


class TableError(ValueError):
    """A table that cannot be used. Shows no value that may be a secret.

    Attributes:
        key: the key at fault; None: the table as a whole.
        reason: what is wrong with the value of the key.
    """

    def __init__(self, message: str, key: str | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.reason = reason


class Key:
    """Form of the value of a key: metadata of a field, which pydantic reads.

    Args:
        hint: what to write, where a value does not fit. ``{value!r}`` in it is the value.
        given: type of the value in the file, where that of the field is another.
        read: makes the field's value of the file's. A ValueError says why not, and without a text ``hint`` does.
        example: value in the error about a key that must be there.
        bounds: of the value, by pydantic's names.
    """

    def __init__(
        self,
        hint: str,
        *,
        given: Any = None,
        read: Callable[[Any], Any] | None = None,
        example: str = "",
        **bounds: Any,
    ) -> None:
        self.hint, self.given, self.read, self.example, self.bounds = hint, given, read, example, bounds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        schema = handler(source) if self.given is None else handler.generate_schema(self.given)
        schema = cast("CoreSchema", {**schema, **self.bounds})
        if self.read is not None:
            schema = core_schema.no_info_after_validator_function(self.read, schema)
        return core_schema.no_info_wrap_validator_function(self._explain, schema)

    def _explain(self, value: object, validate: Callable[[object], Any]) -> Any:
        from pydantic_core import PydanticCustomError, ValidationError

        try:
            return validate(value)
        except ValidationError as why:
            error = why.errors(include_url=False)[0]
            if error["type"] == _EXPLAINED:  # of an item
                raise
            said = str(error.get("ctx", {})["error"]) if error["type"] == "value_error" else ""
            raise PydanticCustomError(_EXPLAINED, "{why}", {"why": said or self.hint.format(value=value)}) from None


def number(least: int, most: int) -> Key:
    """A whole number within these bounds."""
    return Key(f"write a number from {least} to {most}", strict=True, ge=least, le=most)


def texts(read: Callable[[str], str], example: str) -> Key:
    """A list of texts, each of which ``read`` reads."""
    return Key(f'write a list of texts, as ["{example}"]', read=lambda items: tuple(read(one) for one in items))


def _place(text: str) -> str:
    if not text.startswith("s3://") or not text.removeprefix("s3://").strip("/"):
        raise ValueError(f"'{text}' is no bucket or prefix; write s3://bucket/prefix/")
    return text


_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}

Text = Annotated[str, Key("write a text", min_length=1)]
Place = Annotated[str, Key("write a text", min_length=1, read=_place, example="s3://bucket/runs/")]
"""A bucket or a prefix, as ``s3://bucket/prefix/``."""
Duration = Annotated[
    float,
    Key(
        'it is a duration; write for example "15m", "90s" or "2h"',
        given=str,
        pattern="^[1-9][0-9]{0,5}[smh]$",
        read=lambda text: int(text[:-1]) * _SECONDS[text[-1]],
    ),
]
"""Seconds."""


def keys(model: type[Any]) -> tuple[str, ...]:
    """Names of the keys of a table."""
    return tuple(field.name for field in fields(model))


def build(model: type[T], table: object, name: str) -> T:
    """The table that ``model`` describes.

    Args:
        name: of the table, with its brackets.

    Raises:
        TableError: a key is not known or missing, or a value does not fit.
    """
    from pydantic_core import ValidationError

    if not isinstance(table, dict):
        raise TableError(f"'{name.strip('[]')}' is a table; write {name}")
    try:
        return cast("T", _adapter(model).validate_python(table))
    except ValidationError as why:
        found = {error["type"]: (str(error["loc"][0]), error["msg"]) for error in reversed(why.errors())}
    if (unknown := found.get("unexpected_keyword_argument")) is not None:
        raise TableError(f"the key '{unknown[0]}' in {name} is not known; {hint(unknown[0], keys(model))}", unknown[0])
    if (missing := found.get("missing")) is not None:
        example = get_type_hints(model, include_extras=True)[key := missing[0]].__metadata__[0].example
        raise TableError(f'a {name.strip("[]")} has no {key}; write {key} = "{example}"')
    key, reason = found[_EXPLAINED]
    raise TableError(f"{name} {key}: {reason}", key, reason)


@cache
def _adapter(model: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def build_list(model: type[T], tables: object, name: str, verb: str) -> tuple[T, ...]:
    """A list of tables.

    Args:
        name: of each, without brackets.
        verb: what is done with them at most ``MOST`` times.

    Raises:
        TableError: as ``build``.
    """
    items = cast("list[Any]", tables) if isinstance(tables, list) else [None]
    if not all(isinstance(item, dict) for item in items):
        raise TableError(f"'{name}' is a list of tables; write [[{name}]]")
    if len(items) > MOST:
        raise TableError(f"there are {len(items)} {name}s, and at most {MOST} can be {verb}")
    return tuple(build(model, item, f"[[{name}]]") for item in items)


def hint(key: str, known: Sequence[str]) -> str:
    """The nearest key to one that is not known, or else all keys."""
    import difflib  # a table without a fault need not wait for it

    nearest = difflib.get_close_matches(key, known, 1)
    return f"did you mean '{nearest[0]}'?" if nearest else f"known are: {', '.join(known)}"


def find_repeated(values: Sequence[str]) -> str | None:
    """The first value that is there twice."""
    return next((value for value in values if values.count(value) > 1), None)
