"""Words of ``aws s3``, s5cmd, rclone and cp, each with what it means here.

``cli.foreign_commands`` translates them into our command line; ``nextflow`` takes those of one tool by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
TRANSLATED_VERBS: Final = (
    COPY_VERBS | LIST_VERBS | {"rm", "mb", "rb", "presign", "head", "cat", "cleanup", "mount", "pack"}
)
"""Verbs whose options are translated."""


class Meaning(NamedTuple):
    """An option of others.

    Attributes:
        ours: our options for it; empty where Seqferry does it by default.
        values: how many values it takes.
        of_value: its value in our form; None to take it as it is.
        into: our options and their values for its value, where they are more than one, or where only some values have
            an equal.
        refused: what to do instead of an option without an equal.
    """

    ours: tuple[str, ...] = ()
    values: int = 0
    of_value: Callable[[str], str] | None = None
    into: Callable[[str], list[str]] | None = None
    refused: str = ""


NO_EFFECT: Final = Meaning()
VALUE_WITHOUT_EFFECT: Final = Meaning(values=1)

GLOBAL: Final[Mapping[str, Meaning]] = {
    "--output": VALUE_WITHOUT_EFFECT,
    "--query": VALUE_WITHOUT_EFFECT,
    "--color": VALUE_WITHOUT_EFFECT,
    "--no-paginate": NO_EFFECT,
    "--no-cli-pager": NO_EFFECT,
    "--no-cli-auto-prompt": NO_EFFECT,
    "--cli-read-timeout": VALUE_WITHOUT_EFFECT,
    "--cli-connect-timeout": VALUE_WITHOUT_EFFECT,
    "--cli-binary-format": VALUE_WITHOUT_EFFECT,
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


_RESTORING: Final[Mapping[str, Meaning]] = {
    "--days": Meaning(("--restore-days",), 1),
    "--tier": Meaning(("--restore-tier",), 1),
}
"""Fields of a request to restore an archived object, as ``aws s3api`` names them."""

OPTIONS: Final[Mapping[str, Meaning]] = {
    "-a": Meaning(("--recursive",)),
    "--progress": NO_EFFECT,
    "-P": NO_EFFECT,
    "--show-progress": NO_EFFECT,
    "--sp": NO_EFFECT,
    "-v": NO_EFFECT,
    "-vv": NO_EFFECT,
    "--verbose": NO_EFFECT,
    "--follow-symlinks": NO_EFFECT,
    "--copy-links": NO_EFFECT,
    "--no-guess-mime-type": NO_EFFECT,
    "--fast-list": NO_EFFECT,
    "--no-traverse": NO_EFFECT,
    "--create-empty-src-dirs": Meaning(("--empty-directories",)),
    "--ignore-glacier-warnings": NO_EFFECT,
    "--s3-no-check-bucket": NO_EFFECT,
    "--stats": VALUE_WITHOUT_EFFECT,
    "--checkers": VALUE_WITHOUT_EFFECT,
    "--page-size": VALUE_WITHOUT_EFFECT,
    "--expected-size": VALUE_WITHOUT_EFFECT,
    "--checksum-mode": VALUE_WITHOUT_EFFECT,
    "--sse-c": VALUE_WITHOUT_EFFECT,
    "--sse-c-copy-source": VALUE_WITHOUT_EFFECT,
    "--sse-c-key": Meaning(("--sse-c-key",), 1, _key_file),
    "--sse-c-copy-source-key": Meaning(("--sse-c-copy-source-key",), 1, _key_file),
    "--case-conflict": Meaning(values=1, into=_case_conflict),
    "--progress-frequency": VALUE_WITHOUT_EFFECT,
    "--progress-multiline": NO_EFFECT,
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
    **_RESTORING,
}
"""Options of ``cp``, ``sync``, ``mv`` and ``check`` under other names."""

_OF_WRITERS: Final = ("--part-size", "--s3-chunk-size", "--s3-storage-class")
"""Those of them that say how objects are written."""

_LISTING: Final[Mapping[str, Meaning]] = {
    "-l": NO_EFFECT,
    "--long": NO_EFFECT,
    "--page-size": VALUE_WITHOUT_EFFECT,
    "--humanize": Meaning(("--human-readable",)),
    "--show-fullpath": Meaning(("--recursive",)),
    "--only-show-errors": NO_EFFECT,
}
"""Options of ``ls`` and ``du`` under other names."""

_REMOVING: Final[Mapping[str, Meaning]] = {
    "--only-show-errors": Meaning(("--quiet",)),
    "--page-size": VALUE_WITHOUT_EFFECT,
    "--force": Meaning(("--yes",)),
    "-f": Meaning(("--yes",)),
    "-rf": Meaning(("--recursive", "--yes")),
    "-fr": Meaning(("--recursive", "--yes")),
    "-v": NO_EFFECT,
    "--verbose": NO_EFFECT,
    "-P": NO_EFFECT,
    "--progress": NO_EFFECT,
    "-n": Meaning(("--dry-run",)),
    "--min-age": Meaning(("--older-than",), 1),
    "--max-age": Meaning(("--newer-than",), 1),
}
"""Options of ``rm`` under other names."""

_PRINTING: Final[Mapping[str, Meaning]] = {
    "-v": NO_EFFECT,
    "-vv": NO_EFFECT,
    "--verbose": NO_EFFECT,
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
    "du": {name: meaning for name, meaning in _LISTING.items() if name != "--show-fullpath"} | {"-r": NO_EFFECT},
    "rm": _REMOVING,
    "cat": _PRINTING,
    "cleanup": _DRY,
    "pack": _RESTORING,
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


def refusals_of_verb(verb: str) -> dict[str, str]:
    """Options of others without an equal in one of our verbs, each with what to do instead."""
    return {**REFUSALS, **REFUSALS_BY_VERB.get(verb, {})}


_AWS: Final = ("--region", "--profile", "--endpoint-url", "--no-sign-request", "--debug", "--v2-debug", "--ca-bundle")
_AWS_ERRORS: Final = ("--cli-auto-prompt", "--cli-error-format", "--no-verify-ssl", "--request-payer")
_ATTRIBUTES: Final = (
    *("--storage-class", "--acl", "--sse", "--sse-kms-key-id", "--content-type", "--content-encoding"),
    *("--content-disposition", "--cache-control", "--expires", "--metadata", "--metadata-directive"),
    *("--source-region", "--force-glacier-transfer", "--ignore-glacier-warnings"),
)
_S5CMD: Final = (
    *("--endpoint-url", "--profile", "--no-sign-request", "--log", "--request-payer", "--numworkers"),
    *("--retry-count", "-r", "--no-verify-ssl"),
)
_OF_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "aws cp": (
        *(*_AWS, *_AWS_ERRORS, *GLOBAL, *_ATTRIBUTES, "--only-show-errors", "--quiet", "--no-progress", "--dryrun"),
        *("--progress-multiline", "--progress-frequency", "--recursive", "--follow-symlinks", "--no-follow-symlinks"),
        *("--no-overwrite", "--no-guess-mime-type", "--expected-size", "--page-size", "--checksum-mode"),
        *("--case-conflict", "--website-redirect", "--sse-c", "--sse-c-copy-source", "--sse-c-key"),
        *("--sse-c-copy-source-key", "--grants", "--checksum-algorithm", "--copy-props", "--content-language"),
        *("--tags", "--include", "--exclude"),
    ),
    "aws ls": (
        *(*_AWS, *_AWS_ERRORS, *GLOBAL, "--recursive", "--page-size", "--human-readable", "--summarize"),
        *("--bucket-name-prefix", "--bucket-region"),
    ),
    "s5cmd cp": (*_S5CMD, *_ATTRIBUTES, "--region", "--destination-region", "--raw"),
    "s5cmd ls": _S5CMD,
}
"""Options of the commands that ``nextflow`` carries out in the place of these tools."""

_FLAGS: Final = frozenset(
    {"--no-sign-request", "--quiet", "--no-progress", "--dryrun", "--recursive", "--raw", "--human-readable"}
    | {"--summarize", "--debug", "--v2-debug", "--cli-auto-prompt", "--no-verify-ssl", "--force-glacier-transfer"}
)
"""Those of them that take no value, and that are ours by the same name or refused."""


def options_of_tool(tool: str, verb: str) -> dict[str, Meaning]:
    """Options that a tool has for one of its verbs, with what they mean for ours of the same name."""
    translated, refusals = options_of_verb(verb), refusals_of_verb(verb)
    found: dict[str, Meaning] = {}
    for name in _OF_TOOLS[f"{tool} {verb}"]:
        values = 0 if name in _FLAGS else 1
        ours = translated.get(name, Meaning((name,), values))
        found[name] = Meaning(values=values, refused=refusals[name]) if name in refusals else ours
    return found


OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "--sse": ("AES256", "aws:kms", "aws:kms:dsse", "none"),
    "--sse-c": ("AES256",),
    "--sse-c-copy-source": ("AES256",),
    "--request-payer": ("requester",),
}
"""Options whose value may be left out, each with the values that it takes, the default one first."""

_ALIKE: Final = 3
"""Letters at the beginning that distinguish a mistyped value from a path: ``aws``, ``AES-256``."""

_GRANT: Final = re.compile(r"(read|readacl|writeacl|full)=\w+=.+")


def _is_value(word: str, values: Sequence[str]) -> bool:
    """True for one of the values, and for a word that begins as one does and is no path: a mistyped one, to refuse."""
    begin = word[:_ALIKE].lower()
    return word in values or (not {"/", "."} & set(word) and any(begin == value[:_ALIKE].lower() for value in values))


def complete(words: Sequence[str]) -> Iterator[str]:
    """The words with the value of each option in one word with it, where a value may be left out or several follow."""
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        following = rest[-1] if rest else ""
        if word in OPTIONAL:
            value = rest.pop() if _is_value(following, OPTIONAL[word]) else OPTIONAL[word][0]
            yield f"{word}={value}"
        elif word == "--grants" and _GRANT.fullmatch(following):
            while rest and _GRANT.fullmatch(rest[-1]):
                yield f"--grants={rest.pop()}"
        elif word == "--tags" and "=" not in following and len(rest) > 1:
            # The AWS CLI writes the key and the value of a tag as two words.
            yield f"--tags={rest.pop()}={rest.pop()}"
        elif word == "--":
            yield word
            yield from reversed(rest)
            return
        else:
            yield word
