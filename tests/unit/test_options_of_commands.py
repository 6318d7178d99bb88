"""Options of ``cp`` about objects, filters and the storage: other commands and HTTP have them, or the reason is here.

The table is made of the groups of options, of the parameters of commands and of the fields of request bodies.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
import typer
from pydantic import BaseModel

from seqferry.api.routes import schedules
from seqferry.api.schemas import TransferRequest
from seqferry.api.verb_bodies import CheckRequest, CleanupRequest, MoveRequest, VerificationRequest
from seqferry.cli.app import application, build_command
from seqferry.cli.commands import schedule
from seqferry.model.option_fields import option_fields
from seqferry.spec.option_groups import OF_REQUESTS

OPTIONS: Final = {one.name for group in OF_REQUESTS for one in option_fields(group)}
"""Options of ``cp`` about objects, filters and the storage."""

WRITING: Final = {
    *("part_size", "copy_threshold", "page_cache", "storage_class", "md5", "preserve_permissions"),
    *("sse", "sse_kms_key_id", "bucket_key_enabled", "acl", "grants", "object_lock", "object_lock_mode"),
    *("object_lock_until", "object_lock_legal_hold", "content_type", "content_encoding", "content_language"),
    *("content_disposition", "cache_control", "expires", "metadata", "metadata_directive", "tags", "copy_props"),
    "checksum_algorithm",
}
OF_VERSIONS: Final = {"version_id", "all_versions"}
OF_PROCESS: Final = {"max_requests", "max_bandwidth", "memory", "cache", "max_cache_size"}
OF_DISKS: Final = {"symlinks", "empty_directories", "page_cache", "preserve_permissions", "md5"}
OF_FILES: Final = {"files_from", "files_format", "include", "exclude"}
OF_LISTING: Final = {
    *("if_exists", "restore", "restore_days", "restore_tier", "settle", "symlinks", "recursive", "raw"),
    "empty_directories",
}
OF_SIDES: Final = {f"{side}_{name}" for side in ("source", "target") for name in ("endpoint_url", "profile", "region")}

_NOTHING: Final[dict[str, set[str]]] = {}
_OF_HTTP: Final = {
    "limits belong to the process that works: the server": OF_PROCESS,
    "files of this machine belong to the user of the command line": OF_DISKS,
    "``rules``, ``keys``, ``objects`` and ``inventory`` name what these name": OF_FILES,
}
_OF_MOVES: Final = {"it removes what it has copied, and an earlier version is not what is there now": OF_VERSIONS}
_OF_CHECKS: Final = {"it writes nothing": WRITING}
_OF_VERIFICATIONS: Final = {
    "it writes nothing": WRITING | {"verify"},
    "its objects are on record: nothing is listed": OF_LISTING | OF_VERSIONS,
    "it has one place": OF_SIDES,
}
_OF_CLEANUPS: Final = {
    "it writes nothing": WRITING | {"verify"},
    "open uploads are no objects: they have neither size nor version, and a prefix and an age select them": {
        *OF_LISTING, *OF_VERSIONS, *OF_FILES, *("rules", "rename", "max_depth", "min_size", "max_size", "newer_than"),
        *("sse_c_key", "sse_c_copy_source_key", "request_payer"),
    },
    "it has one place": OF_SIDES,
    "it writes, which no service allows without credentials": {"no_sign_request"},
}  # fmt: skip
_OF_SCHEDULES: Final = {"limits belong to the process that works: a worker": OF_PROCESS}

COMMANDS: Final[dict[str, dict[str, set[str]]]] = {
    "cp": _NOTHING,
    "sync": {"it compares what is there now": OF_VERSIONS},
    "mv": _OF_MOVES,
    "check": _OF_CHECKS,
    "verify": _OF_VERIFICATIONS,
    "cleanup": _OF_CLEANUPS,
    "schedule add cp": _OF_SCHEDULES,
    "schedule add sync": _OF_SCHEDULES | {"it compares what is there now": OF_VERSIONS},
    "schedule add mv": _OF_SCHEDULES | _OF_MOVES,
    "schedule add check": _OF_SCHEDULES | _OF_CHECKS,
    "schedule add verify": _OF_SCHEDULES | _OF_VERIFICATIONS,
    "schedule add cleanup": _OF_SCHEDULES | _OF_CLEANUPS,
}
"""Commands, each with the options that it does not take, by the reason."""

BODIES: Final[list[tuple[type[BaseModel], dict[str, set[str]]]]] = [
    (TransferRequest, _OF_HTTP),
    (MoveRequest, _OF_HTTP),  # versions are refused
    (CheckRequest, _OF_HTTP | {"it writes nothing": WRITING}),
    (VerificationRequest, _OF_HTTP | _OF_VERIFICATIONS),
    (CleanupRequest, _OF_HTTP | _OF_CLEANUPS),
]


def _parameters_of(command: str) -> set[str]:
    verb = command.removeprefix("schedule add ")
    if verb == command:
        found: Any = typer.main.get_command(application([verb])).commands[verb]  # type: ignore[attr-defined]
    else:
        found = build_command(verb, schedule.SPECS[verb])
    return {str(one.name) for one in found.params}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_each_option_of_cp_or_the_reason_is_known(command: str) -> None:
    excepted = set[str]().union(*COMMANDS[command].values())

    assert OPTIONS - _parameters_of(command) == excepted


@pytest.mark.parametrize(("body", "reasons"), BODIES)
def test_a_request_takes_each_option_of_cp_or_the_reason_is_known(
    body: type[BaseModel], reasons: dict[str, set[str]]
) -> None:
    excepted = set[str]().union(*reasons.values())

    assert OPTIONS - body.model_fields.keys() == excepted


def test_a_schedule_takes_what_the_requests_take() -> None:
    bodies = {name: field.annotation for name, field in schedules.ScheduleRequest.model_fields.items()}
    repeated = {name: bodies[name] for name in ("transfer", "move", "check", "verification", "cleanup")}

    assert set(schedule.SPECS) == {"cp", "sync", "mv", "check", "verify", "cleanup"}
    assert repeated == {
        "transfer": TransferRequest | None,
        "move": MoveRequest | None,
        "check": CheckRequest | None,
        "verification": schedules.RepeatedVerification | None,
        "cleanup": schedules.RepeatedCleanup | None,
    }
    assert issubclass(schedules.RepeatedVerification, VerificationRequest)
