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
    from typer.core import TyperArgument, TyperOption


def command_groups(function: Callable[..., Any]) -> dict[str, type[Any]]:
    """The groups of a command by the names of its parameters; none when it has parameters of its own."""
    hints = get_type_hints(function)
    kinds = {name: hints[name] for name in inspect.signature(function).parameters}
    return kinds if all(hasattr(kind, "PANEL") for kind in kinds.values()) else {}


class ExpandedParameters:
    """The parameters of a command whose arguments are groups, and the call with the given values.

    Typer reads this object as the function of a command: its name and its signature, which has all types evaluated.
    """

    def __init__(self, function: Callable[..., Any], groups: dict[str, type[Any]]) -> None:
        self._function = function
        self._groups = groups
        self.__name__, self.__annotations__ = function.__name__, dict[str, Any]()
        found = [(kind, one) for kind in groups.values() for one in _parameters(kind)]
        self.__signature__ = inspect.Signature([one for _, one in found])
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command()(self)
        command: Any = typer.main.get_command(app)
        self.params: list[TyperArgument | TyperOption] = command.params
        self.call: Callable[..., Any] = command.callback
        for (kind, _), parameter in zip(found, self.params, strict=True):
            parameter.rich_help_panel = parameter.rich_help_panel or kind.PANEL

    def __call__(self, **given: Any) -> Any:
        values = {
            name: kind(**{one.name: given[one.name] for one in fields(kind)}) for name, kind in self._groups.items()
        }
        return self._function(**values)


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    """The fields of a group as Typer reads them: with Typer's options in place of those for all interfaces."""
    found = option_fields(group)
    if not found:
        hints = get_type_hints(group, include_extras=True)
        return [_parameter(one.name, one.default, hints[one.name]) for one in fields(group)]
    assert len(found) == len(fields(group)), f"{group.__name__} mixes Typer's options with those for all"
    return [_parameter(one.name, one.default, Annotated[one.type, options.typer_option(one)]) for one in found]


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    is_required = default is MISSING
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_required else default,
        annotation=annotation,
    )
