"""Clients of boto3 for tests, made by one session: a session of its own reads the model of S3 again for each client."""

from __future__ import annotations

import functools
import threading
from typing import Any, Final

import boto3
from botocore.config import Config

_LOCK: Final = threading.Lock()
"""Sessions may be used by one thread at a time; the clients that they make by many."""


def new_client(config: Config, **options: Any) -> Any:
    """An S3 client. ``options`` are those of ``Session.client``."""
    with _LOCK:
        return _session().client("s3", config=config, **options)


@functools.cache
def _session() -> Any:
    return boto3.session.Session()
