"""Seqferry moves sequencing data between S3 buckets: fast, durable, observable, provable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqferry.client import Client, ClientError

__all__ = ["Client", "ClientError"]


def __getattr__(name: str) -> Any:
    # Imported on first use: no command needs it.
    if name in __all__:
        from seqferry import client

        return getattr(client, name)
    raise AttributeError(f"module 'seqferry' has no attribute '{name}'")
