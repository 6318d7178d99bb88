"""Notes of the engine about endpoints and settings: each is made once by a process, logged, and kept for the doctor."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from seqferry.db import endpoint_facts
from seqferry.model.errors import ConfigError
from seqferry.model.models import ResolvedSpec
from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.notes")


def log_notes(runtime: Runtime, transfer_id: str, spec: ResolvedSpec, notes: Iterable[str]) -> None:
    """Log notes that came with work for a transfer. The engine does not repeat them, so their taker logs them."""
    for note in notes:
        log.warning("transfer %s: %s", transfer_id, note)
        try:
            endpoint_facts.record_warning(runtime.database, spec, note)
        except ConfigError as why:
            log.warning("what transfer %s learned cannot be kept for seqferry doctor: %s", transfer_id, why.message)
