"""Transfers tell from where to where they go in columns of their own, for searches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from seqferry.spec import stored

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_AT_ONCE = 500


def upgrade() -> None:
    for name in ("source_uri", "target_uri"):
        op.add_column("transfer", sa.Column(name, _KEY))
    connection = op.get_bind()
    page = sa.text("select id, spec from transfer where id > :after order by id limit :most")
    change = sa.text("update transfer set source_uri = :source, target_uri = :target where id = :id")
    after = ""
    while rows := connection.execute(page, {"after": after, "most": _AT_ONCE}).all():
        after = rows[-1].id
        shown = [(row.id, stored.read_legible(row.spec)[0]) for row in rows]
        changes = [{"id": each, "source": spec.source.uri, "target": spec.target.uri} for each, spec in shown]
        connection.execute(change, changes)
