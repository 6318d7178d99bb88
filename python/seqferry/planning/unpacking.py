"""Unpacking an archive: its spec, which members are wanted, and what happens to each. Decided here.

The operation, its dry run, ``seqferry tar ls`` and the HTTP API ask here.

Invariant: a member becomes a key or a path only by the safe relative path that the engine gives it; the same
answer for a dry run and for the operation itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from seqferry.engine.engine import Engine, FoundMember
from seqferry.model import operations
from seqferry.model.errors import UsageError, errors_about
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import OPERATION_UNPACK, CheckedSpec, ResolvedSpec
from seqferry.places import paths
from seqferry.planning import decision
from seqferry.planning.decision import NO_RULES, Decision, KeyRules
from seqferry.spec import pack
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import build_spec, draft_spec, with_operation
from seqferry.spec.selection import build_conditions, build_matcher
from seqferry.spec.validation import MAX_KEYS, validate_spec

OPTIONS: Final = frozenset({"members", "index", "links", "duplicates", "tolerate", "empty_directories", "no_sync"})

INDEXES: Final = ("auto", "never")
LINKS: Final = ("inside", "skip", "all")
DUPLICATES: Final = ("refuse", "last")
TOLERATED: Final = ("missing-end", "concatenated", "trailing-bytes", "two-sizes")
"""Faults of archives that the option ``tolerate`` can ignore."""

_LISTS: Final = frozenset({"members", "tolerate"})
_FLAGS: Final = frozenset({"empty_directories", "no_sync"})


class FolderMember(NamedTuple):
    """A folder of an archive. It gets its time and permissions when all of the members are there."""

    path: str
    mode: int
    modified_ns: int


class MemberDecision(NamedTuple):
    """Name of a member below the source, and the decision on it."""

    source_key: str
    decision: Decision


def build_unpack_spec(
    source: str | Sequence[str],
    target: str,
    *,
    keys: Sequence[str] | None = None,
    members: Sequence[str] | None = None,
    index: str = "auto",
    links: str = "inside",
    duplicates: str = "refuse",
    tolerate: Sequence[str] = (),
    empty_directories: bool = False,
    no_sync: bool = False,
    allow_local: bool = False,
    **given: Any,
) -> CheckedSpec:
    """The spec of ``unpack SOURCE TARGET``; ``given`` is for ``build_spec``.

    Rules, sizes and ages select members as they select the objects of a listing. ``keys`` are ``members`` under the
    name that they have for other operations.

    Raises:
        UsageError: the source is no single archive, or an option does not fit members.
    """
    if not isinstance(source, str):
        raise UsageError("unpack takes one archive at a time; use one command for each.").about("source")
    if given.get("rename"):
        raise UsageError("--rename is for copies: members keep their paths. Leave it out.").about("rename")
    if any(given.pop("versions", None) or ()) or any(given.pop("targets", None) or ()):
        raise UsageError(
            "Members of an archive have neither versions nor names of their own; list their paths alone."
        ).about("version_id", "keys")
    if keys is not None and members is not None:
        raise UsageError("'keys' and 'members' both name members of the archive; give one of them.").about("keys")
    members = keys if members is None else members
    given["raw"] = True  # a name with * or ? is one name
    to_disk = allow_local and paths.is_local(target)
    # Endpoint and identity are resolved as for any transfer. The rules for the target of a single object do not apply
    # here, and both sides may be on this machine: a placeholder stands for the target, as no bucket can be named "-".
    spec = draft_spec(source, "s3://-/", allow_local=allow_local, **given)
    if not spec.single:
        raise UsageError(f"'{source}' is a prefix or a folder, and unpack takes one archive; name it.").about("source")
    if to_disk:
        with errors_about("target"):
            folder, _ = paths.parse_target(target, None)
        # Links of the archive are made as such, and its empty folders as well.
        place: Location = LocalFolder(
            folder,
            symlinks="keep",
            empty_directories=True,
            page_cache=bool(given.get("page_cache")),
            preserve_permissions=bool(given.get("preserve_permissions")),
        )
    else:
        with errors_about("target"):
            bucket, key = parse_uri(target)
        assert isinstance(spec.target, S3Location)
        place = replace(spec.target, bucket=bucket, key=key if not key or key.endswith("/") else f"{key}/")
    if no_sync and not to_disk:
        raise UsageError(
            "--no-sync is for a local folder: objects of a storage are durable when it says so. Leave it out."
        ).about("options")
    chosen: dict[str, Any] = {
        "members": None if members is None else list(dict.fromkeys(members)),
        "index": None if index == "auto" else index,
        "links": None if links == "inside" else links,
        "duplicates": None if duplicates == "refuse" else duplicates,
        "tolerate": sorted(set(tolerate)) or None,
        "empty_directories": empty_directories or None,
        "no_sync": no_sync or None,
    }
    options = {name: value for name, value in chosen.items() if value is not None}
    check_options(options)
    draft = with_operation(spec, OPERATION_UNPACK)
    return validate_spec(replace(draft, single=False, target=place, options=options))


def build_operation_spec(operation: str, options: Mapping[str, Any], **given: Any) -> CheckedSpec:
    """The spec of an operation with options of its own, as a client over HTTP asks for it.

    Raises:
        UsageError: an option is unknown to the operation, or the spec is not valid.
    """
    kind = operations.find_operation(operation)
    if kind.unpacks:
        _check_types(options)
        return build_unpack_spec(**given, **options)
    if kind.packs:
        return pack.build_from_options(options, **given)
    if options:
        raise UsageError(f"The operation '{operation}' has no options of its own; leave 'options' out.").about(
            "options"
        )
    return build_spec(**given)


@errors_about("options", "keys")
def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that make no sense.

    Raises:
        UsageError: an option has the wrong type or an unknown value.
    """
    _check_types(options)
    for name, choices in (("index", INDEXES), ("links", LINKS), ("duplicates", DUPLICATES)):
        if name in options and options[name] not in choices:
            raise UsageError(f"--{name} '{options[name]}' is not known; choose one of {', '.join(choices)}.")
    for word in options.get("tolerate", []):
        if word not in TOLERATED:
            raise UsageError(f"--tolerate '{word}' is not known; choose among {', '.join(TOLERATED)}.")
    if "members" in options and not options["members"]:
        raise UsageError("The list of members is empty; name at least one, or leave the list out to unpack all.")
    if len(options.get("members", [])) > MAX_KEYS:
        raise UsageError(f"The list names more than {MAX_KEYS:,} members; select them by --exclude and --include.")


@errors_about("options")
def _check_types(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in ("include", "exclude"):
            raise UsageError(f"'{name}' is no option of unpack; write 'rules', as [\"- *\", \"+ *.bam\"].")
        if name not in OPTIONS:
            raise UsageError(f"'{name}' is not an option of unpack; choose among {', '.join(sorted(OPTIONS))}.")
        if name in _LISTS:
            texts = cast("list[Any]", value) if isinstance(value, list) else [None]
            if not all(isinstance(one, str) and one for one in texts):
                raise UsageError(f"'{name}' is a list of texts, none of them empty.")
        elif not isinstance(value, bool if name in _FLAGS else str):
            raise UsageError(f"'{value}' is not a value of '{name}'.")


class MemberSelection:
    """Selection of members: the rules, sizes and ages of a spec, and its list of members."""

    def __init__(self, spec: ResolvedSpec) -> None:
        # Rules match whole paths within the archive, which do not include the key of the archive.
        self._test = build_matcher(build_conditions(spec)._replace(strip="", pattern=None, is_path=False))
        named: list[str] | None = spec.options.get("members")
        self._named = None if named is None else {_plain(one): one for one in named}
        self._missing = dict(self._named or {})

    def wants(self, path: str, size: int = 0, modified: float = 0.0) -> bool:
        """True when a member is wanted. A listed name stands for all below it as well."""
        if self._named is not None and not self._is_named(_plain(path)):
            return False
        return self._test is None or self._test(path, size, modified)

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


def scan(engine: Engine, spec: ResolvedSpec, *, retain: bool = False) -> Iterator[list[FoundMember]]:
    """Pages of all members of the archive, wanted or not; empty pages while waiting.

    Args:
        retain: the members are unpacked next (see the engine). If the spec requires verification of each member, the
            archive is compared with its own digest first.

    Raises:
        StorageError: the archive cannot be read, or is refused as a whole; nothing came before that.
    """
    tolerated = spec.options.get("tolerate", [])
    return engine.scan_archive(
        spec.source,
        retain=retain,
        index=spec.options.get("index", "auto"),
        links=spec.options.get("links", "inside"),
        duplicates=spec.options.get("duplicates", "refuse"),
        missing_end="missing-end" in tolerated,
        concatenated="concatenated" in tolerated,
        trailing_bytes="trailing-bytes" in tolerated,
        lenient_sizes="two-sizes" in tolerated,
        proven=retain and spec.storage.verify != "auto",
    )


def decide_members(
    engine: Engine,
    spec: ResolvedSpec,
    rules: KeyRules = NO_RULES,
    *,
    retain: bool = False,
    folders: list[FolderMember] | None = None,
) -> Iterator[list[tuple[FoundMember | None, MemberDecision]]]:
    """Pages of the wanted members, each with what happens to it. A listed name that is no member comes without one.

    Args:
        retain: see the engine.
        folders: gets the wanted folders of each page, where they become such.

    Raises:
        StorageError: as ``scan``.
    """
    selection = MemberSelection(spec)
    to_disk = isinstance(spec.target, LocalFolder)
    directories = to_disk or bool(spec.options.get("empty_directories"))
    for page in scan(engine, spec, retain=retain):
        found: list[tuple[FoundMember | None, MemberDecision]] = []
        for member in page:
            is_folder = member.kind == "directory" and member.refusal is None
            if is_folder and not directories:
                continue
            if not selection.wants(member.path or member.name, member.size, member.modified):
                continue
            if is_folder and to_disk and folders is not None:
                folders.append(FolderMember(member.path, member.mode, member.modified_ns))
            if is_folder and member.implied:
                continue
            found.append((member, _decide(spec, member, rules)))
        yield found
    yield [(None, _missing(spec, name)) for name in selection.missing]


def _decide(spec: ResolvedSpec, member: FoundMember, rules: KeyRules) -> MemberDecision:
    source_key = decision.member_key(spec, member.path or member.name)
    return MemberDecision(source_key, decision.decide_member(spec, member, rules))


def _missing(spec: ResolvedSpec, name: str) -> MemberDecision:
    return MemberDecision(decision.member_key(spec, name), decision.missing_member(spec, name))


def _plain(path: str) -> str:
    """Path without ``./`` at its start and slashes at its end."""
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path.rstrip("/")
