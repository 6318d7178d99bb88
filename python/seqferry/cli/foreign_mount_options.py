"""Options of mount-s3, rclone mount, goofys, s3fs and fstab for ``mount``, each with what it means here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.foreign_options import NO_EFFECT, VALUE_WITHOUT_EFFECT, Meaning

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


def _modes(value: str) -> list[str]:
    """Permissions of files and folders that a umask leaves.

    Raises:
        UsageError: it is not a umask.
    """
    digits = value.removeprefix("0o")
    if not 1 <= len(digits) <= 4 or not all(digit in "01234567" for digit in digits) or int(digits, 8) > 0o777:
        raise UsageError(f"umask: '{value}' is not a umask; write it in octal, as 0022.")
    taken = int(digits, 8)
    return ["--file-mode", f"{0o666 & ~taken:04o}", "--dir-mode", f"{0o777 & ~taken:04o}"]


MEANINGS: Final[Mapping[str, Meaning]] = {
    # mount-s3
    "--force-path-style": NO_EFFECT,
    "--max-threads": VALUE_WITHOUT_EFFECT,
    "--maximum-throughput-gbps": VALUE_WITHOUT_EFFECT,
    "--part-size": VALUE_WITHOUT_EFFECT,
    "--read-part-size": VALUE_WITHOUT_EFFECT,
    "--write-part-size": VALUE_WITHOUT_EFFECT,
    "--bucket-type": VALUE_WITHOUT_EFFECT,
    "--user-agent-prefix": VALUE_WITHOUT_EFFECT,
    "--upload-checksums": VALUE_WITHOUT_EFFECT,
    "--auto-unmount": NO_EFFECT,
    "--no-log": NO_EFFECT,
    "--requester-pays": Meaning(("--request-payer", "requester")),
    "--max-cache-size": Meaning(("--max-cache-size",), 1, _cache_size),
    # rclone mount
    "--daemon": NO_EFFECT,
    "--daemon-wait": VALUE_WITHOUT_EFFECT,
    "--daemon-timeout": VALUE_WITHOUT_EFFECT,
    "--vfs-cache-mode": VALUE_WITHOUT_EFFECT,
    "--vfs-cache-max-age": VALUE_WITHOUT_EFFECT,
    "--vfs-cache-poll-interval": VALUE_WITHOUT_EFFECT,
    "--vfs-read-ahead": VALUE_WITHOUT_EFFECT,
    "--vfs-read-chunk-size": VALUE_WITHOUT_EFFECT,
    "--vfs-read-chunk-size-limit": VALUE_WITHOUT_EFFECT,
    "--vfs-read-chunk-streams": VALUE_WITHOUT_EFFECT,
    "--buffer-size": VALUE_WITHOUT_EFFECT,
    "--poll-interval": VALUE_WITHOUT_EFFECT,
    "--attr-timeout": VALUE_WITHOUT_EFFECT,
    "--max-read-ahead": VALUE_WITHOUT_EFFECT,
    "--vfs-fast-fingerprint": NO_EFFECT,
    "--no-checksum": NO_EFFECT,
    "--no-modtime": NO_EFFECT,
    "--async-read": NO_EFFECT,
    "--fast-list": NO_EFFECT,
    "--s3-no-check-bucket": NO_EFFECT,
    "-v": NO_EFFECT,
    "-vv": NO_EFFECT,
    "--verbose": NO_EFFECT,
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
    "--type-cache-ttl": VALUE_WITHOUT_EFFECT,
    "--umask": Meaning(values=1, into=_modes),
    # s3fs
    "-s": NO_EFFECT,
}
"""Options of others for ``mount``."""

REFUSALS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("--allow-delete", "--allow-overwrite", "--incremental-upload", "--vfs-write-back"),
        "a mount writes with --read-write and --cache DIR; it then also replaces and removes.",
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
    "read_write": "--read-write",
    "pin": "--pin",
    "bucket_key_enabled": "--bucket-key-enabled",
    "f": "--foreground",
}
_VALUES: Final = {
    "endpoint_url": "--endpoint-url",
    "url": "--endpoint-url",
    "profile": "--profile",
    "region": "--region",
    "endpoint": "--region",  # of s3fs
    "prefix": "--prefix",
    "metadata_ttl": "--metadata-ttl",
    "stale_after": "--metadata-ttl",
    "consistency": "--consistency",
    "uid": "--uid",
    "gid": "--gid",
    "file_mode": "--file-mode",
    "dir_mode": "--dir-mode",
    "directory_mode": "--dir-mode",
    "settle": "--settle",
    "storage_class": "--storage-class",
    "sse": "--sse",
    "sse_kms_key_id": "--sse-kms-key-id",
    "acl": "--acl",
    "max_upload_bandwidth": "--max-upload-bandwidth",
    "free_space": "--free-space",
    "memory": "--memory",
    "cache": "--cache",
    "use_cache": "--cache",  # of s3fs
    "max_cache_size": "--max-cache-size",
    "manifest": "--manifest",
    "max_bandwidth": "--max-bandwidth",
    "max_requests": "--max-requests",
    "state_dir": "--state-dir",
    # of s3fs
    "host": "--endpoint-url",
    "passwd_file": "--passwd-file",
    "stat_cache_expire": "--metadata-ttl",
    "stat_cache_interval_expire": "--metadata-ttl",
}
_LISTS: Final = {
    "ignore": "--ignore",
    "markers": "--markers",
    "upload_window": "--upload-window",
    "grants": "--grants",
    "tags": "--tags",
}
"""Options whose value is a list, within quotation marks where it has commas: ``markers="Run.txt,Copy.txt"``."""

_CERTIFICATES: Final = "connections are always verified; name your certificate with AWS_CA_BUNDLE=FILE"
_TRACE: Final = "SEQFERRY_TRACE=stderr shows each request, SEQFERRY_DEBUG=1 where an error comes from"
_LIST_REFUSALS: Final = {
    "use_sse": "for a writable mount, write sse=AES256, or sse=aws:kms and sse_kms_key_id=KEY",
    "use_rrs": "for a writable mount, write storage_class=NAME",
    **dict.fromkeys(("default_acl", "use_acl"), "for a writable mount, write acl=NAME"),
    **dict.fromkeys(("no_check_certificate", "ssl_verify_hostname", "insecure"), _CERTIFICATES),
    **dict.fromkeys(("dbglevel", "curldbg", "d", "debug"), _TRACE),
    "allow_root": "write allow_other, which is for root as well",
    "mp_umask": "write the permissions of folders: dir_mode=0750",
    "logfile": "messages are in mount.log of the state folder, which state_dir names",
    "bucket": "write the bucket as the source: s3://BUCKET",
    "servicepath": "write it at the end of url",
    "proxy": "set HTTPS_PROXY or HTTP_PROXY",
    "ensure_diskfree": "max_cache_size=SIZE limits the cache",
    "use_session_token": "set AWS_SESSION_TOKEN beside the key, or use a profile (profile=NAME)",
    "load_sse_c": "objects under keys of customers are read by `seqferry cp --sse-c-key`, not by a mount",
    "sigv2": "requests are signed with version 4, which every service of today takes",
    "ibm_iam_auth": "use a key with its secret (HMAC credentials)",
    "ssl_client_cert": "clients show no certificate to a storage",
    "ahbe_conf": "headers cannot be added",
    # of mount(8)
    "remount": "a mount keeps its options; unmount the folder, and mount it with others",
    **dict.fromkeys(
        ("bind", "rbind", "move"),
        "this is for a folder that is mounted: `mount --bind`, or a line of fstab with the type none",
    ),
    **dict.fromkeys(
        ("context", "fscontext", "defcontext", "rootcontext"),
        "files have the SELinux type that the policy gives to FUSE, as fusefs_t; leave it out",
    ),
    **dict.fromkeys(
        ("loop", "offset", "sizelimit", "encryption", "verity"), "this is for images of disks, and a bucket is none"
    ),
}
"""Mount options that have no equal, each with what to do instead."""
_IGNORED: Final = frozenset(
    # of mount(8) for all file systems: who may mount, when, and how the kernel treats what a bucket does not have
    {"ro", "rw", "defaults", "auto", "noauto", "user", "nouser", "users", "nousers", "owner", "noowner", "group"}
    | {"nogroup", "_netdev", "_rnetdev", "nofail", "comment", "helper", "uhelper", "dev", "nodev", "suid", "nosuid"}
    | {"exec", "noexec", "atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime"}
    | {"nostrictatime", "lazytime", "nolazytime", "async", "sync", "dirsync", "silent", "loud", "mand", "nomand"}
    | {"iversion", "noiversion", "symfollow", "nosymfollow", "private", "rprivate", "shared", "rshared", "slave"}
    | {"rslave", "unbindable", "runbindable", "quota", "noquota", "usrquota", "grpquota", "prjquota", "read_only"}
    # of init systems before systemd
    | {"bootwait", "nobootwait", "optional", "showthrough", "hotplug", "pri"}
    | {"force_path_style", "use_path_request_style", "auto_unmount", "default_permissions", "fsname", "subtype"}
    # of s3fs and FUSE: how it works, which is chosen here, and what only writing needs
    | {"iam_role", "ecs", "imdsv1only", "sigv4", "listobjectsv2", "nodnscache", "nosscache", "enable_noobj_cache"}
    | {"disable_noobj_cache", "complement_stat", "compat_dir", "notsup_compat_dir", "enable_content_md5", "del_cache"}
    | {"enable_unsigned_payload", "enable_content_length", "nomultipart", "nocopyapi", "norenameapi", "nomixupload"}
    | {"multipart_size", "multipart_copy_size", "singlepart_copy_limit", "parallel_count", "multireq_max", "retries"}
    | {"connect_timeout", "readwrite_timeout", "list_object_max_keys", "max_stat_cache_size", "max_dirty_data"}
    | {"max_thread_count", "check_cache_dir_exist", "tmpdir", "instance_name", "bucket_size", "mime", "streamupload"}
    | {"use_xattr", "update_parent_dir_stat", "set_check_cache_sigusr1", "kernel_cache", "auto_cache", "big_writes"}
    | {"async_read", "sync_read", "max_read", "max_write", "max_readahead", "max_background", "attr_timeout"}
    | {"entry_timeout", "negative_timeout", "hard_remove", "intr", "large_read", "noforget", "use_ino", "readdir_ino"}
)
"""Mount options without effect: mount(8) and systemd pass them on. It is ``read_write`` that lets write, not ``rw``."""


def translate_list(options: str, *, is_sloppy: bool = False) -> list[str]:
    """Seqferry's options for the list after ``-o``, as ``ro,allow_other,cache=/c``.

    A value within quotation marks may have commas, as in mount(8).

    Args:
        is_sloppy: leave out options that are unknown, as ``mount -s`` asks for.

    Raises:
        UsageError: an option is unknown, or has no equal.
    """
    return [word for option in _split(options) for word in _of_option(option, is_sloppy=is_sloppy)]


def _split(options: str) -> list[str]:
    found = [""]
    is_quoted = False
    for character in options:
        if character == '"':
            is_quoted = not is_quoted
        elif character == "," and not is_quoted:
            found.append("")
        else:
            found[-1] += character
    return [option for option in found if option]


def _of_option(option: str, *, is_sloppy: bool) -> list[str]:
    name, equals, value = option.partition("=")
    name = name.replace("-", "_")
    if name == "umask":
        return _modes(value)
    if name == "public_bucket":
        return ["--no-sign-request"] if value in ("", "1") else []
    if name in _FLAGS:
        return [_FLAGS[name]]
    if name in _VALUES and value:
        return [_VALUES[name], _cache_size(value) if name == "max_cache_size" else value]
    if name in _LISTS and equals:
        return [word for item in value.split(",") for word in (_LISTS[name], item)]
    if name in _IGNORED or name.startswith(("x_", "X_")):
        return []
    if (answered := name.partition(".")[0]) in _LIST_REFUSALS:
        raise UsageError(f"{name}: {_LIST_REFUSALS[answered]}.")
    if is_sloppy:
        return []
    raise UsageError(f"mount does not know the option '{option}' after -o; see `seqferry mount --help`.")


_SHORT: Final = frozenset("sfnvrw")
"""Options of mount(8) for its helpers that take no value: sloppy, fake, without mtab, verbose, read-only, writable."""


def helper_arguments(given: list[str]) -> list[str]:
    """Arguments of ``seqferry`` for those of ``mount.seqferry SOURCE DIR [-sfnv] [-t TYPE] [-o OPTIONS]``.

    Returns:
        none for ``-f``, with which mount(8) does everything but mount.

    Raises:
        UsageError: an option is unknown, or has no equal.
    """
    places: list[str] = []
    lists: list[str] = []
    flags: set[str] = set()
    rest = iter(given)
    for each in rest:
        if not each.startswith("-") or each == "-":
            places.append(each)
        elif each[1] in "otN":
            value = each[2:] or next(rest, "")
            if each[1] == "o":
                lists.append(value)
            elif each[1] == "N":
                raise UsageError(f"-N: enter the namespace first: nsenter --mount={value} mount ...")
        elif set(each[1:]) <= _SHORT:
            flags |= set(each[1:])
        else:
            raise UsageError(f"mount.seqferry does not know the option '{each}'; mount options follow -o.")
    if len(places) != 2:
        raise UsageError("mount.seqferry takes a source and a folder: mount -t seqferry s3://bucket /mnt/bucket")
    arguments = [word for options in lists for word in translate_list(options, is_sloppy="s" in flags)]
    return [] if "f" in flags else ["mount", *arguments, *places]
