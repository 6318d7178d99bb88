"""Which storage a place is in: the endpoint that requests to it go to, as the engine finds it, in one spelling.

An option comes first, then the environment, then the profile (its ``services`` section before itself), as for all AWS
tools. A place whose access was resolved has its endpoint, whatever the environment says now.
"""

from __future__ import annotations

import os
from typing import Final

from seqferry import profiles
from seqferry.models import S3Location

_AWS: Final = ".amazonaws.com"
_AWS_APART: Final = {".amazonaws.com.cn": "aws-cn", ".us-gov-": "aws-us-gov"}
"""Parts of AWS that have buckets of their own, by what the names of their hosts hold."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


def of(place: S3Location) -> str | None:
    """What tells endpoints apart: the URL in one spelling; None for AWS, whichever address leads there."""
    found = url(place)
    return _normal(found) if found else None


def url(place: S3Location) -> str | None:
    """The URL that requests to this place go to; None for AWS itself."""
    if place.endpoint_url or place.access is not None:
        return place.endpoint_url
    of_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return of_environment or profiles.endpoint_url(place.profile or os.environ.get("AWS_PROFILE") or "default")


def _normal(url: str) -> str | None:
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    scheme, host = scheme.lower(), host.lower()
    host = host.removesuffix(":443" if scheme == "https" else ":80")
    name = host.partition(":")[0]
    if name.endswith((_AWS, f"{_AWS}.cn")):
        return next((apart for part, apart in _AWS_APART.items() if part in name), None)
    for name in _LOOPBACK:
        if host == name or host.startswith(f"{name}:"):
            host = _LOOPBACK[0] + host.removeprefix(name)
    return f"{scheme}://{host}/{path.rstrip('/')}".rstrip("/")
