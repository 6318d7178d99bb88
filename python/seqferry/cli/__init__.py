"""The command line: translates, calls one verb of the service, shows the answer. Holds no logic of transfers."""

from __future__ import annotations

__all__ = ["main", "mount_helper"]


def main() -> None:
    """The ``seqferry`` command."""
    # Imported here, so that importing the package costs nothing.
    import gc
    import logging
    import os
    import signal
    import sys

    # Ctrl-C while modules are imported ends the command as it ends others, and shows no traceback of the import.
    at_interrupt = signal.getsignal(signal.SIGINT)
    if at_interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    from seqferry.settings import environment, memory_limits

    environment.prepare()
    memory_limits.save_addresses()
    memory_limits.return_memory_soon(mount=sys.argv[1:2] == ["mount"])
    if sys.argv[1:2] in (["aws"], ["s5cmd"]):
        # Called once for each file of a task: the framework of the other commands alone takes longer than they may.
        from seqferry.nextflow.shim import main as shim

        signal.signal(signal.SIGINT, at_interrupt)
        shim(sys.argv[1], sys.argv[2:])

    if sys.argv[1:] == ["--version"]:
        # Without the commands, which are many modules.
        from seqferry.cli import version

        if code := version.run():
            os._exit(code)  # what stdout has not taken is not tried again
        return

    # A short command makes 120,000 objects, nearly all by imports, and no garbage: it ends before the first collection.
    gc.set_threshold(200_000, 20, 50)

    from seqferry.cli.app import run
    from seqferry.cli.output.text import escape_unencodable_output

    escape_unencodable_output()
    signal.signal(signal.SIGINT, at_interrupt)
    code = run()
    logging.shutdown()
    # Everything is closed and flushed. A thread of the worker that did not stop in time must not keep the process.
    os._exit(code)


def mount_helper() -> None:
    """The command ``mount.seqferry``, which mount(8) calls."""
    from seqferry.settings import memory_limits

    memory_limits.save_addresses()
    memory_limits.return_memory_soon(mount=True)

    from seqferry.cli.commands import mount

    mount.mount_helper()
