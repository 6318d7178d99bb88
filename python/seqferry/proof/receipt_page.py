"""The receipt of a transfer as a document: one page of HTML to read, file or print, without script and network.

It begins with what a reader needs: one sentence, totals, what is proven, failures, objects, acts of people. What is for
machines (digest, ledger, options, events as data) comes at its end.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from itertools import islice
from typing import Any, Final

from seqferry.db.record import sealed_row
from seqferry.model import formatting
from seqferry.model.messages import steps
from seqferry.model.messages.events import ADJUSTABLE, VERIFICATIONS, event_text
from seqferry.model.models import ENDED_TRANSFER_STATES, WITH_FAILURES
from seqferry.proof.transfer_record import TransferRecord

OBJECTS_OF_PAGE: Final = 10_000
"""Objects in the table of one page: 5 MB. Browsers open this without delay; a larger transfer has several pages."""

FINDINGS: Final = 100
"""Findings about its own record that a page names; the others are counted."""

_KEYS: Final = 3
"""Keys that are named of each cause of failures."""

_CSS: Final = """
:root{color-scheme:light}
body{font:15px/1.5 system-ui,sans-serif;margin:2.5em auto;max-width:62em;padding:0 1.2em;color:#1d2126;background:#fff}
h1{font-size:1.7em;margin:0 0 .2em}h2{font-size:1.15em;margin:2.2em 0 .6em;border-bottom:2px solid #1d2126}
p.sentence{font-size:1.15em;margin:.4em 0 1.2em}p.note{color:#5b636d;margin:.3em 0}
.state{font-weight:600}.done{color:#00704f}.bad{color:#b3261e}.half{color:#9a4a00}
.changed{background:#fdecea;border-left:4px solid #b3261e;padding:.6em .8em}
table{border-collapse:collapse;width:100%;table-layout:auto}
th{font-weight:600}
th,td{text-align:left;vertical-align:baseline;padding:.3em 1.3em .3em 0;border-bottom:1px solid #d9dde1}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.t{white-space:nowrap}
td,dd{overflow-wrap:anywhere}td.key{min-width:14em}
code,td.key,td.sum{font:12.5px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
tr.failed td{background:#fdecea}thead{display:table-header-group}tr{break-inside:avoid}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25em 1.4em;margin:0}dt{color:#5b636d}dd{margin:0}
details{margin-top:2.2em}summary{font-weight:600;cursor:pointer}
ul{padding-left:1.2em}li{margin:.3em 0}
@media screen and (max-width:40em){body{margin:1.2em auto}
thead{position:absolute;display:block;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table,tr{display:block}tr{border-bottom:1px solid #d9dde1;padding:.4em 0}
td,td.n{display:inline-block;border:0;padding:0 1em 0 0;text-align:left}td.key{min-width:0}
td.key,td.sum,.proof td:last-child,.acts td:last-child{display:block}.proof td:nth-child(3)::after{content:" objects"}
tr.failed{background:#fdecea}dl{display:block}dd{margin:0 0 .5em}}
@media print{body{margin:0;max-width:none;padding:0;font-size:9.5pt}code,td.key,td.sum{font-size:7.5pt}
td.key{min-width:20em}td.key~td:not(.sum){overflow-wrap:break-word}
th,td{padding-right:.8em}h2{break-after:avoid}a{color:inherit}@page{size:A4;margin:14mm}}
"""

POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_CSS.encode()).digest()).decode()}'"
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
    title = _title(known)
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{_CSS}</style></head><body>\n<h1>{_text(title)}</h1>\n"
    )
    yield _render_findings(known) + _sentence(known)
    yield _section("Totals", _facts(_totals(known)))
    yield _section("How the objects were verified", _render_verifications(known))
    if known.failures:
        yield _section("What failed, and why", _failures(known))
    yield _acts(known)
    yield from _objects(known, objects, number)
    yield _section("How to check this document", _facts(_check(known)))
    yield _technical(known)
    yield "</body></html>\n"


def _title(known: TransferRecord) -> str:
    if known.description.name:
        return f"Receipt: {known.description.name}"
    return f"Receipt of {known.spec.source.uri}"


# --- parts ------------------------------------------------------------------------------------------------------------


def _render_findings(known: TransferRecord) -> str:
    if not known.findings:
        return ""
    head = f"The record is NOT as it was written: {formatting.count(len(known.findings), 'finding')}."
    named = "".join(f"<li>{_text(one.message)}" for one in known.findings[:FINDINGS])
    return f'<div class="changed"><b>{_text(head)}</b><ul>{named}</ul></div>\n'


def _sentence(known: TransferRecord) -> str:
    facts, totals = known.facts, known.facts["totals"]
    kind = known.spec.kind
    arrived = totals["done"] + totals["skipped"]
    places = f"from <code>{_text(known.spec.source.uri)}</code>"
    if not kind.at_one_place:
        places += f" to <code>{_text(known.spec.target.uri)}</code>"
    if facts["state"] not in ENDED_TRANSFER_STATES:
        words, css, when = f"has not ended ({facts['state']})", "half", ""
    else:
        words, css = STATES.get(facts["state"], (facts["state"], "half"))
        words, when = f"is {words}", f" It ended on {_when(facts['ended_at'])}."
    what = f"{kind.noun} of {formatting.count(totals['objects'], 'object')}"
    return (
        f'<p class="sentence">This {what} {places}, requested by {_text(_person(facts["created_by"]))}, '
        f'<span class="state {css}">{_text(words)}</span>: {arrived:,} of {totals["objects"]:,} objects '
        f"({formatting.size(totals['bytes_done'])}).{when}</p>\n"
        + (f'<p class="bad">{_text(steps.page_text(facts["error_message"]))}</p>\n' if facts["error_message"] else "")
    )


def _totals(known: TransferRecord) -> dict[str, str | None]:
    facts, totals = known.facts, known.facts["totals"]
    done = known.spec.kind.done
    counts = {done: "done", "skipped, there already": "skipped", "failed": "failed", "cancelled": "cancelled"}
    counted = ", ".join(f"{totals[name]:,} {words}" for words, name in counts.items() if totals[name])
    started, ended = facts["started_at"], facts["ended_at"]
    lasted = formatting.duration((ended - started) / 1e6) if started is not None and ended is not None else None
    return {
        "Objects": _text(f"{totals['objects']:,}" + (f": {counted}" if counted else "")),
        "Bytes": _text(f"{totals['bytes']:,} ({formatting.size(totals['bytes'])})"),
        "Requested": _when(facts["created_at"]),
        "Started": _when(started),
        "Ended": _when(ended),
        "Duration": _text(lasted),
        "Labels": _text(", ".join(f"{key}={value}" for key, value in known.description.labels.items())),
        "Cost at list prices": _text(_cost(known)),
    }


def _render_verifications(known: TransferRecord) -> str:
    rows = [one for one in known.verifications if one.state in ("done", "skipped")]
    if not rows:
        return '<p class="note">No object has arrived.</p>\n'
    body = "".join(
        f'<tr><td class="t">{_text(one.verified)}<td class="t">'
        f"{'arrived' if one.state == 'done' else 'there already'}"
        f'<td class="n">{one.objects:,}<td class="n">{formatting.size(one.bytes)}'
        f"<td>{_text(VERIFICATIONS.get(one.verified, ''))}</tr>\n"
        for one in rows
    )
    head = '<tr><th>Verified by<th>Object<th class="n">Objects<th class="n">Bytes<th>What that proves</tr>'
    lacks = sum(one.not_carried for one in rows)
    note = f'<p class="note">{formatting.count(lacks, "object")} without something of the source, as tags.</p>\n'
    return f'<table class="proof"><thead>{head}</thead>\n{body}</table>\n{note if lacks else ""}'


def _failures(known: TransferRecord) -> str:
    found = ""
    for group in known.failures:
        more = group.count - min(len(group.keys), _KEYS)
        keys = ", ".join(f"<code>{_text(key)}</code>" for key in group.keys[:_KEYS])
        found += (
            f"<li><b>{formatting.count(group.count, 'object')}, {formatting.size(group.bytes)}: "
            f"{_text(group.operation)} {_text(group.error_code)}</b>"
            f"<br>{_text(steps.split_next_step(group.message)[0])}<br><i>Next step:</i> "
            f"{_text(steps.PAGE_OF_GROUP.step(steps.step_code(group)))}"
            f"<br>{keys}{f' and {more:,} more' if more else ''}\n"
        )
    return f"<ul>{found}</ul>\n"


def _acts(known: TransferRecord) -> str:
    rows, limits = "", dict[str, Any]({"priority": 0})
    for one in known.events:
        words = event_text(one["kind"], one["data"], limits)
        if one["kind"] == "submitted" and isinstance(sealed := one["data"].get(sealed_row.SEALED), dict):
            limits |= {name: sealed[name] for name in ADJUSTABLE if name in sealed}
        if one["kind"] == "adjusted":
            limits = one["data"]
        rows += (
            f'<tr><td class="t">{_when(_microseconds_of(one["at"]))}<td>{_text(_person(one["actor"]))}'
            f"<td>{_text(words)}</tr>\n"
        )
    return _section(
        "What was done, and by whom",
        f'<table class="acts"><thead><tr><th>When<th>Who<th>What</tr></thead>{rows}</table>',
    )


def _objects(known: TransferRecord, objects: Iterator[dict[str, Any]], number: int) -> Iterator[str]:
    total = known.facts["totals"]["objects"]
    first = (number - 1) * OBJECTS_OF_PAGE
    pages = max(1, math.ceil(total / OBJECTS_OF_PAGE))
    yield "<h2>Objects</h2>\n"
    if known.pruned_at is not None:
        yield '<p class="note">The list of objects was removed from the records; the digest below covers it.</p>\n'
    if pages > 1:
        last = min(first + OBJECTS_OF_PAGE, total)
        line = f"Objects {first + 1:,} to {last:,} of {total:,}: page {number:,} of {pages:,}. "
        how = f"seqferry report {known.facts['id']} --format html --page N; all in one table: --format csv"
        yield f'<p class="note">{_text(line)}Other pages: <code>{_text(how)}</code></p>\n'
    yield (
        '<table><thead><tr><th>Key<th class="n">Size<th>Result<th>Verified by<th>Checksum<th>Ended (UTC)</tr></thead>\n'
    )
    for one in islice(objects, OBJECTS_OF_PAGE):
        yield _row(one)
    yield "</table>\n"


def _row(one: dict[str, Any]) -> str:
    failed = one["state"] == "failed"
    key, target = one["source_key"], one["target_key"]
    name = _text(key) if _last(key) == _last(target) else f"{_text(key)} → {_text(target)}"
    checksum = f"{one['checksum_algorithm'] or ''} {one['checksum'] or ''}".strip()
    result = _text(one["state"])
    if failed:
        result += f": {_text(one['error_code'])}"
    if one["written_by"] is not None:
        result += f"<br>written by {_text(one['written_by'])}"
    if one["not_carried"]:
        result += f"<br>without {_text(', '.join(json.loads(one['not_carried'])))}"
    ended = (one["ended_at"] or "")[:19].replace("T", " ")
    return (
        f'<tr{" class=failed" if failed else ""}><td class="key">{name}<td class="n">{formatting.size(one["size"])}'
        f'<td>{result}<td class="t">{_text(one["verified"])}<td class="sum">{_text(checksum)}'
        f'<td class="t">{ended}</tr>\n'
    )


def _check(known: TransferRecord) -> dict[str, str | None]:
    facts = known.facts
    entries = ", ".join(f"{one['number']} ({one['kind']})" for one in known.entries)
    software = facts["software"]
    return {
        "Record": _text(_record_text(known)),
        "Transfer": f"<code>{_text(facts['id'])}</code>",
        "Digest of the receipt": f"<code>{_text(known.digest or 'none yet')}</code> (SHA-256)",
        "Entries of the ledger": _text(entries),
        "Head of the ledger": f"<code>{_text(known.head)}</code>",
        "To check the record": f"<code>seqferry audit verify {_text(facts['id'])} --head {_text(known.head)}</code>",
        "To check the objects": f"<code>seqferry verify {_text(facts['id'])} --content</code>",
        "Software": _text(f"Seqferry {software['version']}, build {software['build']}"),
        "Written": _when(round(known.made_at * 1e6)),
    }


def _technical(known: TransferRecord) -> str:
    options = "".join(
        f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>\n"
        for name, value in _flat(known.facts["spec"])
        if value not in (None, "")
    )
    events = "".join(
        f"<tr><td>{one['number']}<td>{_text(one['at'])}<td>{_text(one['kind'])}<td>{_text(one['actor'])}"
        f"<td><code>{_text(json.dumps(one['data'], ensure_ascii=False))}</code></tr>\n"
        for one in known.events
    )
    head = "<tr><th>Number<th>At<th>Event<th>Actor<th>Data</tr>"
    return (
        "<details><summary>Options as they are recorded</summary>\n"
        f"<dl>{options}</dl></details>\n<details><summary>Events as they are recorded</summary>\n"
        f"<table><thead>{head}</thead>\n{events}</table></details>\n"
    )


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
    return f"{here:%d %b %Y %H:%M:%S} {_text(here.tzname())} ({utc})"


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


def _section(title: str, body: str) -> str:
    return f"<h2>{_text(title)}</h2>\n{body}"


def _facts(facts: dict[str, str | None]) -> str:
    """Facts by name; the values are HTML."""
    rows: Iterable[str] = (f"<dt>{_text(name)}</dt><dd>{value}</dd>\n" for name, value in facts.items() if value)
    return f"<dl>{''.join(rows)}</dl>\n"


def _text(value: Any) -> str:
    return "" if value is None else escape(formatting.printable(str(value)))
