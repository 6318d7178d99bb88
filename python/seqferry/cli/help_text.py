"""Help of commands: ``-h`` shows the common options, ``--help`` all in groups, ``--help-env`` their variables.

An option is common when it is marked (``options.common``, ``Option.common``). A command with few options shows all of
them with ``-h``. Imported only for help and manual pages: other commands need not wait for it.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final, Literal

from seqferry.cli import examples
from seqferry.model.foreign_options import TRANSLATED_VERBS

if TYPE_CHECKING:
    from typer._click import HelpFormatter
    from typer._click.core import Context

View = Literal["short", "all", "env"]
VIEW: Final = "seqferry.help"
"""Key in ``Context.meta`` of the requested ``View``. Without it: ``all``."""

MOST_SHORT: Final = 22
"""Options of a command that ``-h`` shows without a mark, at most: they fit on a screen."""

_NAME_COLUMN: Final = 28
_HELP_NAMES: Final = {"-h", "--help", "--help-env"}
_VARIABLES: Final = {"state_dir": "SEQFERRY_STATE_DIR"}
"""Variables that the settings read, and not Typer."""

_TYPES: Final = {str: "TEXT", int: "N", float: "N"}

FOREIGN: Final = "Options of aws s3, s5cmd, rclone and mount-s3 are accepted too: docs/use/coming-from.md."


def write(command: Any, context: Context, formatter: HelpFormatter) -> None:
    """Write the help of a command or of a group of commands."""
    view: View = context.meta.get(VIEW, "all")
    formatter.write_usage(context.command_path, usage(command))
    if view == "env":
        _write_variables(command, context, formatter)
        return
    is_short = view == "short" and has_short_view(command)
    _write_paragraphs(_paragraphs(command)[: 1 if is_short else None], formatter)
    for panel, rows in (_common(command) if is_short else panels(command)).items():
        _write_rows(panel, rows, formatter)
    for title, commands in _commands(command).items():
        _write_rows(title, [(name, _summary(found)) for name, found in commands.items()], formatter)
    verb = context.command_path.partition(" ")[2]
    if found := examples.format_examples(verb, formatter.width - 2):
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in found))
    ending = [f"All options: {context.command_path} --help"] if is_short else []
    ending += [FOREIGN] if verb in TRANSLATED_VERBS and not is_short else []
    _write_paragraphs([*ending, cleandoc(command.epilog or "")], formatter)


def usage(command: Any) -> str:
    """Options, arguments and commands, as they follow the name of the command."""
    arguments = [one.metavar or str(one.name).upper() for one in command.params if one.param_type_name == "argument"]
    return " ".join(["[OPTIONS]", *arguments, *(["COMMAND [ARGS]..."] if hasattr(command, "commands") else [])])


def has_short_view(command: Any) -> bool:
    """True for a command with more options than ``-h`` shows."""
    return len(_visible_options(command)) > MOST_SHORT


def panels(command: Any) -> dict[str, list[tuple[str, str]]]:
    """Names and help of the parameters by the panel that shows them; options for help are in the last one."""
    found: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        if not getattr(parameter, "hidden", False):
            found.setdefault(_panel(parameter), []).append(_record(parameter))
    last = "Output" if "Output" in found else "Options"
    found[last] = [*found.pop(last, []), *_help_rows(command)]
    return found


def variables(command: Any) -> dict[str, str]:
    """Environment variables by the names of their options."""
    found = {_names(one): str(one.envvar or _VARIABLES.get(str(one.name), "")) for one in _visible_options(command)}
    return {option: variable for option, variable in found.items() if variable}


def is_common(parameter: Any) -> bool:
    """True for an option that ``-h`` shows."""
    return getattr(parameter.type_descriptor.parameter_info, "is_common", False)


def _visible_options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and not one.hidden]


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return parameter.rich_help_panel or "Options"


def _paragraphs(command: Any) -> list[str]:
    return cleandoc(command.help or "").split("\n\n")


def _write_paragraphs(paragraphs: list[str], formatter: HelpFormatter) -> None:
    for paragraph in filter(None, paragraphs):
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(paragraph)


def _write_rows(title: str, rows: list[tuple[str, str]], formatter: HelpFormatter) -> None:
    with formatter.section(title):
        formatter.write_dl(rows, col_max=_NAME_COLUMN)


def _common(command: Any) -> dict[str, list[tuple[str, str]]]:
    arguments = [_record(one) for one in command.params if one.param_type_name == "argument" and not one.hidden]
    rows = [_record(one) for one in _visible_options(command) if is_common(one)]
    common = {"Common options": [*rows, *_help_rows(command)]}
    return {"Arguments": arguments, **common} if arguments else common


def _commands(command: Any) -> dict[str, dict[str, Any]]:
    """Commands of a group by the title that they stand under."""
    visible = {name: one for name, one in getattr(command, "commands", {}).items() if not one.hidden}
    titles: dict[str, dict[str, Any]] = {}
    for name, one in visible.items():
        titles.setdefault(one.rich_help_panel or "Commands", {})[name] = one
    return titles


def _summary(command: Any) -> str:
    """The first sentence of the help."""
    first = " ".join(_paragraphs(command)[0].split())
    return first.partition(". ")[0].rstrip(".")


def _record(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return (parameter.metavar or str(parameter.name).upper()).strip("[]"), parameter.help or ""
    value = _value(parameter)
    name = f"{_names(parameter)} {value}" if value else _names(parameter)
    text = parameter.help or ""
    if (default := _default(parameter)) is not None:
        text = f"{text} Default: {default}."
    return name, f"{text} Required." if parameter.required else text


def _names(parameter: Any) -> str:
    """One short and one long name. Other long names are spellings of other tools, which are accepted."""
    names = [*parameter.opts, *parameter.secondary_opts]
    short = [name for name in names if not name.startswith("--")][:1]
    long = [name for name in parameter.opts if name.startswith("--")][:1]
    return ", ".join([*short, *long, *parameter.secondary_opts])


def _value(parameter: Any) -> str:
    if parameter.is_flag:
        return ""
    found = parameter.type_descriptor
    if parameter.metavar is not None:
        return parameter.metavar
    return "|".join(map(str, found.choices)) if found.is_choice else _TYPES.get(found.annotation, "PATH")


def _default(parameter: Any) -> str | None:
    value = parameter.default
    if parameter.is_flag:
        is_shown = value and parameter.secondary_opts
        return parameter.opts[0].lstrip("-") if is_shown else None
    return None if value is None or callable(value) or not parameter.show_default else str(value)


def _help_rows(command: Any) -> list[tuple[str, str]]:
    what = "Show the common options (-h) or all options." if has_short_view(command) else "Show this help."
    variable = "Show the environment variables of the options."
    return [("-h, --help", what), *([("--help-env", variable)] if variables(command) else [])]


def _write_variables(command: Any, context: Context, formatter: HelpFormatter) -> None:
    if found := variables(command):
        _write_paragraphs(["An option on the command line overrides its variable."], formatter)
        _write_rows("Environment variables", list(found.items()), formatter)
    else:
        _write_paragraphs([f"No option of {context.command_path} has an environment variable."], formatter)
