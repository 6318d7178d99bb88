"""The operations: what can be done with the objects of a transfer, and what all packages need to know of each.

To add one: an entry here, and a package in ``workflows/operations`` with its work (see
``workflows.operations.OperationWork``). The name is stored with each transfer, so it stays.
"""

from __future__ import annotations

from typing import Final

from seqferry.model.errors import UnsupportedError
from seqferry.model.frozen import frozen


@frozen
class Operation:
    """Facts of one operation.

    Attributes:
        name: as it is stored.
        module: holds its work, as ``OPERATION``; imported when the first transfer needs it.
        command: of the command line; advice on failures names it.
        verb: in a dry run, for an object with which it will be done.
        done: word for finished objects.
        finished: the same in the title of a summary with failures.
        noun: for a person who reads of it in a receipt.
        outcome_text: text for what it did, where no object arrives at a target; None: objects arrive.
        copies: writes each object of the source below the target.
        from_listing: its objects are those of a listing or of a list of keys, each decided by itself.
        finds_done: objects may be there already when it is done again.
        at_one_place: source and target are one place; of a run, one that stands for all.
        compares: only compares two places, and writes nothing.
        removes: removes objects at its place.
        removes_sources: removes at the source what has arrived.
        aborts: aborts uploads; where none is open, all is done.
        packs: writes archives, each from several objects.
        unpacks: its source is an archive, and its objects are the members.
        copies_versions: copies all versions of objects.
        runs_list: runs the lines of a list, each with its own spec.
        verifies_record: its objects are those on record of another transfer, and it writes nothing.
        recorded_by_gateway: a gateway records it when it has ended; it is never submitted, and no worker runs it.
    """

    name: str
    module: str
    command: str = "cp"
    verb: str = "copy"
    done: str = "copied"
    finished: str = "copied"
    noun: str = "copy"
    outcome_text: str | None = None
    copies: bool = False
    from_listing: bool = False
    finds_done: bool = True
    at_one_place: bool = False
    compares: bool = False
    removes: bool = False
    removes_sources: bool = False
    aborts: bool = False
    packs: bool = False
    unpacks: bool = False
    copies_versions: bool = False
    runs_list: bool = False
    verifies_record: bool = False
    recorded_by_gateway: bool = False

    @property
    def is_plain(self) -> bool:
        """True for a copy of objects as they are, and nothing else."""
        return self.name == TRANSFER

    @property
    def reads_below(self) -> bool:
        """True when all below the source may be read, so that a target must not lie in it."""
        return self.copies or self.packs or self.compares


TRANSFER: Final = "transfer"

_WORK: Final = "seqferry.workflows.operations"

OPERATIONS: Final[dict[str, Operation]] = {
    one.name: one
    for one in (
        Operation(TRANSFER, f"{_WORK}.transfer", copies=True, from_listing=True),
        Operation(
            "pack",
            f"{_WORK}.pack",
            command="pack",
            noun="archive",
            verb="pack",
            finished="packed",
            finds_done=False,
            packs=True,
        ),
        Operation("unpack", f"{_WORK}.unpack", command="unpack", noun="unpacking", verb="unpack", unpacks=True),
        Operation(
            "move",
            f"{_WORK}.move",
            command="mv",
            noun="move",
            verb="move",
            copies=True,
            from_listing=True,
            removes_sources=True,
        ),
        Operation(
            "remove",
            f"{_WORK}.remove",
            command="rm",
            noun="removal",
            verb="remove",
            done="removed",
            finished="removed",
            outcome_text="removed objects",
            finds_done=False,
            at_one_place=True,
            removes=True,
        ),
        Operation(
            "check",
            f"{_WORK}.check",
            command="check",
            noun="comparison",
            verb="check",
            finished="identical",
            outcome_text="compared two places and wrote nothing",
            finds_done=False,
            compares=True,
        ),
        Operation(
            "cleanup",
            f"{_WORK}.cleanup",
            command="cleanup",
            noun="cleanup of open uploads",
            verb="cleanup",
            done="aborted",
            finished="aborted",
            outcome_text="cleaned up unfinished uploads",
            finds_done=False,
            at_one_place=True,
            aborts=True,
        ),
        Operation(
            "verify",
            f"{_WORK}.verify",
            command="verify",
            noun="verification",
            verb="verify",
            done="same",
            finished="as received",
            outcome_text="verified what another one brought and wrote nothing",
            finds_done=False,
            at_one_place=True,
            verifies_record=True,
        ),
        Operation("history", f"{_WORK}.history", noun="copy of all versions", copies=True, copies_versions=True),
        Operation(
            "run",
            f"{_WORK}.run",
            command="run",
            noun="list of commands",
            verb="run",
            done="done",
            finished="done",
            at_one_place=True,
            runs_list=True,
        ),
        Operation(
            "gateway",
            f"{_WORK}.gateway",
            command="gateway",
            noun="upload of a share",
            verb="upload",
            done="uploaded",
            finished="uploaded",
            finds_done=False,
            at_one_place=True,
            recorded_by_gateway=True,
        ),
    )
}
"""The operations that this version knows, by name."""


def find_operation(name: str) -> Operation:
    """The operation of this name; an operation without properties where this version does not know it."""
    return OPERATIONS.get(name) or Operation(name, "", verb=name)


def require_known(name: str) -> None:
    """Raise UnsupportedError when this version does not know the operation."""
    if name not in OPERATIONS:
        raise UnsupportedError.of(f"the operation '{name}'")
