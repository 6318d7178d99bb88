"""Defaults for the jobs of a server: the environment twins of the options that requests can have.

``seqferry serve`` with ``SEQFERRY_PART_SIZE=16MiB`` gives jobs parts of 16 MiB unless they ask for others, as that
variable does for ``cp``. Limits of the process are settings (``config``), and not in here.

What must stay true: what a request gives wins; values are as the fields of a request have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from seqferry.model.errors import UsageError
from seqferry.model.option_fields import OptionField, option_fields
from seqferry.settings.config import Settings
from seqferry.settings.sizes import parse_size
from seqferry.spec.option_groups import OF_REQUESTS

_SETTINGS: Final = frozenset(one.name for one in fields(Settings))
_YES: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_NO: Final = frozenset({"0", "false", "f", "no", "n", "off"})


def variable(field: OptionField) -> str:
    """The environment variable of an option: ``SEQFERRY_PART_SIZE``."""
    word = field.option.words[0] if field.option.words else field.name
    return "SEQFERRY_" + word.removeprefix("--").replace("-", "_").upper()


def variable_of(name: str) -> str:
    """The environment variable of the option of this name."""
    return next(variable(field) for group in OF_REQUESTS for field in option_fields(group) if field.name == name)


def read(environ: Mapping[str, str]) -> dict[str, Any]:
    """The defaults that the environment gives, by the names of the fields.

    Raises:
        UsageError: a value cannot be read; its variable is named.
    """
    found: dict[str, Any] = {}
    for group in OF_REQUESTS:
        for field in option_fields(group):
            text = environ.get(name := variable(field), "")
            if text == "" or field.option.http is None or field.name in _SETTINGS:
                continue
            try:
                found[field.name] = _value(field, text)
            except ValueError as why:
                raise UsageError(f"{name}: {why}.") from None
    return found


def _value(field: OptionField, text: str) -> Any:
    kind = _plain(field.type)
    if field.option.notation == "size":
        return parse_size(text)
    if field.option.notation == "pairs":
        pairs = [word.partition("=") for word in text.split()]
        if any(not equals for _, equals, _ in pairs):
            raise ValueError(f"'{text}' is no list of NAME=VALUE")
        return {name: value for name, _, value in pairs}
    if kind is bool:
        word = text.lower()
        if word not in _YES | _NO:
            raise ValueError(f"'{text}' is neither true nor false")
        return word in _YES
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a whole number") from None
    return text.split() if get_origin(kind) is list else text


def _plain(declared: Any) -> Any:
    """The type of an option without None."""
    if get_origin(declared) in (Union, UnionType):
        return next(one for one in get_args(declared) if one is not type(None))
    return declared
