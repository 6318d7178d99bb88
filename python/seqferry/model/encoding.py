"""Text of files that people write, with or without the byte order mark that editors and shells of Windows put first."""

from __future__ import annotations

import codecs
from typing import Final

_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode(data: bytes) -> str:
    """The text without its mark: UTF-8, or UTF-16 where the mark says so.

    Raises:
        UnicodeDecodeError: the bytes are not of that encoding.
    """
    if data.startswith(_UTF_16):
        return data.decode("utf-16")
    return data.removeprefix(codecs.BOM_UTF8).decode()


def decode_loosely(data: bytes) -> str:
    """As ``decode``; bytes that are not of that encoding are taken for ISO-8859-1, in which each is a character."""
    try:
        return decode(data)
    except UnicodeDecodeError:
        return data.removeprefix(codecs.BOM_UTF8).decode("iso-8859-1")
