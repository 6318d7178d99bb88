"""``seqferry verify``."""

from __future__ import annotations

import time
from dataclasses import asdict

from seqferry.cli import display, exits, options, text
from seqferry.cli.session import actor, open_session


def verify(
    transfer: options.TransferId,
    as_json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Look at the target again, today, and compare each object with its receipt. Exit code 3 when one differs.

    Example: seqferry verify 3f2a
    """
    from seqferry import verification

    with open_session(as_json=as_json, state_dir=state_dir) as session:
        service = session.service
        status = service.status(transfer)
        looked = verification.Looked()
        for one in verification.verify(service.database, service.engine, status, looked):
            if as_json:
                display.emit("difference", id=status.id, **asdict(one))
            else:
                print(f"{one.outcome}\t{text.printable(one.key)}\twas {one.recorded}\tis {one.found}")
        verification.record(service.database, status, looked, at=time.time(), actor=actor())
        differ = looked.missing + looked.changed
        code = exits.MISMATCH if differ else exits.OK if looked.objects else exits.NOTHING
        if as_json:
            display.emit("verified", id=status.id, **asdict(looked), exit_code=code)
        else:
            display.say(
                f"Looked at {text.count(looked.objects, 'object')} at {text.printable(status.spec.target.uri)}: "
                f"{looked.same:,} as received, {looked.changed:,} changed, {looked.missing:,} missing."
            )
            if looked.size_only:
                display.say(f"  note      {text.count(looked.size_only, 'object')} compared by size only")
        return code
