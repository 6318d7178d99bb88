"""The endpoint of a place, in the engine's one spelling: two places with the same one are in the same storage.

An option comes first, then the environment, then the profile (its ``services`` section before itself), as for all AWS
tools; where AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is true, the option alone counts. A place whose access was resolved has
its endpoint, whatever the environment says now.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Literal, cast
from urllib.parse import urlsplit

from seqferry.model.locations import S3Location
from seqferry.places import profiles

Fault = Literal["credentials", "malformed"]
"""Reason why a text is no address: it may hold credentials and must not be shown, or it is malformed."""


def resolve(place: S3Location) -> str | None:
    """Identity of the endpoint of a place: the URL in one spelling; None for AWS, whichever address leads there."""
    found = url(place)
    return identity(found) if found else None


def url(place: S3Location) -> str | None:
    """The URL that requests to this place go to; None for AWS itself."""
    if place.endpoint_url or place.access is not None:
        return place.endpoint_url
    profile = place.profile or os.environ.get("AWS_PROFILE") or "default"
    ignored = os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") or profiles.settings(profile).get(
        "ignore_configured_endpoint_urls", ""
    )
    if ignored.strip().lower() == "true":
        return None
    of_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return of_environment or profiles.endpoint_url(profile)


def identity(url: str) -> str | None:
    """The URL of an endpoint in one spelling, or a part of AWS with buckets of its own; None for the rest of it."""
    # Imported here, as below: commands that name no place need not wait for the engine.
    from seqferry import _native

    return _native.endpoint_identity(_utf8(url))


def is_open(place: S3Location) -> bool:
    """True when requests leave this machine without TLS."""
    found = urlsplit(url(place) or "https:")
    return found.scheme == "http" and not is_loopback(found.hostname or "")


def is_loopback(host: str) -> bool:
    """True for a host name or address that only programs on this machine reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_fault(url: str) -> Fault | None:
    """Reason why a text is not the URL of an endpoint; None when it is one."""
    from seqferry import _native

    return cast("Fault | None", _native.endpoint_fault(_utf8(url)))


def _utf8(url: str) -> str:
    # Halves of characters stand for bytes that are no UTF-8, which no address has: a question mark is refused alike.
    return url.encode("utf-8", "replace").decode()
