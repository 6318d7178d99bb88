"""The registry of operations: what a worker can do with the objects of a transfer.

To add one: a package in ``workflows/operations`` with an ``OPERATION`` (see ``workflows.operations.Operation``), and a
line here. The name is stored with each transfer, so it stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from seqferry.model.errors import UnsupportedError
from seqferry.model.models import TransferSpec
from seqferry.spec import stored

MODULES: Final[dict[str, str]] = {
    "transfer": "seqferry.workflows.operations.transfer",
    "pack": "seqferry.workflows.operations.pack",
    "unpack": "seqferry.workflows.operations.unpack",
    "move": "seqferry.workflows.operations.move",
    "remove": "seqferry.workflows.operations.remove",
    "check": "seqferry.workflows.operations.check",
    "cleanup": "seqferry.workflows.operations.cleanup",
    "history": "seqferry.workflows.operations.history",
    "run": "seqferry.workflows.operations.run",
}
"""The module of each operation. Imported when the first transfer needs it."""


def lacking(features: Iterable[str]) -> str | None:
    """The first of the features (``spec.stored.features``) that this version has not, in words."""
    for feature in features:
        kind, _, name = feature.partition(" ")
        if not (name in MODULES if kind == "operation" else stored.knows(kind, name)):
            return f"a version of Seqferry that knows the {feature}"
    return None


def require(spec: TransferSpec) -> None:
    """Raise UnsupportedError when this version does not know the operation of a transfer."""
    if spec.operation not in MODULES:
        raise UnsupportedError.of(f"the operation '{spec.operation}'")
