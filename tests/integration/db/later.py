"""A later version of the schema: the initial one with a revision that only tests know."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from seqferry.db import migrate

HEAD: Final = "0101"


@contextmanager
def version() -> Generator[None]:
    """Within it this process is that version."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migrate, "HEAD", HEAD)
        patched.setattr(migrate, "VERSIONS", (*migrate.VERSIONS, Path(__file__).with_name("revisions")))
        yield
