"""Advice on failures: one next step for each class and code, in the words of the command that has failed."""

from __future__ import annotations

import re
from typing import Final

from seqferry.model import advice
from seqferry.model.operations import OPERATIONS, TRANSFER, Operation

_SKIPPED: Final = ": objects that are already there are skipped"
_AGAIN: Final = f"run the same cp again{_SKIPPED}"
_RUN_AGAIN: Final = re.compile(rf"\b([Rr])un the same \w+ again(?:{_SKIPPED})?")
_PASSING: Final = ("retry", "credentials", "source_changed", "person")
"""Classes of failures that pass when the cause is removed: the same request succeeds then."""

_NEXT_STEP: Final[dict[str, str]] = {
    "retry": f"The storage kept failing for longer than the retries last: {_AGAIN}.",
    "throttle": f"The storage kept throttling requests (503 SlowDown): lower --max-requests, and {_AGAIN}.",
    "credentials": f"Renew the credentials (with SSO: `aws sso login`) and {_AGAIN}.",
    "redirect": "Give the region of the bucket with --source-region or --target-region and run the same cp again.",
    "source_changed": f"The source was written to while it was copied: once it is quiet, {_AGAIN}.",
    "object": f"These objects cannot be copied as asked; change what the message names, and {_AGAIN}.",
    "person": f"These objects need permissions or a restore (the message says which); after that, {_AGAIN}.",
    "capability": "The storage cannot do what was asked; the message names the option to leave out.",
    "mismatch": (
        "What the message does not say is gone must not be used. Run the same cp again; if it repeats, the storage, or "
        "something on the way to it, alters data."
    ),
    "exists": "Use --if-exists same or overwrite to replace what is there, skip to leave it, or choose another target.",
}

_NEXT_STEP_OF_CODE: Final = {
    "NoSuchUpload": f"Something removes uploads that are under way, which the message names: stop it, and {_AGAIN}.",
    "MissingAtTarget": "Copy what is missing: seqferry cp with the same places.",
    "ChangedAtTarget": "Something else has written these since: find out what, and copy them again with seqferry cp.",
    "MissingAtSource": "Only the target has these; check them before seqferry sync --delete removes them.",
    "Differs": "One of the two is wrong: find out which, then copy that way with seqferry cp.",
    "TooManyToDelete": "Look at them with --dry-run, then add --yes.",
    "RequestTimeTooSkewed": f"Set this machine's clock, and {_AGAIN}.",
    "UploadFailed": "The gateway retries these by itself; see the cause with seqferry gateway status.",
    "Conflict": "Another program wrote these: compare them with the files that seqferry gateway conflicts lists.",
    "SourceGone": "Look for earlier versions of these in the bucket.",
}


_RETRY: Final = "retry them"
_OF_READER: Final[dict[str, str]] = {
    "retry": f"The storage kept failing for longer than the retries last: {_RETRY}.",
    "throttle": f"The storage kept throttling requests (503 SlowDown): lower the limits, and {_RETRY}.",
    "credentials": f"Have the people who run the server renew its credentials, and {_RETRY}.",
    "redirect": "Start a new transfer that gives the region of the bucket.",
    "source_changed": f"The source was written to while it was copied: once it is quiet, {_RETRY}.",
    "object": f"These objects cannot be copied as asked; have changed what the message names, and {_RETRY}.",
    "person": f"These objects need permissions or a restore (the message says which); after that, {_RETRY}.",
    "capability": "The storage cannot do what was asked; start a new transfer without what the message names.",
    "mismatch": (
        "What the message does not say is gone must not be used. Retry them; if it repeats, the storage, or something "
        "on the way to it, alters data."
    ),
    "exists": (
        "Something is at the target already, and that was to count as a failure: start a new transfer that skips "
        "what is identical, or replaces what is there."
    ),
}

_OF_READER_BY_CODE: Final = {
    "AccessDenied": (
        f"The owner of the source has to allow reading them, that of the target writing them; then {_RETRY}."
    ),
    "InvalidObjectState": f"Have them restored from the archive, or start a new transfer that restores them; {_RETRY}.",
    "NoSuchUpload": f"Something removes uploads that are under way, which the message names: stop it, and {_RETRY}.",
    "MissingAtTarget": "Copy what is missing: start a new transfer with the same places.",
    "ChangedAtTarget": "Something else has written these since: find out what, and copy them with a new transfer.",
    "MissingAtSource": "Only the target has these; check them before they are removed.",
    "Differs": "One of the two is wrong: find out which, then copy that way with a new transfer.",
    "TooManyToDelete": "More would be removed than was expected: check the list before you allow it.",
    "RequestTimeTooSkewed": f"Have the clock of the machine that copies set, and {_RETRY}.",
    "UploadFailed": "The gateway retries these by itself: have the cause that the message names fixed.",
    "Conflict": "Another program wrote these: compare them with the files kept below .seqferry-conflicts in the share.",
    "SourceGone": "Look for earlier versions of these in the bucket.",
}


def step_for_readers(error_class: str, error_code: str, operation: Operation = OPERATIONS[TRANSFER]) -> str:
    """The same for people who read the page or a receipt: they may have no command line."""
    found = _OF_READER_BY_CODE.get(error_code) or _OF_READER.get(error_class) or f"Look at the message, and {_RETRY}."
    return found if operation.finds_done else found.replace("cannot be copied as asked", "were refused")


def next_step(
    error_class: str,
    error_code: str,
    operation: Operation = OPERATIONS[TRANSFER],
    *,
    message: str = "",
    retry: str | None = None,
) -> str:
    """The one next step for failures of this class and code: that of their message, or else what helps most of them.

    Args:
        message: of one of them, which may end with a step.
        retry: the command that takes up what has failed; None where the whole command is run again.
    """
    of_message = None if error_class in ("mismatch", "exists") else advice.split_next_step(message)[1]
    found = _NEXT_STEP_OF_CODE.get(error_code) or of_message or _NEXT_STEP.get(error_class)
    found = found or f"Look at the message and {_AGAIN}."
    if not operation.finds_done:
        found = found.replace(_SKIPPED, "").replace("cannot be copied as asked", "were refused")
    found = found.replace("the same cp", f"the same {operation.command}")
    return found if retry is None or operation.compares else _with_retry(found, error_class, retry)


def _with_retry(step: str, error_class: str, retry: str) -> str:
    """The step with the command that repeats the failed objects alone, where that command can help."""
    if "--" in step or "hoose" in step:  # other options are needed, and a retry has those of its transfer
        return step
    found = _RUN_AGAIN.sub(rf"\1un `{retry}`", step)
    return f"{step} Then run `{retry}`." if found == step and error_class in _PASSING else found
