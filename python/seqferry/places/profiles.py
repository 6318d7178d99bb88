"""Profiles in the files of the AWS tools; the files are read again after a change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from seqferry.model import encoding
from seqferry.places import home

if TYPE_CHECKING:
    from configparser import RawConfigParser

_KEPT: Final = 8
"""Contents of files that are kept: two files, and some versions of them."""


def settings(profile: str) -> Mapping[str, str]:
    """All settings of a profile. The credentials file wins over the configuration file, as in all AWS tools."""
    return {**_section(_config(), f"profile {profile}", profile), **_section(_credentials(), profile)}


def read_shared(kind: str, name: str) -> Mapping[str, str]:
    """Settings of a section that profiles share, as ``sso-session`` and ``services``."""
    return _section(_config(), f"{kind} {name}")


def endpoint_url(profile: str) -> str | None:
    """The endpoint for S3 that a profile names; its ``services`` section comes before the profile itself."""
    found = settings(profile)
    of_services = read_shared("services", found["services"]).get("s3", "") if "services" in found else ""
    return parse_nested(of_services).get("endpoint_url") or found.get("endpoint_url")


def region(profile: str) -> str | None:
    """The region of a profile, or of the nearest one that it takes its credentials from; as the engine finds it."""
    seen = set[str]()
    while profile not in seen:
        seen.add(profile)
        found = settings(profile)
        if "region" in found:
            return found["region"]
        profile = found.get("source_profile", profile)
    return None


def parse_nested(text: str) -> Mapping[str, str]:
    """Settings below another one, as those of ``s3 =`` are, one in each line."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in pairs if value.strip()}


def _section(file: RawConfigParser | None, *names: str) -> dict[str, str]:
    for name in names:
        if file is not None and file.has_section(name):
            return {key: value for key, value in file.items(name) if value}
    return {}


def _config() -> RawConfigParser | None:
    return _read(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")


def _credentials() -> RawConfigParser | None:
    return _read(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")


def _read(name: str) -> RawConfigParser | None:
    try:
        path = home.expand(name, os.environ)
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _parse(str(path), (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(_KEPT)
def _parse(path: str, _version: tuple[int, int, int]) -> RawConfigParser | None:
    # Imported here: most commands find no such file.
    from configparser import Error, RawConfigParser

    file = RawConfigParser(default_section="", strict=False, allow_no_value=True, inline_comment_prefixes=(" #", " ;"))
    try:
        with open(path, "rb") as written:  # noqa: PTH123
            file.read_string(encoding.decode_loosely(written.read()), path)
    except (Error, OSError):
        # The engine reports the fault when it uses the file.
        return None
    return file
