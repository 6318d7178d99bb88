"""Fields of request bodies that are options: made of the groups that the command line has as well."""

from __future__ import annotations

import re
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from seqferry.model.messages.steps import PAGE
from seqferry.model.option_fields import Http, Option, label, option_fields


def _is_number(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("Input should be a valid integer")  # noqa: TRY004 - what pydantic reports
    return value


_NAME: Final = re.compile(r"`([a-z]+(?:_[a-z]+)*)`")
"""Another option in the text of an option over HTTP."""

WHOLE: Final = BeforeValidator(_is_number)
"""Integers as JSON Schema has them: also 9.0, but no boolean and no text.

Stands after the bounds of a field: before them it would keep them out of the schema.
"""

WholeNumber = Annotated[int, WHOLE]


def create_body_model(*groups: type[Any]) -> type[BaseModel]:
    """The base of a body with the options of these groups that HTTP has; it takes no other fields.

    A body gives the texts of its own fields as ``Field(description=...)``: for texts below fields pydantic searches the
    source of each class up the whole stack, 10 ms a class.
    """
    found: dict[str, Any] = {}
    for group in groups:
        for one in option_fields(group):
            if (http := one.option.http) is not None:
                kind = _type_of(one.type, one.option, http)
                found[one.name] = (kind, _field_of(one.name, one.default, one.option, http, group.PANEL))
    return create_model("Options", __config__=ConfigDict(extra="forbid"), **found)


def _field_of(name: str, default: object, option: Option, http: Http, panel: str) -> Any:
    return Field(
        default=default,
        title=label(name),
        json_schema_extra={"x-group": panel, "x-help": _form_help(http.text or option.help or "")},
        description=http.text or option.help,
        max_length=http.max_items,
        examples=None if http.example is None else [http.example],
    )


def _form_help(text: str) -> str:
    """The help of an option beside its field in a form: other options by their labels."""
    return PAGE.with_labels(_NAME.sub(lambda found: f"“{label(found[1])}”", text)).replace("`", "")


def _type_of(declared: Any, option: Option, http: Http) -> Any:
    """The type of a field with the bounds of its numbers and texts."""
    if get_origin(declared) in (Union, UnionType):
        return Union[tuple(_type_of(one, option, http) for one in get_args(declared))]  # noqa: UP007 - any number
    if declared is int:
        return _number(option.minimum, option.maximum if http.maximum is None else http.maximum)
    if declared is str:
        return _text(http.max_length)
    if declared == list[str]:
        return dict[str, str] if option.notation == "pairs" else list[_text(http.max_length)]
    return declared


def _number(least: int | None, most: int | None) -> Any:
    return WholeNumber if least is None and most is None else Annotated[int, Field(ge=least, le=most), WHOLE]


def _text(characters: int | None) -> Any:
    return str if characters is None else Annotated[str, Field(min_length=1, max_length=characters)]
