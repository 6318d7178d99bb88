"""Options of a request by their groups, made of values by name: words of a command line, JSON of a body.

What must stay true: a name that no group has is an error of the program, and never passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache
from typing import Any, Final, TypeVar, get_type_hints

from seqferry.model.errors import errors_about
from seqferry.model.frozen import frozen
from seqferry.model.option_fields import OptionField, is_of_texts, option_fields
from seqferry.model.option_groups import Attributes, Filters, Protection, Removal
from seqferry.spec import properties
from seqferry.spec.option_groups import (
    AccessOptions,
    Endpoints,
    NameOptions,
    PartOptions,
    SelectionOptions,
    SpeedOptions,
    StorageOptions,
    Versions,
)

_Group = TypeVar("_Group")


@frozen
class Options:
    """All options of a copy; those of other operations are some of them."""

    selection: SelectionOptions = field(default_factory=SelectionOptions)
    filters: Filters = field(default_factory=Filters)
    versions: Versions = field(default_factory=Versions)
    names: NameOptions = field(default_factory=NameOptions)
    removal: Removal = field(default_factory=Removal)
    speed: SpeedOptions = field(default_factory=SpeedOptions)
    parts: PartOptions = field(default_factory=PartOptions)
    storage: StorageOptions = field(default_factory=StorageOptions)
    endpoints: Endpoints = field(default_factory=Endpoints)
    access: AccessOptions = field(default_factory=AccessOptions)
    protection: Protection = field(default_factory=Protection)
    attributes: Attributes = field(default_factory=Attributes)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """The options of these names; others have their defaults.

        Raises:
            UsageError: a value cannot be read.
            TypeError: there is no such option.
        """
        if unknown := given.keys() - option_names():
            raise TypeError(f"no options of a spec: {', '.join(sorted(unknown))}")
        return cls(**{member: _group(kind, given) for member, kind in _members().items()})


@frozen
class ListedObjects:
    """Objects below the source that a list or an inventory names.

    Attributes:
        versions, targets: more of each of ``keys``; empty: nothing more.
        inventory: the manifest of an S3 Inventory.
    """

    keys: tuple[str, ...] | None = None
    versions: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    inventory: str | None = None


NOTHING_LISTED: Final = ListedObjects()


@cache
def option_names() -> frozenset[str]:
    """Names of the options that a spec can be made with."""
    return frozenset(
        one.name for kind in _members().values() for one in option_fields(kind) if not one.option.of_interface
    )


@cache
def _members() -> dict[str, type[Any]]:
    hints = get_type_hints(Options)
    return {one.name: hints[one.name] for one in fields(Options)}


def _group(kind: type[_Group], given: Mapping[str, Any]) -> _Group:
    return kind(**{one.name: _value(one, given[one.name]) for one in option_fields(kind) if one.name in given})


def _value(of: OptionField, given: Any) -> Any:
    """A value of a request as the field of a group holds it."""
    if given is None:
        return of.kept_default
    with errors_about(of.name):
        if of.option.notation == "pairs":
            return properties.parse_pairs(f"--{of.name}", given)
        if of.option.notation == "moment":
            return properties.format_until(given)
    return tuple(given) if is_of_texts(of.kept) else given
