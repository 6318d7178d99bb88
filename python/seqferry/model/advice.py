"""Next steps that the engine's messages end with, by its codes (``crates/store/src/error/advice.rs``).

The engine names the step by a code; its text names options and commands of the interfaces (CLI, HTTP API), so it is
here. The engine reads the texts once, when it is loaded. ``model/next_steps.py`` has what a summary adds to failures.
"""

from __future__ import annotations

from typing import Final

ADVICE: Final = {
    "grant_tags": "Give these credentials s3:GetObjectTagging on the source, then copy the object again.",
    "grant_list": "Give these credentials s3:ListBucket on the bucket.",
    "grant_read": (
        "Give these credentials s3:GetObject on the object (and the KMS key's rights); without s3:ListBucket on "
        "the bucket a missing object is refused as well."
    ),
    "grant_write": (
        "Give these credentials s3:PutObject on the target, s3:PutObjectTagging for objects with tags (and the "
        "KMS key's rights), then run the same command again."
    ),
    "grant_list_parts": "Give these credentials s3:ListMultipartUploadParts on the target.",
    "grant_list_uploads": "Give these credentials s3:ListBucketMultipartUploads on the bucket.",
    "grant_abort": "Give these credentials s3:AbortMultipartUpload on the target.",
    "grant_delete": (
        "Give these credentials s3:DeleteObject on that bucket (s3:DeleteObjectVersion for versions), then run "
        "the same command again."
    ),
    "grant_copy": (
        "Give these credentials s3:GetObject and s3:GetObjectTagging on the source, s3:PutObject and "
        "s3:PutObjectTagging on the target, s3:ListBucket on both (and the KMS key's rights), then run the same "
        "command again."
    ),
    "restore": (
        "The object is archived: run the same command with --restore, which asks for a readable copy and waits for it."
    ),
    "await_restore": "A restore is under way: run the same command again when it has ended.",
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
    "check_network": "Check the endpoint's address and the network, then run the same command again.",
    "trust_certificate": (
        "Check the endpoint's address; if an authority of your own signed its certificate, set AWS_CA_BUNDLE to "
        "a file with that authority's certificate (PEM)."
    ),
    "free_disk": "Make room on the disk, then run the same command again; what is done is not repeated.",
    "mount_writable": "Mount the file system for writing, or choose another target.",
    "check_path": "Check the path, whether its disk is mounted, or create the folder.",
    "change_permissions": (
        "Run as a user who may read and write there, or change the permissions, then run the same command again."
    ),
    "check_disk": "Check the disk and the system's log, then run the same command again.",
    "stop_removals": "Another process removes files below the target: run the same command again when it has ended.",
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
    "free_quota": "Make room at the target, then run the same command again.",
    "join_volumes": "Unpack its volumes together (`7z x x.zip`), or join those of 7-Zip (`cat x.zip.* > whole.zip`).",
    "name_archive": "Name a tar, a compressed tar or a zip.",
    "fetch_archive": "Fetch the archive again, or have it made anew.",
    "narrow_window": (
        "Decompress it with `zstd -d --long=31` and unpack the tar, or have it compressed again without --long."
    ),
    "make_index": "Make the index anew with `seqferry tar index`, or read the archive without it (--no-index).",
    "choose_storage_class": "Choose a storage class that this endpoint offers.",
    "set_clock": "Set this machine's clock, then run the same command again.",
    "shorten_prefix": "The target's key would be too long: choose a shorter target prefix.",
    "choose_part_size": "Choose another --part-size, or leave it out.",
    "change_metadata": "The source's metadata or tags are not accepted at the target: change them.",
    "renew_credentials": "Renew the credentials (for example 'aws sso login'), then run the same command again.",
    "ask_less": "Lower --max-requests, or try again when the service has less to do.",
    "give_region": (
        "Give the bucket's region with --source-region or --target-region, and no other region's --endpoint-url."
    ),
    "ask_owner": "Ask the owner of the bucket or key to allow it, then run the same command again.",
    "choose_options": "This endpoint does not offer the operation: choose other options.",
    "list_again": "The object is not there (any more): list the source again.",
    "check_request": "The request is not acceptable to this service: check options, endpoint and key.",
    "run_again": "Run the same command again; what is done is not repeated.",
    "repeat": "Run the same command again.",
    "repeat_after_sender": "Run the same command again when the sender has finished.",
    "repeat_after_writer": "Run the same command again when that has stopped.",
    "repeat_or_report": "Run the same command again; if it happens again, report it to the storage's operator.",
    "repeat_or_ask_about_object": (
        "Run the same command again; if it happens again, the object or the way to it is damaged: ask the storage's "
        "operator."
    ),
    "repeat_or_ask_about_archive": (
        "Run the same command again; if it happens again, the archive or the way to it is damaged: ask the storage's "
        "operator."
    ),
    "find_fault": ("Look for a proxy, a network device or memory that is at fault, then run the same command again."),
    "replace_target": "--if-exists fail is set. Choose same, skip or overwrite, or another target.",
    "overwrite_target": "--if-exists fail is set. Choose overwrite, or another target.",
    "see_target": "Give them s3:GetObject on the target, or choose --if-exists overwrite.",
    "replace_unseen": (
        "Give them s3:GetObject on the target, or choose --if-exists overwrite (a run that was cut off may have "
        "written it)."
    ),
    "raise_memory": "Run the same command again with a larger --memory.",
    "raise_memory_or_cut_parts": "Run the same command again with a larger --memory or a smaller --part-size.",
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

_AGAIN: Final = ", then run the same command again."


def split_next_step(message: str) -> tuple[str, str | None]:
    """The cause and the next step of a message; None for one that ends with no step of these."""
    said = message.rstrip()
    step = next((words for words in _STEPS if said.endswith(f" {words}")), None)
    return (said, None) if step is None else (said[: -len(step)].rstrip(), step)


def _step(words: str) -> str:
    """A step without the fact that some begin with: they end a sentence about the cause."""
    return words.partition(". ")[2] if words.startswith("--") else words


_STEPS: Final[list[str]] = sorted(
    (step for step in map(_step, ADVICE.values()) if step[:1].isupper()), key=len, reverse=True
)
"""Those that are sentences, the longest first: some end as others do."""

SERVING: Final = {
    **{code: words.removesuffix(_AGAIN) + "." for code, words in ADVICE.items() if words.endswith(_AGAIN)},
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
"""Texts of the steps that name a command to run again, for a gateway or a mount while it serves."""
