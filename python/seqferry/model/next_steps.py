"""Advice on failures: the next step for each class and code, in the words of the command that has failed."""

from __future__ import annotations

from typing import Final

from seqferry.model.operations import OPERATIONS, TRANSFER, Operation

_SKIPPED: Final = ": objects that are already there are skipped"
_AGAIN: Final = f"run the same cp again{_SKIPPED}"

_NEXT_STEP: Final[dict[str, str]] = {
    "retry": f"The storage kept failing for longer than the retries last: {_AGAIN}.",
    "throttle": f"The storage asked for fewer requests for too long: lower --max-requests, and {_AGAIN}.",
    "credentials": f"Renew the credentials (with SSO: `aws sso login`) and {_AGAIN}.",
    "redirect": "Give the region of the bucket with --source-region or --target-region and run the same cp again.",
    "source_changed": f"The source was written to while it was copied: once it is quiet, {_AGAIN}.",
    "object": f"These objects cannot be copied as asked; change what the message names, and {_AGAIN}.",
    "person": f"Somebody has to allow or restore these objects (the message says what); after that, {_AGAIN}.",
    "capability": "The storage cannot do what was asked; the message names the option to leave out.",
    "mismatch": (
        "What the message does not say is gone must not be used. Run the same cp again; if it repeats, the storage, or "
        "something on the way to it, alters data."
    ),
    "exists": "The target exists and --if-exists fail was given: use --if-exists same or overwrite to replace it.",
}

_NEXT_STEP_OF_CODE: Final = {
    "NoSuchUpload": f"Something removes uploads that are under way, which the message names: stop it, and {_AGAIN}.",
    "MissingAtTarget": "Copy what is missing: seqferry cp with the same places.",
    "ChangedAtTarget": "Something else has written these since: find out what, and copy them again with seqferry cp.",
    "MissingAtSource": "Only the target has these; look at them before seqferry sync --delete removes them.",
    "Differs": "One of the two is wrong: find out which, then copy that way with seqferry cp.",
    "TooManyToDelete": "Look at them with --dry-run, then add --yes.",
    "RequestTimeTooSkewed": f"Set this machine's clock, and {_AGAIN}.",
}


def next_step(error_class: str, error_code: str, operation: Operation = OPERATIONS[TRANSFER]) -> str:
    """Advice on a failure of this class and code, in the words of the command that has failed."""
    found = _NEXT_STEP_OF_CODE.get(error_code) or _NEXT_STEP.get(error_class) or f"Look at the message and {_AGAIN}."
    if not operation.finds_done:
        found = found.replace(_SKIPPED, "").replace("cannot be copied as asked", "were refused")
    return found.replace("the same cp", f"the same {operation.command}")
