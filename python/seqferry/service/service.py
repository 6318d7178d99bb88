"""The verbs of Seqferry for the outside: what CLI and HTTP call. Knows the queue by name only, never the workflows."""

from __future__ import annotations

from seqferry.service.audit_trail import AuditTrail
from seqferry.service.storage import Storage
from seqferry.service.transfers import Transfers


class Service(Transfers, Storage, AuditTrail):
    """One per process, safe to use from many threads."""
