"""The receipt of a transfer as a document: one page of HTML to read, file or print, without script and network.

It begins with what a reader needs: one sentence, totals, what is proven, failures, objects, acts of people. What is for
machines (digest, ledger, options, events as data) comes at its end.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from seqferry.db.record import sealed_row
from seqferry.model import formatting
from seqferry.model.messages import steps
from seqferry.model.messages.events import ADJUSTABLE, VERIFICATIONS, event_text
from seqferry.model.models import ENDED_TRANSFER_STATES, WITH_FAILURES, FailureGroup
from seqferry.proof.transfer_record import TransferRecord
from seqferry.templates import environment

OBJECTS_OF_PAGE: Final = 10_000
"""Objects in the table of one page: 5 MB. Browsers open this without delay; a larger transfer has several pages."""

FINDINGS: Final = 100
"""Findings about its own record that a page names; the others are counted."""

_KEYS: Final = 3
"""Keys that are named of each cause of failures."""

_STYLE: Final = "receipt.css"

POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    f"{base64.b64encode(hashlib.sha256(environment.stylesheet(_STYLE).encode()).digest()).decode()}'"
)
"""Content security policy of the page: its own style, and nothing else."""

STATES: Final = {
    "done": ("complete", "done"),
    WITH_FAILURES: ("not complete, because some objects failed", "half"),
    "failed": ("not complete, because it failed", "bad"),
    "cancelled": ("not complete, because it was cancelled", "bad"),
}


def render(known: TransferRecord, objects: Iterator[dict[str, Any]], number: int = 1) -> Iterator[str]:
    """The page in pieces.

    Args:
        objects: those of the transfer from ``(number - 1) * OBJECTS_OF_PAGE`` on, in their order.
        number: of the page, from 1.
    """
    total = known.facts["totals"]["objects"]
    first = (number - 1) * OBJECTS_OF_PAGE
    arrived = [one for one in known.verifications if one.state in ("done", "skipped")]
    return environment.stream(
        "receipt.html",
        style=_STYLE,
        policy=POLICY,
        title=f"Receipt: {known.description.name}" if known.description.name else f"Receipt of {known.spec.source.uri}",
        known=known,
        findings=known.findings[:FINDINGS],
        **_sentence(known),
        summary=_summary(known),
        verifications=arrived,
        proves=VERIFICATIONS,
        lacks=sum(one.not_carried for one in arrived),
        failures=[_failure(group) for group in known.failures],
        acts=list(_acts(known)),
        number=number,
        pages=max(1, math.ceil(total / OBJECTS_OF_PAGE)),
        first=first + 1,
        last=min(first + OBJECTS_OF_PAGE, total),
        objects=map(_row, islice(objects, OBJECTS_OF_PAGE)),
        record=_record_text(known),
        written=_when(round(known.made_at * 1e6)),
        options=[(name, value) for name, value in _flat(known.facts["spec"]) if value not in (None, "")],
        events=[{**one, "text": json.dumps(one["data"], ensure_ascii=False)} for one in known.events],
    )


# --- parts ------------------------------------------------------------------------------------------------------------


def _sentence(known: TransferRecord) -> dict[str, Any]:
    facts, totals, kind = known.facts, known.facts["totals"], known.spec.kind
    has_ended = facts["state"] in ENDED_TRANSFER_STATES
    words, mood = STATES.get(facts["state"], (facts["state"], "half"))
    return {
        "totals": totals,
        "noun": kind.noun,
        "target": None if kind.at_one_place else known.spec.target.uri,
        "requested_by": _person(facts["created_by"]),
        "words": f"is {words}" if has_ended else f"has not ended ({facts['state']})",
        "mood": mood,
        "arrived": totals["done"] + totals["skipped"],
        "ended": _when(facts["ended_at"]) if has_ended else None,
        "error": steps.page_text(facts["error_message"]) if facts["error_message"] else None,
    }


def _summary(known: TransferRecord) -> list[tuple[str, str]]:
    facts, totals = known.facts, known.facts["totals"]
    done = known.spec.kind.done
    counts = {done: "done", "skipped, there already": "skipped", "failed": "failed", "cancelled": "cancelled"}
    counted = ", ".join(f"{totals[name]:,} {words}" for words, name in counts.items() if totals[name])
    started, ended = facts["started_at"], facts["ended_at"]
    lasted = formatting.duration((ended - started) / 1e6) if started is not None and ended is not None else None
    rows = {
        "Objects": f"{totals['objects']:,}" + (f": {counted}" if counted else ""),
        "Bytes": f"{totals['bytes']:,} ({formatting.size(totals['bytes'])})",
        "Requested": _when(facts["created_at"]),
        "Started": _when(started),
        "Ended": _when(ended),
        "Duration": lasted,
        "Labels": ", ".join(f"{key}={value}" for key, value in known.description.labels.items()),
        "Cost at list prices": _cost(known),
    }
    return [(name, value) for name, value in rows.items() if value]


def _failure(group: FailureGroup) -> dict[str, Any]:
    return {
        "count": group.count,
        "bytes": group.bytes,
        "operation": group.operation,
        "error_code": group.error_code,
        "cause": steps.split_next_step(group.message)[0],
        "step": steps.PAGE_OF_GROUP.step(steps.step_code(group)),
        "keys": group.keys[:_KEYS],
        "more": group.count - min(len(group.keys), _KEYS),
    }


def _acts(known: TransferRecord) -> Iterator[dict[str, str | None]]:
    limits = dict[str, Any]({"priority": 0})
    for one in known.events:
        words = event_text(one["kind"], one["data"], limits)
        if one["kind"] == "submitted" and isinstance(sealed := one["data"].get(sealed_row.SEALED), dict):
            limits |= {name: sealed[name] for name in ADJUSTABLE if name in sealed}
        if one["kind"] == "adjusted":
            limits = one["data"]
        yield {"when": _when(_microseconds_of(one["at"])), "who": _person(one["actor"]), "what": words}


def _row(one: dict[str, Any]) -> dict[str, Any]:
    """An object, with what its row shows beside its columns."""
    return one | {
        "renamed": _last(one["source_key"]) != _last(one["target_key"]),
        "lacks": ", ".join(json.loads(one["not_carried"])) if one["not_carried"] else None,
        "sum": f"{one['checksum_algorithm'] or ''} {one['checksum'] or ''}".strip(),
        "ended": (one["ended_at"] or "")[:19].replace("T", " "),
    }


# --- words ------------------------------------------------------------------------------------------------------------


def _cost(known: TransferRecord) -> str | None:
    """The cost of the counted requests on AWS, at most; None where they have no price."""
    if known.cost is None:
        return None
    cost = known.cost.cost
    egress = f"; up to ${cost.egress:,.2f} for traffic out of AWS" if cost.egress else ""
    most = math.ceil(cost.requests * 10_000) / 10_000
    return (
        f"at most ${most:,.4f} for {known.cost.requests:,} requests, {cost.region}{egress} "
        f"(DataSync asks ${cost.datasync_enhanced:,.2f}, in Basic mode ${cost.datasync_basic:,.2f})"
    )


def _record_text(known: TransferRecord) -> str:
    if known.findings:
        return f"NOT as it was written: {len(known.findings):,} findings (seqferry audit verify {known.facts['id']})"
    if known.key_id is None:
        return "as it was written, as far as shows without a key: only accidental changes do"
    return f"as it was written, by the signatures of the key {known.key_id}"


def _person(actor: str) -> str:
    """A person, program or process as the record names it, as text."""
    if not actor.startswith("http "):
        return actor or "the worker"
    # ``http NAME from ADDRESS``: the name of the token, which may be missing.
    name, _, address = actor.removeprefix("http ").rpartition("from ")
    return f"{name.strip() or 'a client without a token'} (over HTTP from {address})" if address else actor


def _when(microseconds: int | None) -> str | None:
    """A time of this machine's zone, with that of UTC."""
    if microseconds is None:
        return None
    at = datetime.fromtimestamp(microseconds / 1e6, UTC)
    here = at.astimezone()
    utc = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    if not here.utcoffset():
        return utc
    return f"{here:%d %b %Y %H:%M:%S} {here.tzname()} ({utc})"


def _microseconds_of(written: str | None) -> int | None:
    """The time that a text of a record (RFC 3339) says."""
    return None if written is None else round(datetime.fromisoformat(written).timestamp() * 1e6)


def _last(key: str) -> str:
    return key.rpartition("/")[2]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
        yield from _flat(inner, f"{name}.{key}" if name else str(key))  # pyright: ignore[reportUnknownArgumentType]
