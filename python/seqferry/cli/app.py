"""The command line as a whole, and the edge where errors become exit codes.

Nothing heavy is imported before a command needs it: ``seqferry --help`` and ``seqferry status`` are to feel instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from copy import copy
from functools import cache
from importlib import import_module
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from seqferry.cli import errors, exits, foreign_commands, grouped_options, spec_arguments
from seqferry.model.errors import ConfigError

if TYPE_CHECKING:
    from typer._click import HelpFormatter
    from typer._click.core import Context, Parameter
    from typer.models import CommandInfo

    from seqferry.cli.help_text import View

_HELP = (
    "Transfer sequencing data between S3 buckets and disks, fast and verified. Every transfer is recorded and can be "
    "resumed after an interruption."
)

_EPILOG = (
    f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in exits.TABLE)}. "
    "Commands of the AWS CLI, s5cmd and rclone are accepted: docs/use/coming-from.md."
)

GROUPS: Final = {
    "Transfer": ("cp", "sync", "mv", "rm", "run", "pack", "unpack", "mb", "rb"),
    "Inspect": ("ls", "du", "cat", "head", "check", "tar", "presign", "preflight"),
    "Control": ("status", "watch", "pause", "resume", "retry", "cancel", "set", "label", "schedule"),
    "Records": ("report", "verify", "audit", "share", "prune"),
    "Mount and share": ("mount", "umount", "mounts", "cache", "gateway"),
    "Operate": (
        *("serve", "worker", "workers", "token", "notify", "config", "doctor", "cleanup", "iam-policy", "cost"),
        *("bench", "demo", "completion"),
    ),
    "Pipelines": ("nextflow", "aws", "s5cmd"),
}
"""Commands by their group in ``--help``. Each is a function, or a group, of its name in the module of its name, with
``_`` for ``-``."""

COMMANDS: Final = tuple(name for names in GROUPS.values() for name in names)

_WIDTH: Final = {"max_content_width": 100}
"""Columns of ``--help`` at most."""


def _show_help(view: View) -> Callable[[typer.Context, bool], None]:
    def show(context: typer.Context, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            from seqferry.cli.help_text import VIEW

            context.meta[VIEW] = view
            typer.echo(context.get_help())
            raise typer.Exit(exits.OK)

    return show


def _help_option(name: str, view: View) -> Any:
    return typer.Option(name, is_eager=True, expose_value=False, callback=_show_help(view))


@cache
def _help_options() -> tuple[Parameter, ...]:
    def asked(
        _short: Annotated[bool, _help_option("-h", "short")] = False,
        _all: Annotated[bool, _help_option("--help", "all")] = False,
        _env: Annotated[bool, _help_option("--help-env", "env")] = False,
    ) -> None: ...

    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.command()(asked)
    return tuple(typer.main.get_command(made).params)


class _OwnHelp:
    """Options and text of help, for commands and groups."""

    params: list[Parameter]

    def get_params(self, ctx: Context) -> list[Parameter]:  # noqa: ARG002
        return _without_pydantic([*self.params, *_help_options()])

    def get_help_option(self, ctx: Context) -> None:  # noqa: ARG002
        return None

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        from seqferry.cli import help_text

        help_text.write(self, ctx, formatter)


class _Group(_OwnHelp, TyperGroup):
    pass


class _Command(_OwnHelp, TyperCommand):
    pass


def _with_own_classes(found: typer.Typer) -> typer.Typer:
    """A group whose commands show their help as the others do, and may be made of groups of options as they are."""
    made = copy(found)
    made.registered_commands = [_with_own_class(one) for one in found.registered_commands]
    return made


def _with_own_class(found: CommandInfo) -> CommandInfo:
    made, function = copy(found), found.callback
    assert function is not None
    made.cls = _Command
    made.context_settings = _WIDTH | (made.context_settings or {})
    if kinds := grouped_options.command_groups(function):
        made.cls, made.callback = _grouped_command(function, kinds), _placeholder
        made.name, made.help = made.name or function.__name__, made.help or getdoc(function)
    return made


def _grouped_command(function: Callable[..., Any], kinds: dict[str, type[Any]]) -> type[TyperCommand]:
    """The class of a command whose parameters are groups of options."""

    class Command(_Command):
        def __init__(self, name: str | None, **settings: Any) -> None:
            self._expanded = grouped_options.ExpandedParameters(function, kinds)
            settings |= {"params": self._expanded.params, "callback": self._expanded.call}
            super().__init__(name, **settings)

        def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
            is_ordered = any("--rule" in parameter.opts for parameter in self.params)
            return super().parse_args(ctx, spec_arguments.with_rules(args) if is_ordered else args)

    return Command


def build_command(name: str, function: Callable[..., Any]) -> Any:
    """A command by itself, which returns what its function does: for the lines of a list."""
    made = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    made.command(name, cls=_grouped_command(function, grouped_options.command_groups(function)))(_placeholder)
    return typer.main.get_command(made)


def _placeholder() -> int:
    """Stands for a function in Typer's list of commands, whose class calls the function itself."""
    raise AssertionError


def _without_pydantic(parameters: list[Parameter]) -> list[Parameter]:
    """Have defaults taken as they were written, and text as it was given.

    Typer would have pydantic confirm that they are what they are, and importing pydantic takes longer than all else of
    a command line. Values of other types (numbers, choices) still take that way.
    """
    for parameter in parameters:
        if isinstance(parameter, (TyperArgument, TyperOption)) and "process_value" not in vars(parameter):
            _skip_pydantic(parameter)
    return parameters


def _skip_pydantic(parameter: TyperArgument | TyperOption) -> None:
    usual = parameter.process_value
    several = parameter.multiple or parameter.nargs != 1
    descriptor = parameter.type_descriptor
    is_plain = descriptor.parameter_info.parser is None and descriptor.annotation in (str, list[str])

    def is_default(value: Any) -> bool:
        return not parameter.required and (value is None or value is parameter.default)

    def process_value(ctx: Any, value: Any) -> Any:
        if several and is_plain and _are_texts(value) and (value or not parameter.required):
            taken = () if value is None else list(value)
        elif not several and (is_default(value) or (is_plain and isinstance(value, str))):
            taken = value
        else:
            return usual(ctx, value)
        return taken if parameter.callback is None else parameter.callback(ctx, parameter, taken)

    parameter.process_value = process_value


def _are_texts(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in cast("Iterable[Any]", value))


def _version(wanted: bool) -> None:
    if wanted:
        from seqferry.cli.version import show

        show()
        raise typer.Exit(exits.OK)


def _root(
    context: typer.Context,
    _shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(exits.USAGE)


def application(arguments: list[str]) -> typer.Typer:
    """The command line. Only the requested command is built where it is clear which: each takes time to build."""
    # Plain help: rich's panels cost more start-up time than all the rest of --help together.
    app = typer.Typer(
        name="seqferry",
        cls=_Group,
        help=_HELP,
        epilog=_EPILOG,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_WIDTH,
        add_completion=False,
    )
    app.callback(invoke_without_command=True)(_root)
    asked = arguments[0] if arguments else ""
    for group, names in GROUPS.items():
        for name in names:
            if asked == name or asked not in COMMANDS:
                _add(app, name, group)
    return app


def _add(app: typer.Typer, name: str, group: str) -> None:
    python_name = name.replace("-", "_")
    found = getattr(import_module(f"seqferry.cli.commands.{python_name}"), python_name)
    settings: dict[str, Any] = {"name": name, "context_settings": _WIDTH, "rich_help_panel": group}
    if isinstance(found, typer.Typer):
        app.add_typer(_with_own_classes(found), cls=_Group, **settings)
    elif kinds := grouped_options.command_groups(found):
        app.command(cls=_grouped_command(found, kinds), help=getdoc(found), **settings)(_placeholder)
    else:
        app.command(cls=_Command, **settings)(found)


def run(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    errors.open_closed_streams()
    errors.ignore_stderr_errors()
    errors.shorten_logs()
    try:
        try:
            _arm_crash()
            given = foreign_commands.translate(given)
            result: Any = application(given)(given, prog_name="seqferry", standalone_mode=False)
        finally:
            errors.flush()
    except BrokenPipeError:
        return errors.discard_stdout()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge of the process
        try:
            code = errors.report_error(error, as_json=_wants_json(given))
            sys.stdout.flush()
        except (OSError, ConfigError):
            # The error is on stderr already, or stderr is closed.
            return errors.discard_stdout()
        return code
    return result if isinstance(result, int) else exits.OK


def _arm_crash() -> None:
    """Have this process end where a test orders it to (``engine.crash_points``)."""
    if "SEQFERRY_CRASH_AT" in os.environ:
        from seqferry.engine import crash_points

        crash_points.arm(os.environ)


def _wants_json(arguments: list[str]) -> bool:
    """Looked up by hand, because a usage error is raised before the options are known."""
    return "--json" in arguments or os.environ.get("SEQFERRY_JSON", "").lower() in {"1", "true", "yes", "on"}
