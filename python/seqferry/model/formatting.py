"""Amounts formatted for people, and names with control characters escaped."""

from __future__ import annotations

import unicodedata
from typing import Final

_IEC: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(count: float) -> str:
    """Bytes in IEC units: ``17 B``, ``1.4 GiB``."""
    if count < 1024:
        return f"{int(count)} B"
    value = float(count)
    for unit in _IEC:
        value /= 1024
        # 1023.95 would round to "1024.0".
        if value < 1023.95:
            return f"{value:.1f} {unit}"
    return f"{value:.1f} {_IEC[-1]}"


def rate(bytes_per_second: float) -> str:
    return f"{size(bytes_per_second)}/s"


def duration(seconds: float) -> str:
    """``4.2 s``, ``3 min 07 s``, ``2 h 05 min``, ``3 d 04 h``."""
    seconds = max(seconds, 0.0)
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02d} h"


def count(number: int, noun: str) -> str:
    """``1 object``, ``1,204 objects``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, format and direction marks, lone surrogates, private and unassigned code points, line separators."""


def printable(text: str) -> str:
    """``text`` on one line, without anything a terminal would act upon.

    Unsafe characters are written as ``\\n``, ``\\x1b`` or ``\\u202e``. Plain text, accents and CJK stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(character, first=index == 0) for index, character in enumerate(text))


def _escape(character: str, *, first: bool) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    category = unicodedata.category(character)
    # A combining mark in front would hang on to whatever was printed before the name.
    if category not in _UNSAFE_CATEGORIES and not (first and category in {"Mn", "Me"}):
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
