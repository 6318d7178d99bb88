"""Amounts as a person reads them: bytes, rates, spans of time, counts."""

from __future__ import annotations

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
