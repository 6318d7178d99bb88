"""Merkle trees over rows (RFC 9162): a leaf is ``SHA256(0x00, row)``, a node ``SHA256(0x01, left, right)``."""

from __future__ import annotations

import hashlib
from typing import Final

EMPTY: Final = hashlib.sha256().digest()
"""The root of no leaves."""


def leaf(row: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + row).digest()


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """A tree that grows leaf by leaf and holds one hash for each of its levels."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        size, hashed = self.size, leaf
        while size & 1:
            hashed = node(self._peaks.pop(), hashed)
            size >>= 1
        self._peaks.append(hashed)
        self.size += 1

    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY
        root = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            root = node(peak, root)
        return root
