"""The command line as a whole, and the edge where errors become exit codes.

Nothing heavy is imported before a command needs it: ``seqferry --help`` and ``seqferry status`` are to feel instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from copy import copy
from importlib import import_module
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from seqferry.cli import errors, examples, exits, foreign_commands, grouped_options, spec_arguments
from seqferry.cli.option_groups import Output
from seqferry.model.errors import ConfigError

if TYPE_CHECKING:
    from typer._click import HelpFormatter
    from typer._click.core import Context, Parameter
    from typer.models import CommandInfo

_HELP = """Moves sequencing data between S3 buckets and disks: fast, durable, observable, provable.

Every transfer is recorded before it starts and can be resumed after anything: Ctrl-C, a crash, a reboot.
"""

_EPILOG = (
    f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning, _ in exits.TABLE)}. "
    "Words of the AWS CLI, s5cmd and rclone are understood: docs/use/coming-from.md."
)

COMMANDS: Final = (
    "cp",
    "sync",
    "mv",
    "rm",
    "run",
    "check",
    "pack",
    "unpack",
    "tar",
    "status",
    "doctor",
    "preflight",
    "iam-policy",
    "watch",
    "pause",
    "resume",
    "retry",
    "cancel",
    "set",
    "label",
    "share",
    "schedule",
    "report",
    "verify",
    "audit",
    "prune",
    "ls",
    "du",
    "cat",
    "head",
    "presign",
    "mb",
    "rb",
    "cleanup",
    "mount",
    "umount",
    "mounts",
    "cache",
    "gateway",
    "serve",
    "worker",
    "workers",
    "token",
    "notify",
    "config",
    "aws",
    "s5cmd",
    "nextflow",
    "cost",
    "bench",
    "demo",
    "completion",
    "man",
)
"""The commands in the order of ``--help``. Each is a function, or a group, of its name in the module of its name, with
``_`` for ``-``."""


_WIDTH: Final = {"max_content_width": 100}
"""Columns of ``--help`` at most."""


class _Group(TyperGroup):
    def get_params(self, ctx: Context) -> list[Parameter]:
        return _plain(super().get_params(ctx))

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_examples(ctx, formatter)
        _tell_aliases(ctx, formatter)
        super().format_epilog(ctx, formatter)


class _Command(TyperCommand):
    def get_params(self, ctx: Context) -> list[Parameter]:
        return _plain(super().get_params(ctx))

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_examples(ctx, formatter)
        _tell_aliases(ctx, formatter)
        super().format_epilog(ctx, formatter)


def _write_examples(ctx: Context, formatter: HelpFormatter) -> None:
    """The last panel of ``--help``."""
    found = examples.lines(ctx.command_path.partition(" ")[2], formatter.width - 2)
    if found:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in found))


def _with_own_commands(found: typer.Typer) -> typer.Typer:
    """A group whose commands show their help as the others do, and may be made of groups of options as they are."""
    made = copy(found)
    made.registered_commands = [_own_command(one) for one in found.registered_commands]
    return made


def _own_command(found: CommandInfo) -> CommandInfo:
    made, function = copy(found), found.callback
    assert function is not None
    made.cls = _Command
    made.context_settings = _WIDTH | (made.context_settings or {})
    if kinds := grouped_options.of_command(function):
        made.cls, made.callback = _of_groups(function, kinds), _nothing
        made.name, made.help = made.name or function.__name__, made.help or getdoc(function)
    return made


def _tell_aliases(ctx: Context, formatter: HelpFormatter) -> None:
    """The words of other tools for this verb, or for verbs."""
    if rows := foreign_commands.aliases(ctx.command_path.partition(" ")[2]):
        with formatter.section("Coming from aws, s5cmd, rclone"):
            formatter.write_dl(rows)


def _of_groups(function: Callable[..., Any], kinds: dict[str, type[Any]]) -> type[TyperCommand]:
    """The class of a command whose parameters are groups of options."""

    class Command(_Command):
        def __init__(self, name: str | None, **settings: Any) -> None:
            self._expanded = grouped_options.ExpandedParameters(function, kinds)
            settings |= {"params": self._expanded.params, "callback": self._expanded.call}
            super().__init__(name, **settings)

        def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
            is_ordered = any("--rule" in parameter.opts for parameter in self.params)
            return super().parse_args(ctx, spec_arguments.with_rules(args) if is_ordered else args)

        def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
            for panel, records in self.panels(ctx).items():
                with formatter.section(panel):
                    formatter.write_dl(records)

        def panels(self, ctx: Context) -> dict[str, list[tuple[str, str]]]:
            """Names and help of the parameters as ``--help`` shows them, by panel."""
            panels: dict[str, list[tuple[str, str]]] = {}
            for parameter in self.get_params(ctx):
                if (record := parameter.get_help_record(ctx)) is not None:
                    panel = self._expanded.panels.get(str(parameter.name), Output.PANEL)
                    panels.setdefault(panel, []).append(record)
            return panels

    return Command


def command_of(name: str, function: Callable[..., Any]) -> Any:
    """A command by itself, which returns what its function does: for the lines of a list."""
    made = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    made.command(name, cls=_of_groups(function, grouped_options.of_command(function)))(_nothing)
    return typer.main.get_command(made)


def _nothing() -> int:
    """Stands for a function in Typer's list of commands, whose class calls the function itself."""
    raise AssertionError


def _plain(parameters: list[Parameter]) -> list[Parameter]:
    """Have defaults taken as they were written, and text as it was given.

    Typer would have pydantic confirm that they are what they are, and importing pydantic takes longer than all else of
    a command line. Values of other types (numbers, choices) still take that way.
    """
    for parameter in parameters:
        if isinstance(parameter, (TyperArgument, TyperOption)) and "process_value" not in vars(parameter):
            _take_plainly(parameter)
    return parameters


def _take_plainly(parameter: TyperArgument | TyperOption) -> None:
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
    """The command line; with the command alone that is asked for, if that is clear, since each takes time to make."""
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
    for name in [asked] if asked in COMMANDS else COMMANDS:
        python_name = name.replace("-", "_")
        found = getattr(import_module(f"seqferry.cli.commands.{python_name}"), python_name)
        if isinstance(found, typer.Typer):
            app.add_typer(_with_own_commands(found), name=name, cls=_Group, context_settings=_WIDTH)
        elif kinds := grouped_options.of_command(found):
            app.command(name, cls=_of_groups(found, kinds), help=getdoc(found), context_settings=_WIDTH)(_nothing)
        else:
            app.command(name, cls=_Command, context_settings=_WIDTH)(found)
    return app


def run(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    errors.open_closed()
    errors.outlive_stderr()
    errors.log_lines()
    try:
        try:
            _arm_crash()
            given = foreign_commands.translate(given)
            result: Any = application(given)(given, prog_name="seqferry", standalone_mode=False)
        finally:
            errors.flush()
    except BrokenPipeError:
        return errors.leave_stdout()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge of the process
        try:
            code = errors.report(error, as_json=_wants_json(given))
            sys.stdout.flush()
        except (OSError, ConfigError):
            # The error is on stderr already, or stderr is closed.
            return errors.leave_stdout()
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
