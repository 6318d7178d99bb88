"""The command line: translates, calls one verb of the service, shows the answer. Holds no logic of transfers."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """The ``seqferry`` command."""
    # Imported here, so that importing the package costs nothing.
    from seqferry.cli.app import run

    raise SystemExit(run())
