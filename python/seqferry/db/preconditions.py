"""Preconditions of a PostgreSQL database, before tables are created or changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seqferry.db.database import Database
from seqferry.db.tables import complete
from seqferry.model.errors import ConfigError

if TYPE_CHECKING:
    from seqferry.db.migrate import QueueTables


def require_rights(database: Database, version_table: str, queue_schema: str) -> None:
    """Check that the user may create or change all tables, before the first change.

    Raises:
        ConfigError: it may not, or the search_path of the user names no existing schema.
    """
    with database.read() as connection:
        schema = connection.execute(sa.select(sa.func.current_schema())).scalar()
        if schema is None:
            raise ConfigError(
                f"The tables of the database {database.label} cannot be made: the search_path of its user names no "
                "existing schema. Set it with `ALTER ROLE ... SET search_path = public`; nothing was changed."
            )
        found = connection.execute(_RIGHTS, {"table": version_table, "queue": queue_schema}).one()
    wanted = ("CREATE on the database", f"CREATE on the schema {schema}", "the rights of the owner of the tables")
    lacks = [right for right, is_there in zip(wanted, found, strict=True) if not is_there]
    if lacks:
        raise ConfigError(
            f"The tables of the database {database.label} cannot be made: its user lacks {', '.join(lacks)}. Make it "
            "the owner of the database and of its tables; nothing was changed."
        )


_RIGHTS: Final = sa.text("""
    select
        has_database_privilege(current_database(), 'CREATE')
            or coalesce(has_schema_privilege(to_regnamespace(:queue), 'CREATE'), false),
        has_schema_privilege(current_schema(), 'CREATE'),
        coalesce((select pg_has_role(relowner, 'USAGE') from pg_class where oid = to_regclass(:table)), true)
""")


def require_vacancy(database: Database, version_table: str, queue: QueueTables) -> None:
    """Check that a database without our tables holds none of another product, nor ours in another schema.

    Two sets of tables over one queue would give the work of one fleet to the workers of the other.

    Raises:
        ConfigError: it does.
    """
    with database.read() as connection:
        elsewhere = connection.execute(_ELSEWHERE, {"table": version_table}).scalar()
        names = sorted({table.name for table in complete().tables.values()})
        taken = connection.execute(_TAKEN, {"names": names}).scalars().all()
        in_use = queue.has_workflows(connection)
    if elsewhere is not None:
        raise ConfigError(
            f"The tables of the database {database.label} are in its schema {elsewhere}, which the search_path of this "
            f"user does not name. Set it with `ALTER ROLE ... SET search_path = {elsewhere}`; nothing was changed."
        )
    if taken:
        raise ConfigError(
            f"The database {database.label} has tables of another product by the names {', '.join(taken)}. Give "
            "Seqferry a database of its own in SEQFERRY_DATABASE_URL; nothing was changed."
        )
    if in_use:
        raise ConfigError(
            f"Another application has work in the schema {queue.schema} of the database {database.label}. Give "
            "Seqferry a database of its own in SEQFERRY_DATABASE_URL; nothing was changed."
        )


_ELSEWHERE: Final = sa.text("""
    select nspname from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where relname = :table and relkind = 'r' order by nspname limit 1
""")
_TAKEN: Final = sa.text("""
    select relname from pg_class
    where relnamespace = to_regnamespace(quote_ident(current_schema())) and relname = any(:names) order by relname
""")
