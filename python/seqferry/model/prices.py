"""List prices of AWS S3 in us-east-1, US dollars, for rough figures before the start.

Requests: S3 Standard, July 2024. Traffic: out to the internet, first 10 TB of a month, September 2024; in is free, and
so is all between S3 and machines in its region. Real bills differ by region, class and agreement.
"""

from __future__ import annotations

from typing import Final

GB: Final = 10**9
PER_WRITE: Final = 0.005 / 1000
"""PUT, POST, COPY and LIST; deletions are free."""
PER_READ: Final = 0.0004 / 1000
PER_GB_OUT: Final = 0.09
