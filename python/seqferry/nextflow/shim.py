"""The process that is called ``aws`` or ``s5cmd``: from its words to its exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from seqferry.settings import environment


def run(tool: str, words: Sequence[str]) -> int:
    """Be ``aws`` or ``s5cmd``; returns the exit code."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - its answer where there is none
        # A container may run as a user that it does not know: there are no files of that user then.
        os.environ["HOME"] = "/"
    if tool == "aws":
        from seqferry.nextflow import aws

        run_tool = aws.run
    else:
        from seqferry.nextflow import s5cmd

        run_tool = s5cmd.run
    try:
        code = run_tool(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough, as `grep -q` does.
        return 141
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception as why:
        if os.environ.get("SEQFERRY_DEBUG", "") not in {"", "0"}:
            raise
        from seqferry.model.shortages import find_shortage

        if (short := find_shortage(why)) is not None:
            print(f"{tool}: {short.message}", file=sys.stderr)
            return 1
        lines = str(why).splitlines() or ["(no message)"]
        print(
            f"{tool}: unexpected {type(why).__name__}: {lines[0]} (set SEQFERRY_DEBUG=1 to see where)", file=sys.stderr
        )
        return 1
    return code


def main(tool: str | None = None, words: Sequence[str] | None = None) -> NoReturn:
    """Run as the tool that this program is called; ends the process."""
    environment.prepare()
    named = tool or os.path.basename(sys.argv[0])  # noqa: PTH119
    code = run("s5cmd" if named == "s5cmd" else "aws", sys.argv[1:] if words is None else words)
    # Everything is written. Threads of the engine hold nothing that is worth waiting for.
    os._exit(code)
