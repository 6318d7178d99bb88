"""Specs get a version, an operation and tagged places.

What was recorded before stays readable (``spec.stored``), so a spec that is not of the known form is left as it is.
Events keep their copy of the spec: it is part of their hashes.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_AT_ONCE = 500
_OF_DISKS = ("symlinks", "empty_directories", "page_cache", "preserve_permissions")
_OF_S3 = ("endpoint_url", "region", "profile", "anonymous", "access")


def upgrade() -> None:
    connection = op.get_bind()
    # An unfinished transfer keeps its form: workers of an earlier version may be at it.
    ended = "ended_at is not null and id > :after"
    page = sa.text(f"select id, spec from transfer where {ended} order by id limit :most")  # noqa: S608 - constants
    change = sa.text("update transfer set spec = :spec where id = :id")
    after = ""
    while rows := connection.execute(page, {"after": after, "most": _AT_ONCE}).all():
        after = rows[-1].id
        changed = [{"id": row.id, "spec": spec} for row in rows if (spec := _tagged(row.spec)) is not None]
        if changed:
            connection.execute(change, changed)


def _tagged(text: str) -> str | None:
    """The spec in its new form; None when it is in another form than expected."""
    try:
        data: Any = json.loads(text)
        if "version" in data:
            return None
        places = {side: _place(data[side]) for side in ("source", "target")}
    except (ValueError, TypeError, KeyError):
        return None
    return json.dumps({"version": 2, "operation": "transfer", **data, **places}, ensure_ascii=False, sort_keys=True)


def _place(place: dict[str, Any]) -> dict[str, Any]:
    if place.get("disk"):
        rest = {name: value for name, value in place.items() if name not in ("disk", "bucket", *_OF_S3)}
        return {"type": "folder", "path": place["bucket"], **rest}
    return {"type": "s3", **{name: value for name, value in place.items() if name not in ("disk", *_OF_DISKS)}}
