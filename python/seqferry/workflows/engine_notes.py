"""Notes of the engine about endpoints and settings: logged once by a process, and stored for ``seqferry doctor``."""

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
    """Log the notes of a job, and store them. The engine does not repeat a note."""
    for note in notes:
        log.warning("transfer %s: %s", transfer_id, note)
        try:
            endpoint_facts.record_warning(runtime.database, spec, note)
        except ConfigError as why:
            log.warning("a note of transfer %s cannot be stored for seqferry doctor: %s", transfer_id, why.message)
