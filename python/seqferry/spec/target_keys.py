"""Names at the target: what the object of a source is called there, by its own name, a list, or rules that rename.

What must stay true: the same answer wherever it is asked, without a request; two objects of a list never get one name.
"""

from __future__ import annotations

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import TransferSpec
from seqferry.spec import renaming


def target_key(spec: TransferSpec, source_key: str, version_id: str | None = None) -> str:
    """Target key of the object ``source_key``. Only the start of the key is touched, never a later match of the prefix.

    What a list names goes where the list says; rules rename everything else.
    """
    if spec.single:
        return spec.target.key
    name = source_key.removeprefix(spec.strip)
    if spec.targets:
        given, named = spec.compile_with(_targets_by_key), source_key.removeprefix(spec.source.key)
        if found := given.get((named, version_id or "")) or given.get((named, "")):
            return spec.target.key + found
    return spec.target.key + (renaming.rename(spec.names.rename, name) if spec.names.rename else name)


def _targets_by_key(spec: TransferSpec) -> dict[tuple[str, str], str]:
    """Targets of a list by key and version."""
    versions = spec.versions or ("",) * len(spec.targets)
    return {
        (key, version): target
        for key, version, target in zip(spec.keys or (), versions, spec.targets, strict=True)
        if target
    }


def source_key(spec: TransferSpec, target_key: str) -> str:
    """Source key of the object at ``target_key``: the inverse of the function ``target_key`` for all of a prefix."""
    return spec.strip + target_key.removeprefix(spec.target.key)


def check(spec: TransferSpec) -> None:
    """Refuse lists and rules that name no object, or two for the same target."""
    renaming.check(spec.names.rename)
    if spec.names.rename and spec.single:
        raise UsageError(
            "--rename is for names below a prefix or a folder; give the new name of one object as DST."
        ).about("rename")
    if spec.names.rename and spec.removal.delete:
        raise UsageError(
            "--delete removes what has no object of its name at SRC, and --rename changes the names; leave out one."
        ).about("delete")
    if (spec.names.rename or spec.targets or spec.versions) and not (spec.kind.copies or spec.kind.compares):
        raise UsageError(
            f"New names and versions are for cp, sync and check; {spec.kind.command} takes the objects as they are."
        ).about("rename", "keys")
    if spec.versions and spec.kind.removes_sources:
        raise UsageError(
            "mv removes what it has copied, and an earlier version is not what is there now; use cp."
        ).about("version_id", "keys")
    keys = (spec.source.key,) if spec.single else spec.keys or ()
    for what, given in (("versions", spec.versions), ("targets", spec.targets)):
        if given and len(given) != len(keys):
            raise UsageError(f"The list has {len(keys)} keys and {len(given)} {what}; give one for each key.").about(
                "keys"
            )
    if spec.versions and isinstance(spec.source, LocalFolder):
        raise UsageError("Local files have no versions; leave the version ids out.").about("version_id", "keys")
    if spec.versions and spec.selection.restore:
        raise UsageError(
            "--restore is for current objects; restore earlier versions with the storage's own tools."
        ).about("restore")
    if spec.single or (not spec.targets and not spec.names.rename and not spec.versions):
        return
    if both := {key for key, version in zip(keys, spec.versions, strict=False) if not version} & {
        key for key, version in zip(keys, spec.versions, strict=False) if version
    }:
        raise UsageError(f"'{min(both)}' is named with and without a version id; give one in each of its rows.").about(
            "keys"
        )
    taken: dict[str, str] = {}
    for key, version in zip(keys, spec.versions or ("",) * len(keys), strict=True):
        target = target_key(spec, spec.source.key + key, version)
        shown = f"'{key}'" + (f" (version {version})" if version else "")
        if (other := taken.setdefault(target, shown)) != shown:
            raise collision_error(spec, target, other, shown)


def collision_error(spec: TransferSpec, target_key: str, one: str, other: str) -> UsageError:
    """The error for two objects of the source, given as text, with the same target key."""
    text = (
        f"{one} and {other} would both become {spec.target.at(target_key)}. Nothing was copied; "
        "give them different names with --rename, or leave one out."
    )
    return UsageError(text.encode("utf-8", "backslashreplace").decode()).about("rename", "keys")


def without_nul(key: str) -> str:
    """Key as PostgreSQL can record it, which stores no NUL."""
    return key.replace("\0", "\\x00")


def nul_refusal(source_key: str) -> tuple[str, str]:
    """Refusal of an object whose source or target key the database cannot record, as code and message."""
    why = f"The key {without_nul(source_key)} holds a NUL character, and PostgreSQL cannot record it."
    return "NulInKey", f"{why} Copy it with records in SQLite (unset SEQFERRY_DATABASE_URL)."
