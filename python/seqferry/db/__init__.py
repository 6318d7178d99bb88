"""The store of record: tables, migrations and queries, on SQLite or Postgres."""
