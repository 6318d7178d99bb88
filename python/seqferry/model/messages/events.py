"""Texts of a record for the page and for receipts: its events, after the name of the actor, and verifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from seqferry.model.formatting import count

ADJUSTABLE: Final = ("priority", "max_requests", "max_bandwidth", "tpslimit")
"""Limits that the data of an ``adjusted`` event hold."""

_TEXTS: Final = {
    "submitted": "submitted the transfer",
    "joined": "submitted the same transfer again; the first one went on",
    "planned": "the source was listed",
    "list_read": "read the list of objects",
    "started": "the transfer started",
    "paused": "paused the transfer",
    "resumed": "resumed the transfer",
    "resume_requested": "requested that a worker resumes it",
    "cancel_requested": "cancelled the transfer",
    "stopping": "requests in flight ended, and open multipart uploads were aborted",
    "key_renewed": "provided renewed keys",
    "done": "the transfer ended",
    "done_with_failures": "the transfer ended with failed objects",
    "failed": "the transfer failed",
    "cancelled": "the transfer ended after its cancellation",
    "shared": "created a share link",
    "share_revoked": "revoked a share link",
    "pruned": "removed the list of objects from the records; the digest still covers it",
    "restoring": "the restore of archived objects was requested",
    "preflight": "the check before the start found objects that cannot be copied",
    "removing": "objects that are not in the source are removed at the target",
    "not_removed": "did not remove objects at the target",
    "nothing_removed": "removed nothing at the target",
    "removing_sources": "the sources of copied objects are removed",
    "sources_left": "did not remove sources",
    "folders_found": "the folders of the archive were recorded",
}

VERIFICATIONS: Final = {
    "checksum": "A checksum of the whole content is equal at both sides.",
    "content": "The content was read at both sides, and is equal byte for byte.",
    "etag": "The ETag, a digest of the content, is equal at both sides.",
    "time": "Size and time of the file are equal to those that are kept with the object.",
    "size": "The size alone is equal: other bytes of the same size would not show.",
    "none": "Nothing was compared.",
}
"""The statement that each kind of verification proves."""


def event_text(kind: str, data: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """An event as text.

    Args:
        before: the limits before an adjustment; None: not known, and the text names all that are set.
    """
    if kind == "adjusted":
        return _adjusted(data, before)
    if kind == "described" and isinstance(data.get("labels"), dict):  # a record that was changed may lack them
        labels: dict[str, str] = data["labels"]
        pairs = ", ".join(f"{key}={value}" for key, value in labels.items())
        named = f"named it “{data['name']}”" if data.get("name") else "removed its name"
        return named + (f", with the labels {pairs}" if pairs else "")
    objects, same = data.get("objects"), data.get("same")
    if kind == "list_read" and isinstance(data.get("list"), str):
        return f"read the list {data['list']} (SHA-256 {data.get('sha256')})"
    if kind == "verified" and isinstance(objects, int) and isinstance(same, int):
        how = ", all bytes read" if data.get("how") == "content" else ""
        part = "" if same == objects else f"{same:,} of "
        what = "selected objects at the target were" if data.get("selected") else "the target was"
        return f"{what} verified{how}: {part}{count(objects, 'object')} as received"
    return _TEXTS.get(kind, kind.replace("_", " "))


def _adjusted(data: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    limits = {name: data[name] for name in ADJUSTABLE if name in data}
    changed = {
        name: value
        for name, value in limits.items()
        if (value is not None if before is None else value != before.get(name))
    }
    return "set " + (
        ", ".join(f"{name.replace('_', ' ')} {'none' if value is None else value}" for name, value in changed.items())
        or ("no limits" if before is None else "nothing")
    )
