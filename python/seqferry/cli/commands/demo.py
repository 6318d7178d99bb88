"""``seqferry demo``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text

if TYPE_CHECKING:
    from seqferry.demo.scenario import Figures


def demo(
    scale: Annotated[
        float,
        typer.Option("--scale", min=0.05, max=20, help="Size of the sample data in GB."),
    ] = 1.0,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the server and the buckets running until Ctrl-C."),
    ] = False,
    no_progress: options.NoProgress = False,
) -> int:
    """Run a demo: copy, kill the worker, resume and verify."""
    from seqferry.demo import scenario

    try:
        scenario.run(
            show=lambda: display.choose_display(as_json=False, quiet=False, progress=not no_progress),
            say=display.say,
            tell=partial(_tell, keep=keep),
            scale=scale,
            keep=keep,
        )
    except KeyboardInterrupt:
        display.say("Demo stopped. Nothing is left running, and its folders are gone.")
        return exits.INTERRUPTED
    return exits.OK


def _tell(figures: Figures, *, keep: bool) -> None:
    left = "the page stays until Ctrl-C" if keep else "no process, port or folder is left behind"
    for line in [*_summary(figures), f"  took        {text.duration(figures.total)} in all; {left}"]:
        print(line, flush=True)


def _summary(figures: Figures) -> list[str]:
    kill = figures.kill
    parts = sum(upload.parts for upload in kill.uploads)
    whole = f"{len(kill.seen)} objects whole, {parts} parts in {text.count(len(kill.uploads), 'open upload')}"
    copying = kill.seconds + figures.after_restart
    return [
        "",
        "Summary",
        f"  delivered   {text.count(figures.objects, 'object')}, {text.size(figures.bytes)}",
        f"  mirrored    in {text.duration(copying)} with the worker's two starts, {text.rate(figures.bytes / copying)}",
        f"  killed      after {text.duration(kill.seconds)} at {kill.share:.0%} of the bytes: {whole}",
        f"  resumed     working again {text.duration(figures.back_after)} after the restart",
        f"  repeated    0 of {len(kill.seen)} finished objects; 0 uploads left open",
        f"  verified    all objects read back in {text.duration(figures.verifying)}: as the vendor's md5sum.txt says",
    ]
