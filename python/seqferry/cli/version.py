"""``seqferry --version``."""

from __future__ import annotations

import sys


def show() -> None:
    """Print the version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        print(f"seqferry {version('seqferry')}")
    except PackageNotFoundError:
        print("seqferry (not installed)")


def run() -> int:
    """The command ``seqferry --version`` by itself; returns the exit code."""
    try:
        show()
        if sys.stdout is not None:  # it is closed
            sys.stdout.flush()
    except OSError as why:
        # Imported here: they bring many modules along.
        from seqferry.cli import errors
        from seqferry.cli.output import display

        if not isinstance(why, BrokenPipeError):
            errors.report_error(display.short_write_error(why), as_json=False)
        return errors.discard_stdout()
    return 0
