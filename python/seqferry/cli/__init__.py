"""The command line: translates, calls one verb of the service, shows the answer. Holds no logic of transfers."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """The ``seqferry`` command."""
    # Imported here, so that importing the package costs nothing.
    import logging
    import os

    from seqferry.cli.app import run

    code = run()
    logging.shutdown()
    # Everything is closed and flushed. A thread of the worker that did not stop in time must not keep the process.
    os._exit(code)
