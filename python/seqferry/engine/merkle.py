"""Merkle trees over rows of the record, hashed as JSON by the native module."""

from __future__ import annotations

from seqferry._native import MerkleTree

__all__ = ["MerkleTree"]
