"""All commands put together, and the edge where errors become exit codes.

Nothing heavy is imported before a command needs it: ``seqferry --help`` and ``seqferry status`` are to feel instant.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from seqferry.cli import control, copying, errors, exits, listing, serving, status, story

_HELP = """Moves sequencing data between S3 buckets: fast, durable, observable, provable.

Every transfer is recorded before it starts and can be resumed after anything: Ctrl-C, a crash, a reboot.
"""

_EPILOG = (
    "Exit codes: 0 all objects verified; 1 some failed; 2 usage; 3 verification mismatch; 4 nothing matched; "
    "130 interrupted, resumable."
)

# Plain help: rich's panels cost more start-up time than all the rest of --help together.
app = typer.Typer(name="seqferry", help=_HELP, epilog=_EPILOG, rich_markup_mode=None, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"seqferry {version('seqferry')}")
        except PackageNotFoundError:
            print("seqferry (not installed)")
        raise typer.Exit(exits.OK)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    _shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(exits.USAGE)


app.command("cp")(copying.cp)
app.command("status")(status.status)
app.command("resume")(control.resume)
app.command("cancel")(control.cancel)
app.command("ls")(listing.ls)
app.command("serve")(serving.serve)
app.command("worker")(serving.worker)
app.command("demo")(story.demo)


def run(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        try:
            result: Any = app(given, prog_name="seqferry", standalone_mode=False)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    except BrokenPipeError:
        return errors.close_broken_pipe()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge of the process
        try:
            return errors.report(error, as_json=_wants_json(given))
        except BrokenPipeError:
            return errors.close_broken_pipe()
    return result if isinstance(result, int) else exits.OK


def _wants_json(arguments: list[str]) -> bool:
    """Looked up by hand, because a usage error is raised before the options are known."""
    return "--json" in arguments or os.environ.get("SEQFERRY_JSON", "").lower() in {"1", "true", "yes", "on"}
