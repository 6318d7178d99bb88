"""Commands made of groups of options: parameters that are all groups.

The options of a command are those of its groups; what was given comes back as values of the groups, so that no command
lists an option twice.

What must stay true: names of fields are unique among the groups of a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from seqferry.cli import options
from seqferry.model.option_fields import option_fields

if TYPE_CHECKING:
    from typer._click.core import Parameter


def command_groups(function: Callable[..., Any]) -> dict[str, type[Any]]:
    """The groups of a command by the names of its parameters; none when it has parameters of its own."""
    hints = get_type_hints(function)
    kinds = {name: hints[name] for name in inspect.signature(function).parameters}
    return kinds if all(hasattr(kind, "PANEL") for kind in kinds.values()) else {}


class _Constructor:
    """The constructor of a group as Typer reads it: with Typer's options in place of those for all interfaces.

    Typer reads the name, the annotations and the signature of this object.
    """

    def __init__(self, group: type[Any]) -> None:
        self._group = group
        found, own = option_fields(group), fields(group)
        assert len(found) in (0, len(own)), f"{group.__name__} mixes Typer's options with those for all"
        self.__name__ = group.__name__
        self.__annotations__ = (
            {one.name: Annotated[one.type, options.typer_option(one)] for one in found}
            if found
            else get_type_hints(group, include_extras=True)
        )
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    one.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if one.default is MISSING else one.default,
                    annotation=self.__annotations__[one.name],
                )
                for one in found or own
            ]
        )

    def __call__(self, **given: Any) -> Any:
        return self._group(**given)


class ExpandedParameters:
    """The parameters of a command whose arguments are groups, and the call with the given values."""

    def __init__(self, function: Callable[..., Any], groups: dict[str, type[Any]]) -> None:
        self._function = function
        self._builders: dict[str, tuple[Callable[..., Any], list[str]]] = {}
        self.params: list[Parameter] = []
        for name, kind in groups.items():
            # Typer makes a command of anything that can be called: of a group, one that returns a value of it.
            builder = typer.Typer(add_completion=False, rich_markup_mode=None)
            builder.command()(_Constructor(kind))
            command: Any = typer.main.get_command(builder)
            names = [str(parameter.name) for parameter in command.params]
            self._builders[name] = command.callback, names
            self.params += command.params
            for parameter in command.params:
                parameter.rich_help_panel = parameter.rich_help_panel or kind.PANEL

    def call(self, **given: Any) -> Any:
        values = {
            name: build(**{each: given[each] for each in names}) for name, (build, names) in self._builders.items()
        }
        return self._function(**values)
