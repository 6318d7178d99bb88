"""Unpacking an archive: its spec, which members are wanted, and what happens to each. Decided here.

The operation, its dry run, ``seqferry tar ls`` and the HTTP API ask here.

What must stay true: a member becomes a key or a path only by the safe relative path that the engine gives it; the same
answer for a dry run and for the operation itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from typing import Any, Final, NamedTuple, cast

from seqferry import packing, paths, planning
from seqferry.engine import Engine, FoundMember
from seqferry.errors import UsageError
from seqferry.models import (
    OPERATION_PACK,
    OPERATION_UNPACK,
    LocalFolder,
    Location,
    PlannedCopy,
    S3Location,
    TransferSpec,
)
from seqferry.spec import MAX_KEYS, build_spec, checked, is_same_store, parse_uri

OPTIONS: Final = frozenset(
    {"include", "exclude", "members", "index", "links", "duplicates", "tolerate", "empty_directories"}
)

INDEXES: Final = ("auto", "never")
LINKS: Final = ("inside", "skip", "all")
DUPLICATES: Final = ("refuse", "last")
TOLERATED: Final = ("missing-end", "concatenated", "two-sizes")
"""Faults of archives that may be passed over when that is asked for."""

_OF_LISTINGS: Final = ("rules", "keys", "min_size", "max_size", "newer_than", "older_than", "rename")
_LISTS: Final = frozenset({"include", "exclude", "members", "tolerate"})
_MOST_PATTERNS: Final = 1000


class MemberDecision(NamedTuple):
    """What happens to one member. ``code`` and ``reason`` say why it is refused or left out."""

    source_key: str
    target_key: str
    code: str | None = None
    reason: str | None = None
    left_out: bool = False


def build_unpack_spec(
    source: str | Sequence[str],
    target: str,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    members: Sequence[str] | None = None,
    index: str = "auto",
    links: str = "inside",
    duplicates: str = "refuse",
    tolerate: Sequence[str] = (),
    empty_directories: bool = False,
    allow_local: bool = False,
    **given: Any,
) -> TransferSpec:
    """The spec of ``unpack SOURCE TARGET``; ``given`` is for ``build_spec``.

    Raises:
        UsageError: what is asked makes no sense.
    """
    for name in _OF_LISTINGS:
        if given.get(name) is not None:
            raise UsageError(f"'{name}' selects objects of a listing, and unpack takes one archive; use 'include'.")
    if not isinstance(source, str):
        raise UsageError("unpack takes one archive at a time; use one command for each.")
    given["raw"] = True  # a name with * or ? is one name
    to_disk = allow_local and paths.is_local(target)
    # Which endpoint and who, as of any transfer. What is made of the target of a single object does not apply here, and
    # both sides may be on this machine: another target stands in, in a bucket whose name no bucket has.
    spec = build_spec(source, "s3://-/", allow_local=allow_local, **given)
    if not spec.single:
        raise UsageError(f"'{source}' is a prefix or a folder, and unpack takes one archive; name it.")
    if to_disk:
        folder, _ = paths.target(target, None)
        # Links of the archive are made as such, and its empty folders as well.
        place: Location = LocalFolder(
            folder,
            symlinks="keep",
            empty_directories=True,
            page_cache=bool(given.get("page_cache")),
            preserve_permissions=bool(given.get("preserve_permissions")),
        )
    else:
        bucket, key = parse_uri(target)
        assert isinstance(spec.target, S3Location)
        place = replace(spec.target, bucket=bucket, key=key if not key or key.endswith("/") else f"{key}/")
    chosen: dict[str, Any] = {
        "include": list(include) or None,
        "exclude": list(exclude) or None,
        "members": None if members is None else list(dict.fromkeys(members)),
        "index": None if index == "auto" else index,
        "links": None if links == "inside" else links,
        "duplicates": None if duplicates == "refuse" else duplicates,
        "tolerate": sorted(set(tolerate)) or None,
        "empty_directories": empty_directories or None,
    }
    options = {name: value for name, value in chosen.items() if value is not None}
    made = replace(spec, single=False, target=place, operation=OPERATION_UNPACK, options=options)
    return checked(checked_options(made))


def build_operation_spec(operation: str, options: Mapping[str, Any], **given: Any) -> TransferSpec:
    """The spec of an operation with options of its own, as a client over HTTP asks for it.

    Raises:
        UsageError: what is asked makes no sense.
    """
    if operation == OPERATION_UNPACK:
        _check_types(options)
        return build_unpack_spec(**given, **options)
    if operation == OPERATION_PACK:
        return packing.build_from_options(options, **given)
    if options:
        raise UsageError(f"The operation '{operation}' has no options of its own; leave 'options' out.")
    return build_spec(**given)


def checked_options(spec: TransferSpec) -> TransferSpec:
    """Return ``spec`` when its options make sense.

    Raises:
        UsageError: they do not.
    """
    options = spec.options
    _check_types(options)
    for name, choices in (("index", INDEXES), ("links", LINKS), ("duplicates", DUPLICATES)):
        if name in options and options[name] not in choices:
            raise UsageError(f"--{name} '{options[name]}' is not known; choose one of {', '.join(choices)}.")
    for word in options.get("tolerate", []):
        if word not in TOLERATED:
            raise UsageError(f"--tolerate '{word}' is not known; choose among {', '.join(TOLERATED)}.")
    for name in ("include", "exclude"):
        if len(options.get(name, [])) > _MOST_PATTERNS:
            raise UsageError(f"At most {_MOST_PATTERNS} patterns can be given with --{name}; use --members-from.")
    if "members" in options and not options["members"]:
        raise UsageError("The list of members is empty; name at least one, or leave the list out to unpack all.")
    if len(options.get("members", [])) > MAX_KEYS:
        raise UsageError(f"The list names more than {MAX_KEYS:,} members; use --include with a pattern.")
    return spec


def _check_types(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in OPTIONS:
            raise UsageError(f"'{name}' is not an option of unpack; choose among {', '.join(sorted(OPTIONS))}.")
        if name in _LISTS:
            texts = cast("list[Any]", value) if isinstance(value, list) else [None]
            if not all(isinstance(one, str) and one for one in texts):
                raise UsageError(f"'{name}' is a list of texts, none of them empty.")
        elif not isinstance(value, bool if name == "empty_directories" else str):
            raise UsageError(f"'{value}' is not a value of '{name}'.")


class Selection:
    """Which members are wanted."""

    def __init__(self, options: Any) -> None:
        self._include = [_matcher(one) for one in options.get("include", [])]
        self._exclude = [_matcher(one) for one in options.get("exclude", [])]
        named: list[str] | None = options.get("members")
        self._named = None if named is None else {_plain(one): one for one in named}
        self._missing = dict(self._named or {})

    def wants(self, path: str) -> bool:
        """Whether a path of the archive is wanted. A listed name, or a pattern, stands for all below it as well."""
        plain = _plain(path)
        if self._named is not None and not self._is_named(plain):
            return False
        if self._include and not any(match(plain) for match in self._include):
            return False
        return not any(match(plain) for match in self._exclude)

    @property
    def missing(self) -> list[str]:
        """Names of the list that no member had so far."""
        return list(self._missing.values())

    def _is_named(self, plain: str) -> bool:
        named = self._named or {}
        above = plain
        while above:
            if above in named:
                self._missing.pop(above, None)
                return True
            above = above.rpartition("/")[0]
        return False


def scan(engine: Engine, spec: TransferSpec) -> Iterator[list[FoundMember]]:
    """Pages of all members of the archive, wanted or not; empty pages while waiting.

    Raises:
        StorageError: the archive cannot be read, or is refused as a whole; nothing came before that.
    """
    tolerated = spec.options.get("tolerate", [])
    return engine.scan_archive(
        spec.source,
        index=spec.options.get("index", "auto"),
        links=spec.options.get("links", "inside"),
        duplicates=spec.options.get("duplicates", "refuse"),
        missing_end="missing-end" in tolerated,
        concatenated="concatenated" in tolerated,
        lenient_sizes="two-sizes" in tolerated,
    )


def decided(
    engine: Engine, spec: TransferSpec, own: str | None = None
) -> Iterator[list[tuple[FoundMember | None, MemberDecision]]]:
    """Pages of the wanted members, each with what happens to it. A listed name that is no member comes without one.

    Raises:
        StorageError: as ``scan``.
    """
    selection = Selection(spec.options)
    to_disk = isinstance(spec.target, LocalFolder)
    directories = to_disk or bool(spec.options.get("empty_directories"))
    for page in scan(engine, spec):
        found: list[tuple[FoundMember | None, MemberDecision]] = []
        for member in page:
            is_folder = member.kind == "directory" and member.refusal is None
            if (is_folder and (member.implied or not directories)) or not selection.wants(member.path or member.name):
                continue
            found.append((member, _decide(spec, member, own)))
        yield found
    yield [(None, _missing(spec, name)) for name in selection.missing]


def preview(engine: Engine, spec: TransferSpec, own: str) -> Iterator[PlannedCopy]:
    """What unpacking would write, member by member."""
    for page in decided(engine, spec, own):
        for member, decision in page:
            size = 0 if member is None else member.size
            yield PlannedCopy(decision.source_key, decision.target_key, size, decision.reason, decision.left_out)


def _decide(spec: TransferSpec, member: FoundMember, own: str | None) -> MemberDecision:
    source_key = f"{spec.source.key}!/{member.path or member.name}"
    target_key = spec.target.key + member.path
    if member.refusal is not None:
        code, cause = member.refusal
        reason = f"{spec.source.at(source_key)}: {cause}."
        return MemberDecision(source_key, target_key, code, reason, member.left_out)
    refused = planning.refusal(spec, source_key, target_key, member.size, None, own)
    if refused is None and target_key == spec.source.key and is_same_store(spec):
        refused = (
            "TargetIsSource",
            f"{spec.target.at(target_key)} is the archive itself. Choose another target prefix.",
        )
    if refused is not None:
        return MemberDecision(source_key, target_key, *refused, left_out=refused[0] in paths.LEFT_OUT)
    return MemberDecision(source_key, target_key)


def _missing(spec: TransferSpec, name: str) -> MemberDecision:
    source_key = f"{spec.source.key}!/{name}"
    return MemberDecision(
        source_key, spec.target.key + name, "NoSuchMember", f"The archive {spec.source.uri} has no member '{name}'."
    )


def _matcher(pattern: str) -> Callable[[str], bool]:
    """A pattern matches a whole path, or a folder above it; ``*`` passes slashes."""
    plain = _plain(pattern)
    return re.compile(f"{translate(plain)}|{translate(plain + '/*')}").match  # type: ignore[return-value]


def _plain(path: str) -> str:
    """Without ``./`` at its start and slashes at its end."""
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path.rstrip("/")


def read_names(lines: Iterable[str]) -> list[str]:
    """The names in a list of members: one per line, empty lines left out."""
    return [name for line in lines if (name := line.rstrip("\r\n"))]
