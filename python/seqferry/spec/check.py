"""Comparing two places: the spec of ``check``, and the mark of each object in its report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import OPERATION_CHECK, CheckedSpec
from seqferry.spec.build import draft_spec, with_operation
from seqferry.spec.validation import validate_spec

ONE_WAY: Final = "one_way"
"""Option: what only the target has is no difference."""

OPTIONS: Final = frozenset({ONE_WAY})

MISSING_AT_SOURCE: Final = "MissingAtSource"
MISSING_AT_TARGET: Final = "MissingAtTarget"
DIFFERS: Final = "Differs"

_MARKS: Final = {MISSING_AT_SOURCE: "-", MISSING_AT_TARGET: "+", DIFFERS: "*"}


def build_check_spec(
    source: str | Sequence[str], target: str, *, one_way: bool = False, verify: str = "checksum", **given: Any
) -> CheckedSpec:
    """The spec of ``check SOURCE TARGET``; ``given`` is for ``build_spec``.

    Raises:
        UsageError: the addresses or options do not fit a comparison.
    """
    if given.get("if_exists") == "size":
        raise UsageError(
            "check compares contents, and equal sizes prove none: leave --size-only out. With --verify auto they are "
            "enough where there is no checksum."
        ).about("if_exists")
    # A rule for copies, which may come from the environment: a comparison skips nothing.
    given = {**given, "if_exists": "same"}
    if given.get("rename") and not one_way:
        raise UsageError(
            "With --rename, objects that exist only at DST have no name at SRC: add --one-way, or leave --rename out."
        ).about("rename")
    spec = with_operation(draft_spec(source, target, verify=verify, **given), OPERATION_CHECK)
    if isinstance(spec.target, LocalFolder) and not os.path.isdir(spec.target.path):  # noqa: PTH112
        raise UsageError(
            f"There is no folder '{spec.target.path}' to compare with; correct the path, or copy first: seqferry cp."
        ).about("target")
    options = {ONE_WAY: True} if one_way else {}
    return validate_spec(replace(spec, options=options))


def mark(state: str, error_code: str | None) -> str:
    """Mark of an object as ``rclone check --combined`` writes it.

    ``=`` identical, ``*`` differs, ``+`` only in the source, ``-`` only in the target, ``!`` could not be compared.
    """
    if state in ("done", "skipped") and error_code is None:
        return "="
    return _MARKS.get(error_code or "", "!")
