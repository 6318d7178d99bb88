"""Which storage a place is in: the endpoint that requests to it go to, as the engine finds it, in one spelling.

An option comes first, then the environment, then the profile (its ``services`` section before itself), as for all AWS
tools.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final

from seqferry.models import Location

_AWS: Final = ".amazonaws.com"
_AWS_APART: Final = {".amazonaws.com.cn": "aws-cn", ".us-gov-": "aws-us-gov"}
"""Parts of AWS that have buckets of their own, by what the names of their hosts hold."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


def of(place: Location) -> str | None:
    """What tells endpoints apart: the URL in one spelling; None for AWS, whichever address leads there."""
    url = place.endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not url:
        home = Path("~/.aws").expanduser()
        config = os.environ.get("AWS_CONFIG_FILE") or f"{home}/config"
        credentials = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/credentials"
        url = _of_profile(config, credentials, place.profile or os.environ.get("AWS_PROFILE") or "default")
    return _normal(url) if url else None


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


@cache
def _of_profile(config: str, credentials: str, profile: str) -> str | None:
    """What the files of the AWS tools say of a profile. They are read once: the engine does not look again either."""
    # For the few who need it.
    from configparser import Error, RawConfigParser

    def sections(path: str) -> RawConfigParser:
        found = RawConfigParser(
            default_section="", strict=False, allow_no_value=True, inline_comment_prefixes=(" #", " ;")
        )
        try:
            found.read(path, encoding="utf-8")
        except (Error, UnicodeDecodeError, OSError):
            # Whoever uses the file says what is wrong with it.
            return RawConfigParser()
        return found

    settings = sections(config)
    for named in (f"profile {profile}", profile):
        services = settings.get(named, "services", fallback=None)
        nested = settings.get(f"services {services}", "s3", fallback=None) or ""
        for line in nested.splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "endpoint_url" and value.strip():
                return value.strip()
        if url := settings.get(named, "endpoint_url", fallback=None):
            return url
    return sections(credentials).get(profile, "endpoint_url", fallback=None)
