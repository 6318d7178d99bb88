"""The words of ``aws s3``, s5cmd, rclone and cp that ``foreign_commands`` translates, each with what it means here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from seqferry.model.errors import UsageError

VERBS: Final = {
    "copy": ("cp",),
    "copyto": ("cp",),
    "get": ("cp",),
    "put": ("cp",),
    "upload": ("cp",),
    "download": ("cp",),
    "move": ("mv",),
    "moveto": ("mv",),
    "rename": ("mv",),
    "del": ("rm",),
    "remove": ("rm",),
    "deletefile": ("rm",),
    "delete": ("rm", "--recursive"),
    "purge": ("rm", "--recursive"),
    "mkdir": ("mb",),
    "rmdir": ("rb",),
    "list": ("ls",),
    "lsf": ("ls",),
    "lsl": ("ls", "--recursive"),
    "lsd": ("ls",),
    "size": ("du",),
    "stat": ("head",),
    "link": ("presign",),
    "mount-s3": ("mount",),
    "s3fs": ("mount",),
    "goofys": ("mount",),
    "unmount": ("umount",),
    "version": ("--version",),
}
"""Verbs of others, each with what it means here."""

VERB_REFUSALS: Final = {
    "md5sum": "seqferry head URI shows as md5 what cp --md5 has stored; else the ETag of an object in one part is its "
    "MD5. To compare two places: seqferry check.",
    "hashsum": "seqferry head URI shows the checksum of an object; to compare two places: seqferry check.",
    "sha1sum": "seqferry head URI shows the checksum of an object; to compare two places: seqferry check.",
    "touch": "there are no empty files to be made; write: seqferry cp - s3://bucket/key </dev/null",
    "tree": "seqferry ls -r URI shows all keys below.",
    "ncdu": "seqferry du URI shows objects and bytes by storage class.",
    "rmdirs": "prefixes are gone with their last object; there are no empty ones to remove.",
    "bisync": "seqferry sync goes one way; run it for each direction, without --delete.",
    "website": "seqferry does not configure buckets; use the tool of your storage.",
    "select": "seqferry reads no content; copy the object and use a tool for its format.",
}
"""Verbs that have no equal, each with what to do instead."""

COPY_VERBS: Final = frozenset({"cp", "sync", "mv", "check"})
LIST_VERBS: Final = frozenset({"ls", "du"})
TRANSLATED_VERBS: Final = COPY_VERBS | LIST_VERBS | {"rm", "mb", "rb", "presign", "head", "cat", "cleanup", "mount"}
"""Verbs whose options are translated."""


class Meaning(NamedTuple):
    """An option of others.

    Attributes:
        ours: our options for it; empty where Seqferry does it by default.
        values: how many values it takes.
        of_value: its value in our form; None to take it as it is.
        into: our options and their values for its value, where they are more than one, or where only some values have
            an equal.
    """

    ours: tuple[str, ...] = ()
    values: int = 0
    of_value: Callable[[str], str] | None = None
    into: Callable[[str], list[str]] | None = None


_NO_EFFECT: Final = Meaning()
_VALUE_WITHOUT_EFFECT: Final = Meaning(values=1)

GLOBAL: Final[Mapping[str, Meaning]] = {
    "--output": _VALUE_WITHOUT_EFFECT,
    "--query": _VALUE_WITHOUT_EFFECT,
    "--color": _VALUE_WITHOUT_EFFECT,
    "--no-paginate": _NO_EFFECT,
    "--no-cli-pager": _NO_EFFECT,
    "--no-cli-auto-prompt": _NO_EFFECT,
    "--cli-read-timeout": _VALUE_WITHOUT_EFFECT,
    "--cli-connect-timeout": _VALUE_WITHOUT_EFFECT,
    "--cli-binary-format": _VALUE_WITHOUT_EFFECT,
}
"""Options of the AWS CLI for all of its commands that change nothing here, before the verb or after it. The first five
change nothing in ``aws s3`` itself; timeouts are chosen by Seqferry."""

BEFORE_THE_VERB: Final = {
    "--endpoint-url": 1,
    "--profile": 1,
    "--region": 1,
    "--json": 0,
    "--dry-run": 0,
    "--no-sign-request": 0,
    "--quiet": 0,
    "--numworkers": 1,
    "--log": 1,
    "--stat": 0,
    "--use-list-objects-v1": 0,
    "--verbose": 0,
    **{name: meaning.values for name, meaning in GLOBAL.items()},
}
"""Options that may precede the verb, each with how many values it takes."""

BEFORE_NAMES: Final = {"-n": "--dry-run", "--dryrun": "--dry-run", "-v": "--verbose", "-q": "--quiet"}

IGNORED: Final = frozenset({"--log", "--stat", "--use-list-objects-v1", "--verbose", *GLOBAL})
"""Options before the verb that change nothing here."""

VERBOSE: Final = frozenset({"-v", "-vv", "--verbose"})

ONLY_FOR_COPIES: Final = frozenset({"--numworkers"})


def _mebibytes(value: str) -> str:
    """A part size of s5cmd, which counts in MiB."""
    return f"{value}MiB" if value.isdigit() and int(value) <= 5 * 1024 else value


def _binary(value: str) -> str:
    """A size of rclone, whose letters are binary units."""
    return f"{value}iB" if value[-1:] in "kKMGTP" and value[:-1].isdigit() else value


def _first(count: str) -> str:
    return f"0-{int(count) - 1}" if count.isdigit() and int(count) > 0 else count


def _last(count: str) -> str:
    return f"-{count}"


def _from(first: str) -> str:
    return f"{first}-"


def _key_file(named: str) -> str:
    """The file of a customer's key, which the AWS CLI reads by ``fileb://``."""
    return named.removeprefix("fileb://")


def _case_conflict(mode: str) -> list[str]:
    """No option for the modes of the AWS CLI that leave names which differ in case as two files, as Linux has them.

    Raises:
        UsageError: one of them is to be left out.
    """
    if mode in ("ignore", "warn"):
        return []
    raise UsageError(
        f"--case-conflict {mode}: names that differ in case only are two files on Linux, and both are written; write "
        "ignore, or leave one out with --exclude."
    )


OPTIONS: Final[Mapping[str, Meaning]] = {
    "-a": Meaning(("--recursive",)),
    "--progress": Meaning(),
    "-P": Meaning(),
    "--show-progress": Meaning(),
    "--sp": Meaning(),
    "-v": Meaning(),
    "-vv": Meaning(),
    "--verbose": Meaning(),
    "--follow-symlinks": Meaning(),
    "--copy-links": Meaning(),
    "--no-guess-mime-type": Meaning(),
    "--fast-list": Meaning(),
    "--no-traverse": Meaning(),
    "--create-empty-src-dirs": Meaning(("--empty-directories",)),
    "--ignore-glacier-warnings": Meaning(),
    "--s3-no-check-bucket": Meaning(),
    "--stats": Meaning(values=1),
    "--checkers": Meaning(values=1),
    "--page-size": Meaning(values=1),
    "--expected-size": Meaning(values=1),
    "--checksum-mode": Meaning(values=1),
    "--sse-c": Meaning(values=1),
    "--sse-c-copy-source": Meaning(values=1),
    "--sse-c-key": Meaning(("--sse-c-key",), 1, _key_file),
    "--sse-c-copy-source-key": Meaning(("--sse-c-copy-source-key",), 1, _key_file),
    "--case-conflict": Meaning(values=1, into=_case_conflict),
    "--progress-frequency": Meaning(values=1),
    "--progress-multiline": Meaning(),
    "--only-show-errors": Meaning(("--quiet",)),
    "--use-json-log": Meaning(("--json",)),
    "--bwlimit": Meaning(("--max-bandwidth",), 1),
    "--transfers": Meaning(("--max-requests",), 1),
    "--concurrency": Meaning(("--max-requests",), 1),
    "--numworkers": Meaning(("--max-requests",), 1),
    "--ignore-existing": Meaning(("--if-exists", "skip")),
    "--no-clobber": Meaning(("--if-exists", "skip")),
    "--no-overwrite": Meaning(("--if-exists", "skip")),
    "--immutable": Meaning(("--if-exists", "fail")),
    "--size-only": Meaning(("--if-exists", "size")),
    "--if-size-differ": Meaning(("--if-exists", "size")),
    "--ignore-times": Meaning(("--if-exists", "overwrite")),
    "--checksum": Meaning(("--verify", "checksum")),
    "--no-follow-symlinks": Meaning(("--symlinks", "skip")),
    "--skip-links": Meaning(("--symlinks", "skip")),
    "--links": Meaning(("--symlinks", "keep")),
    "--destination-region": Meaning(("--target-region",), 1),
    "--part-size": Meaning(("--part-size",), 1, _mebibytes),
    "--s3-chunk-size": Meaning(("--part-size",), 1, _binary),
    "--s3-storage-class": Meaning(("--storage-class",), 1),
    "--s3-endpoint": Meaning(("--endpoint-url",), 1),
    "--s3-region": Meaning(("--region",), 1),
    "--min-age": Meaning(("--older-than",), 1),
    "--max-age": Meaning(("--newer-than",), 1),
}
"""Options of ``cp``, ``sync``, ``mv`` and ``check`` under other names."""

_OF_WRITERS: Final = ("--part-size", "--s3-chunk-size", "--s3-storage-class")
"""Those of them that say how objects are written."""

_LISTING: Final[Mapping[str, Meaning]] = {
    "-l": Meaning(),
    "--long": Meaning(),
    "--page-size": Meaning(values=1),
    "--humanize": Meaning(("--human-readable",)),
    "--show-fullpath": Meaning(("--recursive",)),
    "--only-show-errors": Meaning(),
}
"""Options of ``ls`` and ``du`` under other names."""

_REMOVING: Final[Mapping[str, Meaning]] = {
    "--only-show-errors": Meaning(("--quiet",)),
    "--page-size": Meaning(values=1),
    "--force": Meaning(("--yes",)),
    "-f": Meaning(("--yes",)),
    "-rf": Meaning(("--recursive", "--yes")),
    "-fr": Meaning(("--recursive", "--yes")),
    "-v": Meaning(),
    "--verbose": Meaning(),
    "-P": Meaning(),
    "--progress": Meaning(),
    "-n": Meaning(("--dry-run",)),
    "--min-age": Meaning(("--older-than",), 1),
    "--max-age": Meaning(("--newer-than",), 1),
}
"""Options of ``rm`` under other names."""

_PRINTING: Final[Mapping[str, Meaning]] = {
    "-v": Meaning(),
    "-vv": Meaning(),
    "--verbose": Meaning(),
    "--head": Meaning(("--range",), 1, _first),
    "--tail": Meaning(("--range",), 1, _last),
    "--offset": Meaning(("--range",), 1, _from),
}
"""Options of ``cat`` under other names."""

_DRY: Final[Mapping[str, Meaning]] = {"-n": Meaning(("--dry-run",)), "--min-age": Meaning(("--older-than",), 1)}

OPTIONS_BY_TYPED_VERB: Final[Mapping[str, Mapping[str, Meaning]]] = {
    "cp": {
        "-c": Meaning(("--max-requests",), 1),
        "-p": Meaning(("--part-size",), 1, _mebibytes),
        "-s": Meaning(("--if-exists", "size")),
    },
    "mv": {
        "-c": Meaning(("--max-requests",), 1),
        "-p": Meaning(("--part-size",), 1, _mebibytes),
        "-s": Meaning(("--if-exists", "size")),
    },
    "copy": {"-c": Meaning(("--verify", "checksum"))},
    "move": {"-c": Meaning(("--verify", "checksum"))},
}
"""Short options, which mean different things in different tools: by the verb that was typed."""

_OPTIONS_BY_VERB: Final[Mapping[str, Mapping[str, Meaning]]] = {
    **dict.fromkeys(COPY_VERBS, OPTIONS),
    "check": {name: meaning for name, meaning in OPTIONS.items() if name not in _OF_WRITERS},
    "ls": _LISTING,
    "du": {name: meaning for name, meaning in _LISTING.items() if name != "--show-fullpath"} | {"-r": Meaning()},
    "rm": _REMOVING,
    "cat": _PRINTING,
    "cleanup": _DRY,
}


def options_of_verb(verb: str, typed: str = "") -> dict[str, Meaning]:
    """Options of others for one of our verbs, which was ``typed`` under this name."""
    return {
        **(GLOBAL if verb in TRANSLATED_VERBS else {}),
        **_OPTIONS_BY_VERB.get(verb, {}),
        **OPTIONS_BY_TYPED_VERB.get(typed, {}),
    }


REFUSALS: Final = {
    "--exact-timestamps": "objects are compared by ETag or checksum, and times decide nothing; leave it out.",
    "--update": "objects are compared by ETag or checksum, not by age; --if-exists skip keeps what is at DST.",
    "--if-source-newer": "objects are compared by ETag or checksum, not by age; --if-exists skip keeps what is at DST.",
    "--filter": "write --exclude and --include in their order; the last one that matches decides.",
    "--filter-from": "write --exclude and --include in their order; the last one that matches decides.",
    "--backup-dir": "a bucket with versioning keeps what is replaced, a file on a disk is gone; see --if-exists skip.",
    "--no-verify-ssl": "connections are always verified; name your certificate with AWS_CA_BUNDLE=FILE.",
    "--no-check-certificate": "connections are always verified; name your certificate with AWS_CA_BUNDLE=FILE.",
    "--ca-bundle": "name your certificate with AWS_CA_BUNDLE=FILE.",
    "--credentials-file": "name your file with AWS_SHARED_CREDENTIALS_FILE=FILE.",
    "--retries": "requests are tried again by themselves; --attempts N sets how often.",
    "--retry-count": "requests are tried again by themselves; --attempts N sets how often.",
    "--low-level-retries": "requests are tried again by themselves; --attempts N sets how often.",
    "--tpslimit-burst": "--tpslimit N limits the requests per second; its burst cannot be set.",
    "--flatten": "several sources of one folder, or a wildcard, name objects by what follows the last slash.",
    "--force-glacier-transfer": "--restore asks for readable copies of archived objects, waits for them and copies.",
    **dict.fromkeys(
        ("--debug", "--v2-debug"),
        "SEQFERRY_TRACE=stderr shows each request, SEQFERRY_DEBUG=1 where an error comes from.",
    ),
    "--cli-auto-prompt": "seqferry asks for no options; seqferry VERB --help lists them.",
    "--cli-error-format": "an error is one line of text, and an event where --json is given; leave it out.",
    "--website-redirect": "copies redirect to no other address; use the tool of your storage.",
    "--validate-same-s3-paths": "places are compared by bucket and key; write buckets, not access points, for both.",
    "--log-file": "write 2>FILE for what is said, --json >FILE for events.",
    "--log-level": "--quiet says less; SEQFERRY_TRACE=stderr shows each request.",
    "--exit-on-error": "a failed object stops no other; the exit code tells, and status ID --failed names it.",
    "--delete-excluded": "what is excluded is left alone at DST as well; remove it with seqferry rm.",
}
"""Options that have no equal, each with what to do instead."""

_NEEDS_CREDENTIALS: Final = "it changes a bucket, which needs credentials; leave it out."

REFUSALS_BY_VERB: Final[Mapping[str, Mapping[str, str]]] = {
    "check": dict.fromkeys((*_OF_WRITERS, "--storage-class", "--dry-run"), "check writes nothing; leave it out."),
    "mv": dict.fromkeys(
        ("--version-id", "--all-versions"),
        "mv removes what it has copied, and an earlier version is not what is there now; use cp.",
    ),
    "sync": dict.fromkeys(("--version-id", "--all-versions"), "sync takes current versions; use cp."),
    "ls": {
        "--bucket-name-prefix": "write seqferry ls | grep PREFIX for the buckets whose names begin so.",
        "--bucket-region": "buckets are listed with those of all regions; leave it out.",
    },
    "mb": {
        "--tags": "seqferry does not configure buckets; use the tool of your storage.",
        "--no-sign-request": _NEEDS_CREDENTIALS,
    },
    "rb": {"--no-sign-request": _NEEDS_CREDENTIALS},
    "rm": {
        "--no-sign-request": _NEEDS_CREDENTIALS,
        "--request-payer": "the owner of a bucket pays for removals; leave it out.",
    },
    "presign": {
        "--no-sign-request": "an address that is not signed needs no command: ENDPOINT/BUCKET/KEY.",
    },
}
"""Options that have no equal for one of our verbs, each with what to do instead."""
