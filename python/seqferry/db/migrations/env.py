"""Run by alembic: applies migrations on the connection that the caller put into the config."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from seqferry.db.migrate import VERSION_TABLE
from seqferry.db.tables import complete

connection: sa.Connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=complete(), version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
