"""Options of mount-s3, rclone mount, goofys, s3fs and fstab for ``mount``, each with what it means here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from seqferry.cli.words import Meaning
from seqferry.model.errors import UsageError

_NO_EFFECT: Final = Meaning()
_VALUE_WITHOUT_EFFECT: Final = Meaning(values=1)

_LARGEST_IN_MEBIBYTES: Final = 1 << 20
"""mount-s3 writes the size of a cache as a number of MiB. As bytes, numbers below this are too small for a cache."""


def _cache_size(value: str) -> str:
    if value.isdigit() and 0 < int(value) < _LARGEST_IN_MEBIBYTES:
        return f"{value}MiB"
    return f"{value}iB" if value[-1:] in "kKMGTP" and value[:-1].isdigit() else value


_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _seconds(value: str) -> str:
    """The seconds of a time of rclone or goofys, such as 5m or 1h30m."""
    total, rest = 0.0, value
    while rest:
        number = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        unit = rest[len(number) : len(rest) - len(rest[len(number) :].lstrip("smhd"))]
        if not number or unit not in _UNITS:
            return value
        total += float(number) * _UNITS[unit]
        rest = rest[len(number) + len(unit) :]
    return f"{total:g}" if value else value


MEANINGS: Final[Mapping[str, Meaning]] = {
    # mount-s3
    "--force-path-style": _NO_EFFECT,
    "--max-threads": _VALUE_WITHOUT_EFFECT,
    "--maximum-throughput-gbps": _VALUE_WITHOUT_EFFECT,
    "--part-size": _VALUE_WITHOUT_EFFECT,
    "--read-part-size": _VALUE_WITHOUT_EFFECT,
    "--write-part-size": _VALUE_WITHOUT_EFFECT,
    "--bucket-type": _VALUE_WITHOUT_EFFECT,
    "--user-agent-prefix": _VALUE_WITHOUT_EFFECT,
    "--upload-checksums": _VALUE_WITHOUT_EFFECT,
    "--auto-unmount": _NO_EFFECT,
    "--no-log": _NO_EFFECT,
    "--requester-pays": Meaning(("--request-payer", "requester")),
    "--max-cache-size": Meaning(("--max-cache-size",), 1, _cache_size),
    # rclone mount
    "--daemon": _NO_EFFECT,
    "--daemon-wait": _VALUE_WITHOUT_EFFECT,
    "--daemon-timeout": _VALUE_WITHOUT_EFFECT,
    "--vfs-cache-mode": _VALUE_WITHOUT_EFFECT,
    "--vfs-cache-max-age": _VALUE_WITHOUT_EFFECT,
    "--vfs-cache-poll-interval": _VALUE_WITHOUT_EFFECT,
    "--vfs-read-ahead": _VALUE_WITHOUT_EFFECT,
    "--vfs-read-chunk-size": _VALUE_WITHOUT_EFFECT,
    "--vfs-read-chunk-size-limit": _VALUE_WITHOUT_EFFECT,
    "--vfs-read-chunk-streams": _VALUE_WITHOUT_EFFECT,
    "--buffer-size": _VALUE_WITHOUT_EFFECT,
    "--poll-interval": _VALUE_WITHOUT_EFFECT,
    "--attr-timeout": _VALUE_WITHOUT_EFFECT,
    "--max-read-ahead": _VALUE_WITHOUT_EFFECT,
    "--vfs-fast-fingerprint": _NO_EFFECT,
    "--no-checksum": _NO_EFFECT,
    "--no-modtime": _NO_EFFECT,
    "--async-read": _NO_EFFECT,
    "--fast-list": _NO_EFFECT,
    "--s3-no-check-bucket": _NO_EFFECT,
    "-v": _NO_EFFECT,
    "-vv": _NO_EFFECT,
    "--verbose": _NO_EFFECT,
    "--vfs-cache-max-size": Meaning(("--max-cache-size",), 1, _cache_size),
    "--cache-dir": Meaning(("--cache",), 1),
    "--dir-cache-time": Meaning(("--metadata-ttl",), 1, _seconds),
    "--file-perms": Meaning(("--file-mode",), 1),
    "--dir-perms": Meaning(("--dir-mode",), 1),
    "--bwlimit": Meaning(("--max-bandwidth",), 1),
    "--transfers": Meaning(("--max-requests",), 1),
    "--s3-endpoint": Meaning(("--endpoint-url",), 1),
    "--s3-region": Meaning(("--region",), 1),
    # goofys, geesefs
    "--endpoint": Meaning(("--endpoint-url",), 1),
    "--stat-cache-ttl": Meaning(("--metadata-ttl",), 1, _seconds),
    "--type-cache-ttl": _VALUE_WITHOUT_EFFECT,
}
"""Options of others for ``mount``."""

ANSWERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("--allow-delete", "--allow-overwrite", "--incremental-upload", "--vfs-write-back"),
        "the mount never writes; put files there with seqferry cp.",
    ),
    **dict.fromkeys(
        ("--sse", "--sse-kms-key-id", "--storage-class"), "the mount never writes, and reads need no such option."
    ),
    "--allow-root": "write --allow-other, which is for root as well.",
    "--negative-metadata-ttl": "--metadata-ttl holds for names that are not there as well.",
    "--expected-bucket-owner": "the owner of a bucket is not checked.",
    "--transfer-acceleration": "set use_accelerate_endpoint = true below s3 = in a profile.",
    "--dual-stack": "set AWS_USE_DUALSTACK_ENDPOINT=true.",
    "--bind": "connections take the routes of this machine.",
    "--cache-xz": "a cache is a folder of a local disk: --cache DIR.",
    "--log-directory": "messages are in mount.log of the state folder, which --state-dir names.",
    "-l": "messages are in mount.log of the state folder, which --state-dir names.",
    "--log-metrics": "seqferry mounts --json shows them.",
    "-d": "SEQFERRY_TRACE=stderr shows each request, SEQFERRY_DEBUG=1 where an error comes from.",
    "--debug-crt": "SEQFERRY_TRACE=stderr shows each request, SEQFERRY_DEBUG=1 where an error comes from.",
    "--umask": "write the permissions: --file-mode 0640 --dir-mode 0750.",
}
"""Options of others for ``mount`` that have no equal, each with what to do instead."""

_FLAGS: Final = {
    "allow_other": "--allow-other",
    "allow_non_empty": "--allow-non-empty",
    "nonempty": "--allow-non-empty",
    "unsigned": "--no-sign-request",
    "no_sign_request": "--no-sign-request",
    "requester_pays": "--request-payer=requester",
    "foreground": "--foreground",
    "pin": "--pin",
}
_VALUES: Final = {
    "endpoint_url": "--endpoint-url",
    "url": "--endpoint-url",
    "profile": "--profile",
    "region": "--region",
    "endpoint": "--region",  # of s3fs
    "prefix": "--prefix",
    "metadata_ttl": "--metadata-ttl",
    "consistency": "--consistency",
    "uid": "--uid",
    "gid": "--gid",
    "file_mode": "--file-mode",
    "dir_mode": "--dir-mode",
    "memory": "--memory",
    "cache": "--cache",
    "use_cache": "--cache",  # of s3fs
    "max_cache_size": "--max-cache-size",
    "manifest": "--manifest",
    "max_bandwidth": "--max-bandwidth",
    "max_requests": "--max-requests",
    "state_dir": "--state-dir",
}
_IGNORED: Final = frozenset(
    {"ro", "rw", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "_netdev", "nofail", "dev", "nodev"}
    | {"suid", "nosuid", "exec", "noexec", "atime", "noatime", "relatime", "async", "sync", "read_only"}
    | {"force_path_style", "use_path_request_style", "auto_unmount", "default_permissions", "fsname", "subtype"}
)
"""Mount options without effect: mount(8) and systemd pass them on. The mount is read-only also with ``rw``."""


def of_list(options: str) -> list[str]:
    """Our options for the list that follows ``-o``, as ``ro,allow_other,cache=/c``.

    Raises:
        UsageError: an option is unknown.
    """
    return [word for option in filter(None, options.split(",")) for word in _of_option(option)]


def _of_option(option: str) -> list[str]:
    name, _, value = option.partition("=")
    name = name.replace("-", "_")
    if name in _FLAGS:
        return [_FLAGS[name]]
    if name in _VALUES and value:
        return [_VALUES[name], _cache_size(value) if name == "max_cache_size" else value]
    if name in _IGNORED or name.startswith("x_"):
        return []
    raise UsageError(f"mount does not know the option '{option}' after -o; see `seqferry mount --help`.")


def helper_arguments(given: list[str]) -> list[str]:
    """Arguments of ``seqferry`` for those of ``mount.seqferry SOURCE DIR [-sfnv] [-o OPTIONS]``.

    Raises:
        UsageError: an option is unknown.
    """
    places: list[str] = []
    arguments: list[str] = []
    rest = iter(given)
    for each in rest:
        if each == "-o":
            arguments += of_list(next(rest, ""))
        elif each.startswith("-"):
            continue  # sloppy, fake, no mtab, verbose: nothing to do
        else:
            places.append(each)
    if len(places) != 2:
        raise UsageError("mount.seqferry takes a source and a folder: mount -t seqferry s3://bucket /mnt/bucket")
    return ["mount", *arguments, *places]
