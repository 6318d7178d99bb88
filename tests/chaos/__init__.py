"""Workers, a database and storages under a schedule of faults; see ``tests/README.md``."""
