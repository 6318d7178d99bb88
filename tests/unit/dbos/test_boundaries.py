"""No package but ``seqferry.dbos`` knows the tables of DBOS; imports and private attributes are left to lint."""

from __future__ import annotations

import re
from pathlib import Path

from dbos._schemas.system_database import SystemSchema

import seqferry

_OWN = Path(seqferry.__file__).parent
_TABLES = "|".join(table.name for table in SystemSchema.metadata_obj.sorted_tables)
_IN_SQL = re.compile(rf"\bworkflow_(?:status|uuid)\b|\bowner_xid\b|\bdbos\.(?:{_TABLES})\b")


def test_no_other_package_names_a_table_of_dbos() -> None:
    naming = {path.relative_to(_OWN).parts[0] for path in _OWN.rglob("*.py") if _IN_SQL.search(path.read_text())}

    assert naming == {"dbos"}
