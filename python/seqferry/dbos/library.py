"""The library, with its log filtered. Its import takes longer than the copy of a small object."""

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

from seqferry.dbos.log_filter import quieten_dbos

__all__ = ["DBOS", "DBOSClient", "DBOSPortableJSONSerializer"]

quieten_dbos()
