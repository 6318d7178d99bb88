"""Texts of next steps: those that the engine's messages end with, and those of failures by their class and code.

The engine names a step by a code (``crates/store/src/error/advice.rs``) and reads the texts once, when it is loaded. A
message that it has made ends with the text of a step, which ``split_next_step`` finds again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from seqferry.model.frozen import frozen
from seqferry.model.operations import OPERATIONS, TRANSFER, Operation
from seqferry.model.option_fields import label

if TYPE_CHECKING:
    from seqferry.model.models import FailureGroup

_OF_ENGINE: Final = {
    "grant_tags": "Give these credentials s3:GetObjectTagging on the source, then copy the object again.",
    "grant_list": "Give these credentials s3:ListBucket on the bucket.{Then}",
    "grant_read": (
        "Give these credentials s3:GetObject on the object (and the KMS key's rights); without s3:ListBucket on "
        "the bucket a missing object is refused as well.{Then}"
    ),
    "grant_write": (
        "Give these credentials s3:PutObject on the target, s3:PutObjectTagging for objects with tags (and the "
        "KMS key's rights){then}."
    ),
    "grant_list_parts": "Give these credentials s3:ListMultipartUploadParts on the target.{Then}",
    "grant_list_uploads": "Give these credentials s3:ListBucketMultipartUploads on the bucket.{Then}",
    "grant_abort": "Give these credentials s3:AbortMultipartUpload on the target.{Then}",
    "grant_delete": (
        "Give these credentials s3:DeleteObject on that bucket (s3:DeleteObjectVersion for versions){then}."
    ),
    "grant_copy": (
        "Give these credentials s3:GetObject and s3:GetObjectTagging on the source, s3:PutObject and "
        "s3:PutObjectTagging on the target, s3:ListBucket on both (and the KMS key's rights){then}."
    ),
    "restore": ("The object is archived: {anew} with --restore, which asks for a readable copy and waits for it."),
    "await_restore": "A restore is under way: {again} when it has ended.",
    "check_bucket": "Check the bucket's name and the endpoint, or create the bucket.",
    "check_bucket_name": "Check the spelling of the bucket's name.",
    "check_keys": "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose another --profile.",
    "find_credentials": (
        "Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, log in with 'aws sso login', or use "
        "--no-sign-request for public buckets."
    ),
    "fill_profile": (
        "Give the profile keys, log in with 'aws sso login', or leave --profile out: with it the keys of the "
        "environment are not used."
    ),
    "check_network": "Check the endpoint's address and the network{then}.",
    "trust_certificate": (
        "Check the endpoint's address; if an authority of your own signed its certificate, set AWS_CA_BUNDLE to "
        "a file with that authority's certificate (PEM).{Then}"
    ),
    "free_disk": "Make room on the disk{then}; what is done is not repeated.",
    "mount_writable": "Mount the file system for writing, or choose another target.",
    "check_path": "Check the path, whether its disk is mounted, or create the folder.{Then}",
    "change_permissions": ("Run as a user who may read and write there, or change the permissions{then}."),
    "check_disk": "Check the disk and the system's log{then}.",
    "stop_removals": "Another process removes files below the target: {again} when it has ended.",
    "raise_open_files": "Raise the limit of open files (ulimit -n), or lower --max-requests.",
    "allow_large_files": "Choose a target on a file system that takes files of this size.",
    "choose_key": "This key cannot be a path on this disk: copy the object under another key, which can be one.",
    "avoid_reserved_name": "Names of this form are kept for unfinished files: copy the object under another key.",
    "avoid_folder_key": (
        "A key that ends in '/' is a folder on a disk, which holds no bytes: copy the object under another key."
    ),
    "clear_name": (
        "On a disk one name cannot be both a file and a folder: remove or rename the one at the target that is "
        "not wanted (sync --delete removes nothing before all has arrived), or choose another target."
    ),
    "keep_special_file": (
        "Devices, sockets and pipes are not replaced: choose another target; to pass an object on to a program "
        "write - and a pipe."
    ),
    "replace_link": (
        "Nothing is written through symbolic links below the target: replace the link with a folder, or choose "
        "another target."
    ),
    "rename_one": (
        "This file system takes both names for one: rename one of them, or choose a target that tells them apart."
    ),
    "skip_special_file": "Devices, sockets and pipes hold no bytes to copy: everything else is copied.",
    "rename_file": "Keys are UTF-8: rename the file.",
    "choose_links": "Choose --symlinks follow to copy what the link points to, or --symlinks keep to copy the link.",
    "fix_link": "Fix or remove the link, or choose --symlinks keep to copy the link itself.",
    "remove_link": "Remove the link, or choose --symlinks keep to copy the link itself.",
    "pass_ranges": (
        "The endpoint, or a proxy before it, drops the Range header: have that changed, or use another endpoint."
    ),
    "pass_bytes": (
        "Have the endpoint, or the proxy before it, pass objects on as they are stored, or use another endpoint."
    ),
    "distrust_listing": (
        "A listing that cannot be trusted decides nothing: ask the operator of the endpoint, or of a proxy or "
        "cache before it."
    ),
    "shrink_head": (
        "The object carries more metadata than S3 allows, or a proxy adds headers: remove some of the metadata, "
        "or ask the endpoint's operator."
    ),
    "check_database": "Check that the database runs; what is done is not repeated.",
    "free_quota": "Make room at the target{then}.",
    "join_volumes": "Unpack its volumes together (`7z x x.zip`), or join those of 7-Zip (`cat x.zip.* > whole.zip`).",
    "name_archive": "Name a tar, a compressed tar or a zip.",
    "fetch_archive": "Fetch the archive again, or have it made anew.",
    "narrow_window": (
        "Decompress it with `zstd -d --long=31` and unpack the tar, or have it compressed again without --long."
    ),
    "make_index": "Make the index anew with `seqferry tar index`, or read the archive without it (--no-index).",
    "choose_storage_class": "Choose a storage class that this endpoint offers.",
    "set_clock": "Set this machine's clock{then}.",
    "shorten_prefix": "The target's key would be too long: choose a shorter target prefix.",
    "choose_part_size": "Choose another --part-size, or leave it out.",
    "change_metadata": "The source's metadata or tags are not accepted at the target: change them.",
    "renew_credentials": "Renew the credentials (for example 'aws sso login'){then}.",
    "ask_less": "Lower --max-requests, or try again when the service has less to do.",
    "give_region": (
        "Give the bucket's region with --source-region or --target-region, and no other region's --endpoint-url."
    ),
    "ask_owner": "Ask the owner of the bucket or key to allow it{then}.",
    "choose_options": "This endpoint does not offer the operation: choose other options.",
    "list_again": "The object is not there (any more): list the source again.",
    "check_request": "The request is not acceptable to this service: check options, endpoint and key.",
    "run_again": "{Again}; what is done is not repeated.",
    "repeat": "{Again}.",
    "repeat_after_sender": "{Again} when the sender has finished.",
    "repeat_after_writer": "{Again} when that has stopped.",
    "repeat_or_report": "{Again}; if it happens again, report it to the storage's operator.",
    "repeat_or_ask_about_object": (
        "{Again}; if it happens again, the object or the way to it is damaged: ask the storage's operator."
    ),
    "repeat_or_ask_about_archive": (
        "{Again}; if it happens again, the archive or the way to it is damaged: ask the storage's operator."
    ),
    "find_fault": ("Look for a proxy, a network device or memory that is at fault{then}."),
    "replace_target": "--if-exists fail is set. Choose same, skip or overwrite, or another target.",
    "overwrite_target": "--if-exists fail is set. Choose overwrite, or another target.",
    "see_target": "Give them s3:GetObject on the target, or choose --if-exists overwrite.",
    "replace_unseen": (
        "Give them s3:GetObject on the target, or choose --if-exists overwrite (a run that was cut off may have "
        "written it)."
    ),
    "raise_memory": "{Anew} with a larger --memory.",
    "raise_memory_or_cut_parts": "{Anew} with a larger --memory or a smaller --part-size.",
    "carry_lock": "carry it with --object-lock copy",
    "choose_encryption": "choose with --sse",
    "choose_offered_encryption": "Choose an --sse that the storage has.",
    "copy_unencrypted": "To copy it all the same: --sse none.",
    "wait_for_files": "--settle 60s leaves out files that were changed within the last minute.",
    "copy_unverified": (
        "--verify asks for: without it an object that is decompressed on the way is copied as it comes."
    ),
    "tolerate_missing_end": "--tolerate missing-end reads it anyway",
    "tolerate_two_sizes": "--tolerate two-sizes takes that of the PAX record",
    "tolerate_concatenated": "--tolerate concatenated reads both; --tolerate trailing-bytes reads the first alone",
    "tolerate_trailing_bytes": "--tolerate trailing-bytes leaves out what follows",
    "make_manifest": "Make it with seqferry ls --recursive --json.",
    "use_max_requests": "use --max-requests.",
    "use_max_bandwidth": "use --max-bandwidth.",
    "use_copy_threshold": "use --copy-threshold.",
    "use_part_size": "use --part-size.",
}

_OF_PLANNING: Final = {
    "allow_more_removals": "Nothing was removed; list them with --dry-run, then allow more with --max-delete.",
    "confirm_removals": "Nothing was removed; list them with --dry-run, then add --yes.",
    "confirm_aborts": "Nothing was aborted; list them with --dry-run, then add --yes.",
    "check_number": "Nothing was done; check with --dry-run.",
    "check_rest": "What was planned before is removed, and nothing else; look again with --dry-run.",
    "read_folder": "Allow this user to read the folder{then}.",
    "skip_preflight": "Nothing was moved; --no-preflight starts the transfer without this check.",
    "allow_reading": "Ask the owner of the source to allow s3:GetObject on these keys (with KMS also kms:Decrypt).",
    "allow_action": "Allow the action that the message names{then}.",
    "allow_writing": "Allow s3:PutObject below the target (with KMS also kms:GenerateDataKey), then start again.",
    "restore_first": "Have them restored, or let the transfer do it with --restore.",
    "correct_list": "Correct the list, or go on without them.",
    "check_names": "Check their names, or go on without them.",
    "choose_prefix": "Choose a target prefix.",
    "choose_other_prefix": "Choose another target prefix.",
    "choose_shorter_prefix": "Choose a shorter target prefix.",
    "choose_target_outside": "Choose a target outside of the source.",
    "change_renaming": "Change the rule of --rename.",
    "remove_versions": "Choose another target, or remove them: seqferry rm --all-versions.",
    "divide": "Split them, or pack them with others.",
}

_AGAIN: Final = "{again}{skipped}"

_OF_FAILURE: Final = {
    # Classes.
    "retry": f"The storage kept failing for longer than the retries last: {_AGAIN}.",
    "throttle": f"The storage kept throttling requests (503 SlowDown): lower --max-requests, and {_AGAIN}.",
    "credentials": f"Renew the credentials (with SSO: `aws sso login`) and {_AGAIN}.",
    "redirect": "{Anew} with the region of the bucket as --source-region or --target-region.",
    "source_changed": f"The source was written to while it was copied: once it is quiet, {_AGAIN}.",
    "object": f"These objects were refused; change what the message names, and {_AGAIN}.",
    "person": f"These objects need permissions or a restore (the message says which); after that, {_AGAIN}.",
    "capability": "The storage cannot do what was asked: {anew} without what the message names.",
    "mismatch": (
        "What the message does not say is gone must not be used. {Again}; if it repeats, the storage, or something on "
        "the way to it, alters data."
    ),
    "exists": "Use --if-exists same or overwrite to replace what is there, skip to leave it, or choose another target.",
    # Codes, which say more than their class.
    "NoSuchUpload": f"Something removes uploads that are under way, which the message names: stop it, and {_AGAIN}.",
    "MissingAtTarget": "Copy what is missing: seqferry cp with the same places.",
    "ChangedAtTarget": "Something else has written these since: find out what, and copy them again with seqferry cp.",
    "MissingAtSource": "Only the target has these; check them before seqferry sync --delete removes them.",
    "Differs": "One of the two is wrong: find out which, then copy that way with seqferry cp.",
    "TooManyToDelete": "Look at them with --dry-run, then add --yes.",
    "RequestTimeTooSkewed": f"Set the clock of the machine that copies, and {_AGAIN}.",
    "UploadFailed": "The gateway retries these by itself; see the cause with seqferry gateway status.",
    "Conflict": "Another program wrote these: compare them with the files that seqferry gateway conflicts lists.",
    "SourceGone": "Look for earlier versions of these in the bucket.",
    # Others.
    "unknown": f"Look at the message and {_AGAIN}.",
}

_OF_PAGE: Final = {
    "clear_name": (
        "On a disk one name cannot be both a file and a folder: remove or rename the one at the target that is not "
        "wanted, or choose another target."
    ),
    "keep_special_file": "Devices, sockets and pipes are not replaced: choose another target.",
    "narrow_window": "Have it compressed again without a long window.",
    "raise_memory": "Have the worker started with a larger --memory{then}.",
    "raise_memory_or_cut_parts": "{Anew} with a smaller --part-size.",
    "allow_more_removals": "Nothing was removed; check the list before more may be removed.",
    "confirm_removals": "Nothing was removed; check the list before it is allowed.",
    "confirm_aborts": "Nothing was aborted; check the list before it is allowed.",
    "check_number": "Nothing was done; check the list, and {anew}.",
    "remove_versions": "Choose another target, or have them removed with all their versions.",
    "check_rest": "What was planned before is removed, and nothing else; check the list again.",
    "skip_preflight": "Nothing was moved; {anew} without --preflight to skip this check.",
    "credentials": f"Have the people who run the server renew its credentials, and {_AGAIN}.",
    "exists": (
        "Something is at the target already, and that was to count as a failure: {anew} that skips what is identical, "
        "or replaces what is there."
    ),
    "MissingAtTarget": "Copy what is missing: {anew} with the same places.",
    "ChangedAtTarget": "Something else has written these since: find out what, and copy them with a new transfer.",
    "MissingAtSource": "Only the target has these; check them before they are removed.",
    "Differs": "One of the two is wrong: find out which, then copy that way with a new transfer.",
    "TooManyToDelete": "More would be removed than was expected: check the list before you allow it.",
    "UploadFailed": "The gateway retries these by itself: have the cause that the message names fixed.",
    "Conflict": "Another program wrote these: compare them with the files kept below .seqferry-conflicts in the share.",
}
"""Texts for readers without a command line, where placeholders alone do not make them."""

_WHILE_SERVING: Final = {
    "restore": "The object is archived: it can be read when a copy of it has been restored.",
    "await_restore": "A restore is under way: the object can be read when it has ended.",
    "free_disk": "Make room on the disk.",
    "stop_removals": "Another process removes files below the target.",
    "run_again": "Another attempt may succeed.",
    "repeat": "Another attempt may succeed.",
    "repeat_after_sender": "Read it again when the sender has finished.",
    "repeat_after_writer": "Another attempt may succeed when that has stopped.",
    "repeat_or_report": "If it happens again, report it to the storage's operator.",
    "repeat_or_ask_about_object": (
        "If it happens again, the object or the way to it is damaged: ask the storage's operator."
    ),
    "repeat_or_ask_about_archive": (
        "If it happens again, the archive or the way to it is damaged: ask the storage's operator."
    ),
    "raise_memory": "Start it again with a larger --memory.",
    "raise_memory_or_cut_parts": "Start it again with a larger --memory.",
}

TEXTS: Final = {**_OF_ENGINE, **_OF_PLANNING, **_OF_FAILURE}
_OPTION: Final = r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)"


def _step(text: str) -> str:
    """A text without the fact that some begin with: it ends the sentence about the cause."""
    return text.partition(". ")[2] or text if text.startswith("--") else text


@frozen
class Reader:
    """Tools of a reader of messages, in the words of the placeholders.

    Attributes:
        again: the act that repeats what has failed.
        anew: the act that repeats it with other options.
        follows_up: the act is named where a text only says what comes before it.
        skipped: what a repetition does with objects that are already there.
        texts: texts of its own, by code.
        by_label: options have labels in its form.
    """

    again: str = "run the same command again"
    anew: str = "run the same command"
    follows_up: bool = False
    skipped: str = ""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    by_label: bool = False

    def text(self, code: str) -> str:
        """The text of a step."""
        return self._fill(self.texts.get(code, TEXTS[code]))

    def step(self, code: str) -> str:
        """The same without the fact about the cause that some begin with."""
        return self._fill(_step(self.texts.get(code, TEXTS[code])))

    def with_labels(self, text: str) -> str:
        """``text`` with options as this reader sees them."""
        return re.sub(_OPTION, lambda found: f"“{label(found[1].replace('-', '_'))}”", text) if self.by_label else text

    def _fill(self, text: str) -> str:
        filled = text.format(
            again=self.again,
            Again=self.again[:1].upper() + self.again[1:],
            anew=self.anew,
            Anew=self.anew[:1].upper() + self.anew[1:],
            then=f", then {self.again}" if self.again else "",
            Then=f" Then {self.again}." if self.follows_up else "",
            skipped=self.skipped,
        )
        return self.with_labels(filled)


COMMAND_LINE: Final = Reader()
SERVICE: Final = Reader(again="", texts=_WHILE_SERVING)
"""The log of a process that serves."""
PAGE: Final = Reader("retry it", "start a new transfer", follows_up=True, texts=_OF_PAGE, by_label=True)
"""Readers of the page or a receipt, of one object or transfer."""
PAGE_OF_GROUP: Final = replace(PAGE, again="retry them")
"""The same, of several failed objects."""

ADVICE: Final = {code: COMMAND_LINE.text(code) for code in _OF_ENGINE}
SERVING: Final = {code: text for code in _OF_ENGINE if (text := SERVICE.text(code)) != ADVICE[code]}
"""The texts of ``ADVICE`` that differ while a process serves."""

_BY_TEXT: Final = {
    step: code
    for reader in (SERVICE, COMMAND_LINE)
    for code in (*_OF_ENGINE, *_OF_PLANNING)
    if (step := reader.step(code))[:1].isupper()
}
_DENIED: Final = frozenset({"AccessDenied", "Forbidden"})
_NAMES_ACTION: Final = " is not authorized to perform: "
"""Words of AWS, and of services like it, before the action that a policy does not allow."""
_LONGEST_FIRST: Final = sorted(_BY_TEXT, key=len, reverse=True)
"""Some texts end as others do."""


def split_next_step(message: str) -> tuple[str, str | None]:
    """The cause, and the code of the next step that a message ends with; None for one that ends with no step."""
    said = message.rstrip()
    step = next((text for text in _LONGEST_FIRST if f" {said}".endswith(f" {text}")), None)
    return (said, None) if step is None else (said[: -len(step)].rstrip(), _BY_TEXT[step])


def page_text(message: str) -> str:
    """A message for readers of the page: the cause, and the next step that it ends with."""
    cause, code = split_next_step(message)
    return " ".join(filter(None, (PAGE.with_labels(cause), code and PAGE.step(code))))


def step_code(failure: FailureGroup) -> str:
    """The code of the one next step for failures: that of their code or message, or what helps most of their class."""
    if failure.error_code in _OF_FAILURE:
        return failure.error_code
    if failure.error_code in _DENIED and _NAMES_ACTION in failure.message:
        return "allow_action"
    of_class = failure.error_class if failure.error_class in _OF_FAILURE else "unknown"
    return of_class if of_class in ("mismatch", "exists") else split_next_step(failure.message)[1] or of_class


def command_step(code: str, operation: Operation = OPERATIONS[TRANSFER], retry: str | None = None) -> str:
    """A next step for the reader of the command line.

    Args:
        retry: the command that takes up what has failed; None where the whole command is run again.
    """
    reader = replace(COMMAND_LINE, anew=f"run the same {operation.command}")
    if retry is not None and not operation.compares:
        return replace(reader, again=f"run `{retry}`", follows_up=True).step(code)
    skipped = ": objects that are already there are skipped" if operation.finds_done else ""
    return replace(reader, again=f"run the same {operation.command} again", skipped=skipped).step(code)
